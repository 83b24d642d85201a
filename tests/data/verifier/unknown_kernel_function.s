# unknown function of the kernel
.license "GPL"

.section tc
.func main
    call kfunc 99999999
    r0 = 0
    exit

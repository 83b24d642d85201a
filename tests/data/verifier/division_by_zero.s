# division by zero
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r0 = 1
    r0 /= 0                              ; wrong
    exit

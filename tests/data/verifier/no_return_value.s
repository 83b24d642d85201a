# no return value
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = 1
    exit                                 ; wrong: r0 was never set

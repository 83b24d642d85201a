# arithmetic on a pointer
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 *= 2                              ; wrong: half of an address is no address
    r0 = 0
    exit

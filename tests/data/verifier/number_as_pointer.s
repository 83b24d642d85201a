# number used as a pointer
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = 4096
    r0 = *(u64 *)(r1 + 0)                ; wrong: 4096 is a number
    exit

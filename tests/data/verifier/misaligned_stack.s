# misaligned stack access
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    *(u64 *)(r10 - 9) = 0                ; wrong: -9 is no multiple of 8
    r0 = 0
    exit

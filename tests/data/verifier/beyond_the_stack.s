# beyond the stack
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    *(u64 *)(r10 - 520) = 0              ; wrong: the stack ends at r10 - 512
    r0 = 0
    exit

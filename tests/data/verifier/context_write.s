# write to the context
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    *(u64 *)(r1 + 16) = 0                ; wrong: the context is only read
    r0 = 0
    exit

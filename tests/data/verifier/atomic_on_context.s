# write to the context
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r2 = 1
    lock *(u64 *)(r1 + 16) += r2         ; wrong: the context is only read
    r0 = 0
    exit

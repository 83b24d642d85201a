# changed context pointer
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r2 = *(u64 *)(r1 + 16)
    r2 &= 24
    r1 += r2
    r0 = *(u64 *)(r1 + 0)                ; wrong: which field is it?
    exit

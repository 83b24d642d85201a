# arithmetic on a pointer
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r2 = *(u64 *)(r1 + 32)
    r2 &= 63
    r3 = r10
    r3 -= r2                             ; wrong: only constants
    *(u8 *)(r3 - 1) = 0
    r0 = 0
    exit

# 32-bit arithmetic on a pointer
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r2 = r10
    w2 += -8                             ; wrong: 32 bits of the address would be lost
    r0 = 0
    exit

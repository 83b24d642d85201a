# endless loop
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r6 = *(u64 *)(r1 + 16)
again:
    r6 += 1                              ; wrong: it may take 2^64 rounds
    if r6 != 0 goto again
    r0 = 0
    exit

# too many instructions
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r6 = 0
again:
    r6 += 1
    if r6 < 10000000 goto again
    r0 = 0
    exit

# bad context offset
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r0 = *(u64 *)(r1 + 16384)            ; wrong: no tracepoint has that many bytes
    exit

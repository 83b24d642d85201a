# shift too far
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r0 = 1
    r0 <<= 64                            ; wrong: r0 has 64 bits
    exit

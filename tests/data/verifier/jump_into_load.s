# jump into a load
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r0 = 0
    if r0 == 1 goto +1
    r2 = 5 ll                            ; wrong: the jump leads to its second slot
    exit

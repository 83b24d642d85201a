# write to the frame pointer
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r10 += -8                            ; wrong: r10 cannot be changed
    r0 = 0
    exit

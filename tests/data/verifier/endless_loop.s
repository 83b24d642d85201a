# endless loop
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r0 = 0
again:
    r1 = 0                               ; wrong: nothing changes from round to round
    if r1 == 0 goto again
    exit

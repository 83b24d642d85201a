# no end
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r0 = 0
    r0 += 1                              ; what comes then?

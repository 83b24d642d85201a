# uninitialised register
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r0 = r2                              ; wrong: only r1 and r10 have values at the start
    exit

# uninitialised register
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    call two
    r0 = 0
    exit
.func two
    r0 = r2                              ; wrong: who calls it gives no r2
    exit

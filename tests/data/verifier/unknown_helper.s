# unknown helper
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    call 9999                            ; wrong: there is no such helper
    r0 = 0
    exit

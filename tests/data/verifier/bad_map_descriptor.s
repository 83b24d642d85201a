# bad map descriptor
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = map[fd:12345]                   ; no descriptor of this process
    r0 = 0
    exit

# unreachable code
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r0 = 0
    exit
    r0 = 1                               ; wrong: nothing leads here
    exit

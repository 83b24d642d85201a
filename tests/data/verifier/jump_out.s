# jump out of the program
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    if r1 == 0 goto +10                  ; wrong: the program ends before
    r0 = 0
    exit

# wrong return value of a callback
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = 10
    r2 = subprog[again]
    r3 = 0
    r4 = 0
    call bpf_loop
    r0 = 0
    exit
.func again
    r0 = 7
    exit                                 ; wrong: 0 goes on, 1 stops

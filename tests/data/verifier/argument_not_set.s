# argument not set
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = r10
    r1 += -8
    call bpf_get_current_comm            ; wrong: r2, the size, was never set
    r0 = 0
    exit

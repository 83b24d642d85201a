# zero-sized argument
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = r10
    r1 += -8
    r2 = 0
    call bpf_get_current_comm            ; wrong: a size of 0
    r0 = 0
    exit

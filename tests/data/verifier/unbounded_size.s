# unbounded size
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r2 = *(u64 *)(r1 + 16)               ; any number
    r1 = r10
    r1 += -8
    r3 = 0
    call bpf_probe_read_kernel           ; wrong: r2 can be greater than 8
    r0 = 0
    exit

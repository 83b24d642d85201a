# license
.license "Proprietary"

.section tracepoint/syscalls/sys_enter_read
.func main
    call bpf_ktime_get_ns                ; the clock is fine for all
    r1 = r10
    r1 += -8
    r2 = 8
    r3 = 0
    call bpf_probe_read_kernel           ; wrong: for the GPL only
    r0 = 0
    exit

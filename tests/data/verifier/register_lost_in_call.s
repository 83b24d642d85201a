# register lost in a call
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    call bpf_ktime_get_ns
    r0 = *(u64 *)(r1 + 8)                ; wrong: the call took r1 away
    exit

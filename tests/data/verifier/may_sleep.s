# call that may sleep
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r3 = *(u64 *)(r1 + 24)               ; where the process wants its bytes
    r1 = r10
    r1 += -8
    r2 = 8
    call bpf_copy_from_user              ; wrong: it may wait for a page
    r0 = 0
    exit

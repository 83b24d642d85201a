# pointer gone after a call
.license "GPL"
.map ring, type ringbuf, entries 4096

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = map[ring]
    r2 = 8
    r3 = 0
    call bpf_ringbuf_reserve
    if r0 == 0 goto out
    r6 = r0
    r1 = r0
    r2 = 0
    call bpf_ringbuf_submit
    *(u64 *)(r6 + 0) = 1                 ; wrong: the record is not ours any more
out:
    r0 = 0
    exit

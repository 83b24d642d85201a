# size that is no constant
.license "GPL"
.map ring, type ringbuf, entries 4096

.section tracepoint/syscalls/sys_enter_read
.func main
    r2 = *(u64 *)(r1 + 32)               ; how much is asked for
    r1 = map[ring]
    r3 = 0
    call bpf_ringbuf_reserve             ; wrong: how large is the record?
    r0 = 0
    exit

# beyond the memory
.license "GPL"
.map ring, type ringbuf, entries 4096

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = map[ring]
    r2 = 8
    r3 = 0
    call bpf_ringbuf_reserve
    if r0 == 0 goto out
    *(u64 *)(r0 + 8) = 1                 ; wrong: it has 8 bytes, 0 to 7
    r1 = r0
    r2 = 0
    call bpf_ringbuf_submit
out:
    r0 = 0
    exit

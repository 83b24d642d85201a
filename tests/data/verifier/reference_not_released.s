# reference not released
.license "GPL"
.map events, type ringbuf, entries 4096

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = map[events]
    r2 = 8
    r3 = 0
    call bpf_ringbuf_reserve
    r0 = 0
    exit                                 ; wrong: neither submitted nor discarded

# map of the wrong type
.license "GPL"
.map counts, type hash, key 4, value 8, entries 4

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = map[counts]
    r2 = 8
    r3 = 0
    call bpf_ringbuf_reserve             ; wrong: this map is a hash
    r0 = 0
    exit

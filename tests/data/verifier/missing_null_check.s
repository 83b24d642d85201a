# missing null check
.license "GPL"
.map counts, type hash, key 4, value 8, entries 4

.section tracepoint/syscalls/sys_enter_read
.func main
    *(u32 *)(r10 - 4) = 0
    r1 = map[counts]
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    r1 = *(u64 *)(r0 + 0)                ; wrong: not compared with 0 before
    r0 = 0
    exit

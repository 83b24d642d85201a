# beyond the map value
.license "GPL"
.map counts, type array, key 4, value 8, entries 4

.section tracepoint/syscalls/sys_enter_read
.func main
    *(u32 *)(r10 - 4) = 0
    r1 = map[counts]
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto out
    r1 = *(u64 *)(r0 + 8)                ; wrong: the value has 8 bytes
out:
    r0 = 0
    exit

# write to a read-only map
.license "GPL"
.map counts, type array, key 4, value 8, entries 4, flags 128

.section tracepoint/syscalls/sys_enter_read
.func main
    *(u32 *)(r10 - 4) = 0
    r1 = map[counts]
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto out
    *(u64 *)(r0 + 0) = 1                 ; wrong: flag 128 forbids it
out:
    r0 = 0
    exit

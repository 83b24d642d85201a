# unbounded index
.license "GPL"
.map counts, type array, key 4, value 8, entries 4

.section tracepoint/syscalls/sys_enter_read
.func main
    r6 = *(u64 *)(r1 + 16)               ; any number
    *(u32 *)(r10 - 4) = 0
    r1 = map[counts]
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto out
    r0 += r6                             ; wrong: r6 can be anything
    r1 = *(u8 *)(r0 + 0)
out:
    r0 = 0
    exit

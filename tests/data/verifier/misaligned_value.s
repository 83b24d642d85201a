# misaligned access
.license "GPL"
.map counts, type array, key 4, value 16, entries 4

.section tracepoint/syscalls/sys_enter_read
.func main
    r2 = 1
    *(u32 *)(r10 - 4) = 0
    r1 = map[counts]
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto out
    r2 = 1
    lock *(u64 *)(r0 + 4) += r2          ; wrong: 4 is no multiple of 8
out:
    r0 = 0
    exit

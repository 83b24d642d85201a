# pointer leak
; with CAP_BPF alone: CAP_PERFMON may show pointers
.map counts, type array, key 4, value 8, entries 4

.section socket
.func main
    *(u32 *)(r10 - 4) = 0
    r1 = map[counts]
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto out
    *(u64 *)(r0 + 0) = r10               ; wrong: everybody can read the map
out:
    r0 = 0
    exit

# map without a lock
.license "GPL"
.map counts, type array, key 4, value 8, entries 1

.section tc
.func main
    *(u32 *)(r10 - 4) = 0
    r1 = map[counts]
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto out
    r1 = r0
    call bpf_spin_lock                   ; wrong: nothing says that there is a lock
out:
    r0 = 0
    exit

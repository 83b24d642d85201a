# write by an atomic operation
.license "GPL"

.section xdp
.func main
    r2 = *(u32 *)(r1 + 0)
    r3 = *(u32 *)(r1 + 4)
    r4 = r2
    r4 += 8
    if r4 > r3 goto out
    r1 = 1
    lock *(u64 *)(r2 + 0) += r1          ; wrong: a packet is not shared memory
out:
    r0 = 2
    exit

# pointer gone after a call
.license "GPL"

.section xdp
.func main
    r6 = r1
    r7 = *(u32 *)(r6 + 0)                ; data
    r3 = *(u32 *)(r6 + 4)                ; data_end
    r4 = r7
    r4 += 8
    if r4 > r3 goto out
    r1 = r6
    r2 = 4
    call bpf_xdp_adjust_head
    r0 = *(u8 *)(r7 + 0)                 ; wrong: data may be elsewhere now
out:
    r0 = 2
    exit

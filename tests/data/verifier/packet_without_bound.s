# packet without a bound
.license "GPL"

.section xdp
.func main
    r2 = *(u32 *)(r1 + 0)                ; data
    r0 = *(u8 *)(r2 + 0)                 ; wrong: the packet may be empty
    r0 = 2
    exit

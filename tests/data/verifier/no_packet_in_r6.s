# no packet in r6
.license "GPL"

.section socket
.func main
    r6 = r10
    r0 = *(u8 *)skb[0]                   ; wrong: r6 is not the context
    exit

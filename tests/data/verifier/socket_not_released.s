# reference not released
.license "GPL"

.section tc
.func main
    *(u64 *)(r10 - 16) = 0
    *(u64 *)(r10 - 8) = 0
    r2 = r10
    r2 += -16
    r3 = 12
    r4 = -1
    r5 = 0
    call bpf_sk_lookup_tcp
    r0 = 0
    exit                                 ; wrong: the socket, if there is one, stays held

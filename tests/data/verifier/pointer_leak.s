# pointer leak
; with CAP_BPF alone: CAP_PERFMON may show pointers

.section socket
.func main
    r0 = r10
    exit                                 ; wrong: an address is returned

# uninitialised stack
; with CAP_BPF alone: CAP_PERFMON may read what others left on the stack

.section socket
.func main
    r0 = *(u64 *)(r10 - 8)               ; wrong: nothing was written there
    exit

# too much stack
; Linux 6.13 and newer give programs on tracepoints a stack of their own for each function, and take more.
.license "GPL"

.section socket
.func main
    *(u64 *)(r10 - 304) = 0
    call second
    exit
.func second
    *(u64 *)(r10 - 304) = 0              ; together more than 512
    r0 = 0
    exit

# part of a saved pointer
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    *(u64 *)(r10 - 8) = r1
    r0 = *(u32 *)(r10 - 8)               ; wrong: half of the pointer
    exit

# wrong argument
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = 5
    r2 = r10
    r2 += -4
    *(u32 *)(r10 - 4) = 0
    call bpf_map_lookup_elem             ; wrong: 5 is no map
    r0 = 0
    exit

# beyond the stack
.license "GPL"
.map names, type hash, key 4, value 64, entries 4

.section tracepoint/syscalls/sys_enter_read
.func main
    *(u32 *)(r10 - 4) = 0
    r1 = map[names]
    r2 = r10
    r2 += -4
    r3 = r2
    r4 = 0
    call bpf_map_update_elem             ; wrong: a value has 64 bytes, and r3 shows 4
    r0 = 0
    exit

# pointer of the wrong kind
.license "GPL"
.map counts, type hash, key 4, value 8, entries 4

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = map[counts]
    *(u64 *)(r1 + 0) = 1                 ; wrong: the map itself is not its memory
    r0 = 0
    exit

# no direct values
.license "GPL"
.map counts, type hash, key 4, value 8, entries 4

.section tracepoint/syscalls/sys_enter_read
.func main
    r1 = map[counts][0]+0                ; a hash has no fixed addresses
    r0 = 0
    exit

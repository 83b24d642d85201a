# wrong helper for the type
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r2 = 0
    call bpf_redirect                    ; wrong: a tracepoint has no packets
    r0 = 0
    exit

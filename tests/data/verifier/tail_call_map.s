# map of the wrong type
.license "GPL"
.map programs, type hash, key 4, value 4, entries 4

.section tracepoint/syscalls/sys_enter_read
.func main
    r2 = map[programs]
    r3 = 0
    call bpf_tail_call                   ; wrong: it takes a prog_array
    r0 = 0
    exit

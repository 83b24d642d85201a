# too many branches
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r6 = 0
again:
    call bpf_get_prandom_u32
    if r0 == 0 goto out                  ; each round leaves a branch to be followed later
    r6 += 1
    if r6 < 10000 goto again
out:
    r0 = 0
    exit

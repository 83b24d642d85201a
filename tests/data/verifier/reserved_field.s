# reserved field
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    .insn 0xbf, 0, 1, 5, 0               ; a move has no offset
    exit

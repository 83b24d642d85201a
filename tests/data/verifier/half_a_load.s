# half a load
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r0 = 0
    .insn 0x18, 1, 0, 0, 5               ; its second slot is another instruction
    exit

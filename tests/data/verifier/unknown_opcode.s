# unknown opcode
.license "GPL"

.section tracepoint/syscalls/sys_enter_read
.func main
    r0 = 0
    .insn 0x8f, 0, 0, 0, 0               ; no instruction has this opcode
    exit

//! The pieces that more than one of the programs has.

use super::{Access, KernelReads, Plan, stack};
use crate::histogram::Unit;
use crate::insn::{
    AluOp, AssembleError, Assembler, AtomicOp, Helper, Insn, JumpOp, Label, Program,
    Reg::{self, R0, R1, R2, R3, R7, R8, R9, R10},
    Size, Width,
};
use crate::latency::bucket::{emit_bucket_index, emit_linear_index};
use crate::latency::extremes::{emit_lower, emit_raise};
use crate::latency::layout::{
    BUCKETS_OFFSET, CPUS_MAP, Counter, ERRNOS, ERRNOS_OFFSET, LINEAR_OFFSET, Slot,
};
use crate::latency::scope::{Ids, emit_beginning};

/// Restart codes: what a call returns within the kernel when a signal interrupted it
/// (`include/linux/errno.h`, `ERESTARTSYS` to `ERESTART_RESTARTBLOCK`).
pub(crate) const LAST_RESTART_CODE: i32 = -516;
pub(crate) const FIRST_RESTART_CODE: i32 = -512;
/// `MAX_ERRNO` in `include/linux/err.h`: a result below this is no error, but an address.
pub(crate) const LAST_ERROR: i32 = -4095;

/// The arguments of the raw tracepoints, in bytes from the context.
pub(super) mod argument {
    /// `struct pt_regs *regs`, of both.
    pub(in super::super) const REGS: i16 = 0;
    /// `sys_enter(struct pt_regs *regs, long id)`
    pub(in super::super) const NUMBER: i16 = 8;
    /// `sys_exit(struct pt_regs *regs, long ret)`
    pub(in super::super) const RESULT: i16 = 8;
}

/// How a program knows which of the measured calls it counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// It is for that one.
    Fixed(usize),
    /// Its index is in r8.
    InR8,
    /// It is that of the slot in r7.
    OfSlot,
}

/// A program in the making.
pub(super) struct Emitter<'a> {
    pub(super) asm: Assembler,
    /// Where the program returns 0, so that perf makes no record of it.
    pub(super) out: Label,
    pub(super) plan: &'a Plan,
}

impl<'a> Emitter<'a> {
    /// The beginning of every program: leaves unless the window is open and the thread in the scope.
    /// The thread's ids are on the stack then, and the context in r6.
    pub(super) fn begin(name: &str, plan: &'a Plan, ids: Ids) -> Self {
        let mut asm = Assembler::new(name);
        let out = asm.label("out");
        emit_beginning(&mut asm, &plan.scope, ids, out);
        Self { asm, out, plan }
    }

    /// r9 = this CPU's region of that call.
    pub(super) fn find_region(&mut self, call: Call) {
        let calls = self.plan.calls.len();
        self.asm.call(Helper::GetSmpProcessorId);
        if calls > 1 {
            self.asm.alu(AluOp::Mul, R0, calls as i32).comment("a CPU has one for each call");
            match call {
                Call::Fixed(index) => {
                    self.asm.alu(AluOp::Add, R0, index as i32);
                }
                Call::InR8 => {
                    self.asm.alu(AluOp::Add, R0, R8);
                }
                Call::OfSlot => {
                    self.asm.load(Size::DW, R1, R7, Slot::CALL);
                    self.asm.alu(AluOp::Add, R0, R1);
                }
            }
        }
        self.asm.store(Size::W, R10, stack::REGION, R0);
        self.asm.load_map(R1, CPUS_MAP);
        self.asm.stack_address(R2, stack::REGION);
        self.asm.call(Helper::MapLookupElem);
        self.asm.jump_if(JumpOp::Eq, R0, 0, self.out).comment("never: each CPU has one");
        self.asm.mov(R9, R0).comment("r9 = this CPU's region");
    }

    /// Adds 1 to a counter of the region.
    pub(super) fn count(&mut self, counter: Counter) {
        self.asm.mov(R1, 1);
        self.asm
            .atomic(AtomicOp::Add, R9, counter.offset(), R1)
            .comment(format!("count it: {counter:?}"));
    }

    /// Goes to `other` unless the argument in r2 is one of the descriptors, or there are none.
    pub(super) fn require_descriptor(&mut self, other: Label) {
        let Some((last, others)) = self.plan.descriptors.split_last() else { return };
        let ours = self.asm.label("our_descriptor");
        self.asm.mov32(R2, R2).comment("of which the kernel reads 32 bits");
        for descriptor in others {
            self.asm.jump_if(JumpOp::Eq, R2, *descriptor as i32, ours);
        }
        self.asm.jump_if(JumpOp::Ne, R2, *last as i32, other);
        self.asm.bind(ours);
    }

    /// r8 = the index of the measured call whose number is in r1; goes to `other` for any other
    /// number, and for calls with the numbers of 32-bit programs, which mean other calls.
    pub(super) fn select_call(&mut self, reads: Option<(KernelReads, Access)>, other: Label) {
        let numbers: Vec<_> = self.plan.calls.iter().map(|call| call.number).collect();
        if let [Some(only)] = numbers[..] {
            self.asm.jump_if(JumpOp::Ne, R1, only as i32, other).comment("is it our call?");
            self.asm.mov(R8, 0);
        } else {
            let selected = self.asm.label("selected");
            for (index, number) in numbers.iter().enumerate() {
                let Some(number) = number else { continue };
                let next = self.asm.label("next_call");
                let name = self.plan.calls[index].name.clone();
                self.asm.jump_if(JumpOp::Ne, R1, *number as i32, next).comment(name);
                self.asm.mov(R8, index as i32);
                self.asm.jump(selected);
                self.asm.bind(next);
            }
            self.asm.jump(other);
            self.asm.bind(selected);
        }
        let Some((reads, access)) = reads else { return };
        match access {
            Access::Pointers => {
                self.asm.load(Size::DW, R3, R10, stack::TASK);
            }
            Access::Helper => {
                self.asm.call(Helper::GetCurrentTask);
                self.asm.mov(R3, R0);
            }
        }
        self.read_kernel(access, Size::W, R1, reads.compat);
        self.asm.alu(AluOp::And, R1, reads.compat_bit as i32);
        self.asm.jump_if(JumpOp::Ne, R1, 0, other).comment("a 32-bit program's number");
    }

    /// Reads kernel memory, from `offset` behind the address in r3, into a register. Where that cannot be
    /// read, it is 0.
    pub(super) fn read_kernel(&mut self, access: Access, size: Size, into: Reg, offset: i16) {
        if access == Access::Pointers {
            self.asm.load(size, into, R3, offset).comment("of the kernel");
            return;
        }
        if offset != 0 {
            self.asm.alu(AluOp::Add, R3, i32::from(offset));
        }
        self.asm.stack_address(R1, stack::READ);
        self.asm.mov(R2, size.bytes() as i32);
        self.asm.call(Helper::ProbeReadKernel).comment("writes zeros where it fails");
        self.asm.load(size, into, R10, stack::READ).comment("of the kernel");
    }

    /// The result in r1 is less than 0: an error, a restart code, or an address. Changes r1 to r3.
    pub(super) fn returned_less(&mut self, to_ok: Label, to_error: Label) {
        let error = self.asm.label("error");
        let has_counter = self.asm.label("has_counter");
        self.asm.jump_if(JumpOp::Slt, R1, LAST_ERROR, to_ok).comment("an address, no error");
        self.asm.jump_if(JumpOp::Sgt, R1, FIRST_RESTART_CODE, error);
        self.asm.jump_if(JumpOp::Slt, R1, LAST_RESTART_CODE, error);
        self.count(Counter::Restarted);
        self.asm.store(Size::DW, R7, Slot::HELD_NS, R8).comment("a signal, maybe a deadly one:");
        self.asm.mov(R1, Slot::HELD);
        self.asm.store(Size::DW, R7, Slot::START_NS, R1).comment("wait for the thread's next call");
        self.leave();

        self.asm.bind(error);
        self.asm.mov(R2, R1);
        self.asm.push(Insn::Neg { width: Width::W64, dst: R2 }).comment("r2 = the errno");
        self.asm.jump_if(JumpOp::Lt, R2, ERRNOS, has_counter);
        self.asm.mov(R2, 0).comment("the counter of all others");
        self.asm.bind(has_counter);
        self.asm.alu(AluOp::Lsh, R2, 3).comment("8 bytes each");
        self.asm.alu(AluOp::Add, R2, R9);
        self.asm.mov(R1, 1);
        self.asm.atomic(AtomicOp::Add, R2, ERRNOS_OFFSET, R1).comment("count it: that errno");
        self.count(Counter::ReturnedError);
        self.asm.jump(to_error);
    }

    /// Puts the latency in r8 into the histogram: sum, extremes and buckets.
    pub(super) fn put_into_histogram(&mut self) {
        let plan = self.plan;
        self.asm.atomic(AtomicOp::Add, R9, Counter::SumNs.offset(), R8);
        emit_raise(&mut self.asm, plan.extremes, R9, Counter::MaxNs.offset(), R8);
        emit_lower(&mut self.asm, plan.extremes, R9, Counter::MinNs.offset(), R8);
        if plan.unit != Unit::Ns {
            self.asm
                .alu(AluOp::Div, R8, plan.unit.nanos() as i32)
                .comment(format!("whole {}", plan.unit.name()));
        }
        if let Some(linear) = plan.linear {
            emit_linear_index(&mut self.asm, linear, R8, R2, R1);
            self.one_more_in_bucket(R2, LINEAR_OFFSET);
        }
        emit_bucket_index(&mut self.asm, R8, R2, R3);
        self.one_more_in_bucket(R2, BUCKETS_OFFSET);
    }

    /// Adds 1 to the bucket with the index in that register, which is changed, and r1.
    fn one_more_in_bucket(&mut self, index: Reg, buckets: i16) {
        self.asm.alu(AluOp::Lsh, index, 3).comment("8 bytes each");
        self.asm.alu(AluOp::Add, index, R9);
        self.asm.mov(R1, 1);
        self.asm.atomic(AtomicOp::Add, index, buckets, R1).comment("one more in that bucket");
    }

    pub(super) fn leave(&mut self) {
        self.asm.jump(self.out);
    }

    pub(super) fn finish(mut self) -> Result<Program, AssembleError> {
        self.asm.bind(self.out);
        self.asm.mov(R0, 0).comment("0: perf makes no record");
        self.asm.exit();
        self.asm.finish()
    }
}

/// The kernel keeps 15 bytes of a program's name: what tells them apart comes first where the whole
/// does not fit.
pub(super) fn program_name(syscall: &str, enter: bool) -> String {
    let (after, before) = if enter { ("enter", "in") } else { ("exit", "out") };
    let whole = format!("rlat_{syscall}_{after}");
    if whole.len() < crate::loader::sys::NAME_BYTES {
        whole
    } else {
        format!("rlat_{before}_{syscall}")
    }
}

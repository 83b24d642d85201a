//! A seccomp filter: which system calls a process may still make, written in classic BPF.
//!
//! **Terms.** *Classic BPF* is what "BPF" meant from 1992 on: a machine with one 32-bit accumulator, A, that
//! tcpdump's filters are written for. Its instructions have 8 bytes, too, but other fields: what to do
//! (`code`), a value (`k`), and how many instructions to skip if a comparison holds (`jt`) or not (`jf`). It
//! jumps forward only, and no further than 255. What the rest of this project is about, extended BPF, came
//! from it in Linux 3.18; seccomp(2) has kept the old one, which nobody needs a privilege for.
//!
//! seccomp(2) runs the filter at each system call, over a `struct seccomp_data`
//! (`include/uapi/linux/seccomp.h`), and does what it returns:
//!
//! ```text
//!  0  nr                    the number of the call
//!  4  arch                  whose numbers these are: AUDIT_ARCH_...
//!  8  instruction_pointer
//! 16  args[0] to args[5]    8 bytes each
//! ```
//!
//! A call that is not on the list fails with EPERM. The filter could as well end the process, which is the
//! safer answer to an attack; but if one call was forgotten in the list, on some kernel or with some C
//! library, then what has been recorded would be lost with it. An error, rlat reports, or goes on without.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter,
};
use libc::{EPERM, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO};

/// Whose numbers of system calls the filter knows: `e_machine` of ELF files, with marks for 64 bits and the
/// byte order (`include/uapi/linux/audit.h`). A 64-bit process can make calls of the 32-bit kind as well,
/// where the same number is another call; all of these are refused.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
const ARCHITECTURE: Option<u32> = None;

/// Places in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// A system call that is allowed, always or sometimes. One that is there twice is allowed if either fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// `libc::SYS_...`
    pub number: i64,
    /// On which arguments.
    pub when: When,
}

/// On which arguments a call is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// On any.
    Always,
    /// When one of them, counted from 0, has `value` in the bits of `mask`. Its lower 32 bits are looked at:
    /// the kernel takes no more of an `int`.
    Argument {
        /// Which one.
        index: u32,
        /// The bits that matter.
        mask: u32,
        /// What they have to be.
        value: u32,
    },
}

impl When {
    /// When the argument is this value.
    pub const fn is(index: u32, value: u32) -> Self {
        Self::Argument { index, mask: u32::MAX, value }
    }

    /// When the argument has none of these bits.
    pub const fn without(index: u32, bits: u32) -> Self {
        Self::Argument { index, mask: bits, value: 0 }
    }

    /// When the argument has all of these bits.
    pub const fn with(index: u32, bits: u32) -> Self {
        Self::Argument { index, mask: bits, value: bits }
    }
}

/// The instructions.
#[derive(Clone, Debug)]
pub struct Filter {
    instructions: Vec<sock_filter>,
}

impl Filter {
    /// A filter that allows these calls and no other; `None` on an architecture that it is not made for.
    ///
    /// ```
    /// use rlat::confinement::{Call, Filter, When};
    ///
    /// let write = Call { number: libc::SYS_write, when: When::Always };
    /// if let Some(filter) = Filter::new(&[write]) {
    ///     // arch? refuse; number; write? allow; refuse
    ///     assert_eq!(filter.instructions().len(), 3 + 1 + 2 + 1);
    /// }
    /// ```
    pub fn new(calls: &[Call]) -> Option<Self> {
        let mut instructions =
            vec![load(ARCH), jump(BPF_JEQ, ARCHITECTURE?, 1, 0), refuse(), load(NUMBER)];
        for call in calls {
            allow(&mut instructions, *call);
        }
        instructions.push(refuse());
        Some(Self { instructions })
    }

    /// As the kernel takes them.
    pub fn instructions(&self) -> &[sock_filter] {
        &self.instructions
    }
}

/// Adds what allows a call. The number of the call is in A before it, and behind it, too.
///
/// ```text
///     if A == number ; else to the end of this
///     A = argument
///     A &= mask
///     if A == value ; else over the next one
///     return ALLOW
///     A = number
/// ```
fn allow(instructions: &mut Vec<sock_filter>, call: Call) {
    let is_it = |skip| jump(BPF_JEQ, call.number as u32, 0, skip);
    match call.when {
        When::Always => instructions.extend([is_it(1), return_(SECCOMP_RET_ALLOW)]),
        When::Argument { index, mask, value } => instructions.extend([
            is_it(5),
            load(ARGUMENTS + 8 * index),
            instruction(BPF_ALU | BPF_AND | BPF_K, 0, 0, mask),
            jump(BPF_JEQ, value, 0, 1),
            return_(SECCOMP_RET_ALLOW),
            load(NUMBER),
        ]),
    }
}

/// A = the word at that place of the data.
fn load(place: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, place)
}

/// Compares A with a value, and skips so many instructions if that holds, or if it does not.
fn jump(operation: u32, value: u32, if_true: u8, if_false: u8) -> sock_filter {
    instruction(BPF_JMP | operation | BPF_K, if_true, if_false, value)
}

fn return_(what: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, 0, 0, what)
}

fn refuse() -> sock_filter {
    return_(SECCOMP_RET_ERRNO | EPERM as u32)
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

#[cfg(test)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OURS: u32 = ARCHITECTURE.unwrap();

    /// What the kernel would do: the few instructions that are used here, and no other.
    fn run(filter: &Filter, arch: u32, number: u32, args: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(number.to_ne_bytes());
        data.extend(arch.to_ne_bytes());
        data.extend(0_u64.to_ne_bytes());
        data.extend(args.iter().flat_map(|arg| arg.to_ne_bytes()));
        let (mut a, mut next) = (0, 0);
        loop {
            let insn = filter.instructions()[next];
            next += 1;
            let skip = |holds: bool| usize::from(if holds { insn.jt } else { insn.jf });
            match u32::from(insn.code) {
                0x20 => {
                    let place = insn.k as usize;
                    a = u32::from_ne_bytes(data[place..place + 4].try_into().unwrap());
                }
                0x15 => next += skip(a == insn.k),
                0x54 => a &= insn.k,
                0x06 => return insn.k,
                code => panic!("no such instruction: {code:#x}"),
            }
        }
    }

    fn allows(filter: &Filter, number: u32, argument: u64) -> bool {
        match run(filter, OURS, number, [7, argument, 7, 7, 7, 7]) {
            0x7fff_0000 => true,
            0x0005_0001 => false,
            other => panic!("{other:#x}"),
        }
    }

    fn filter() -> Filter {
        let call = |number, when| Call { number, when };
        Filter::new(&[
            call(1, When::Always),
            call(2, When::is(1, 5)),
            call(3, When::is(1, 5)),
            call(3, When::is(1, 8)),
            call(4, When::without(1, 0b110)),
            call(5, When::with(1, 0b1100)),
            call(4, When::with(1, 0b1100)),
            call(6, When::Always),
        ])
        .unwrap()
    }

    proptest! {
        #[test]
        fn a_call_is_allowed_on_what_the_list_says(number in 0..9_u32, argument in 0..20_u64, high: u32) {
            let expected = match number {
                1 | 6 => true,
                2 => argument == 5,
                3 => argument == 5 || argument == 8,
                4 => argument & 0b110 == 0 || argument & 0b1100 == 0b1100,
                5 => argument & 0b1100 == 0b1100,
                _ => false,
            };
            prop_assert_eq!(allows(&filter(), number, argument), expected);
            // The upper half is not looked at.
            prop_assert_eq!(allows(&filter(), number, argument | u64::from(high) << 32), expected);
        }

        #[test]
        fn calls_of_another_kind_are_refused(arch: u32, number in 0..9_u32) {
            prop_assume!(arch != OURS);
            prop_assert_eq!(run(&filter(), arch, number, [0; 6]), 0x0005_0001);
        }
    }

    #[test]
    fn x32_is_refused() {
        // The kind with 64-bit registers and 32-bit pointers marks its numbers, not its architecture.
        assert!(!allows(&filter(), 1 | 0x4000_0000, 0));
    }
}

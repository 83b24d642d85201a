//! The eleven registers.

use std::fmt;

/// A register of the BPF machine, 64 bits wide.
///
/// There are eleven, and a program can name no other: `r11`, which the kernel uses inside of the
/// verifier, has no variant here. Source: Documentation/bpf/standardization/instruction-set.rst,
/// "Registers and calling convention".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reg {
    /// What a helper call returns, and what the program returns.
    R0 = 0,
    /// First argument of a helper call; at the program's start the pointer to its context.
    R1 = 1,
    /// Second argument of a helper call.
    R2 = 2,
    /// Third argument of a helper call.
    R3 = 3,
    /// Fourth argument of a helper call.
    R4 = 4,
    /// Fifth argument of a helper call.
    R5 = 5,
    /// Kept over helper calls, as are `R7` to `R9`; `R0` to `R5` are not.
    R6 = 6,
    /// Kept over helper calls.
    R7 = 7,
    /// Kept over helper calls.
    R8 = 8,
    /// Kept over helper calls.
    R9 = 9,
    /// The frame pointer: read-only, and the stack is the 512 bytes below it.
    R10 = 10,
}

impl Reg {
    /// Every register, in the order of its number.
    pub const ALL: [Self; 11] = [
        Self::R0,
        Self::R1,
        Self::R2,
        Self::R3,
        Self::R4,
        Self::R5,
        Self::R6,
        Self::R7,
        Self::R8,
        Self::R9,
        Self::R10,
    ];

    /// The number that the encoding uses, 0 to 10.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The register with that number, or `None` for 11 and more.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.number())
    }
}

//! One instruction, from the pieces of its line.

use std::ops::Range;

use super::branch::{call, conditional, distance, jump, jump_long};
use super::cursor::{Cursor, register};
use super::error::beginning;
use super::lexer::{Fault, Token};
use super::memory::{
    compare_exchange, exchange, fetch, fetching, load, load_acquire, lock, store, store_release,
};
use crate::insn::helper_names::helper_number;
use crate::insn::instruction::{
    Imm64, Insn, Operand, SignedBits, SignedOp, SwapBits, SwapTo, Width,
};
use crate::insn::opcode::AluOp;
use crate::insn::register::Reg;

/// An instruction, and the name in it that only the whole file gives a meaning.
pub(super) struct Operation {
    pub(super) insn: Insn,
    pub(super) refers_to: Option<Name>,
}

/// A name in an instruction.
pub(super) struct Name {
    pub(super) of: NameOf,
    pub(super) text: String,
    /// Where it is in the line.
    pub(super) at: Range<usize>,
}

/// What a name in an instruction is the name of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NameOf {
    /// A place to jump to.
    Label,
    /// A function to call.
    Function,
    /// A function whose address is loaded.
    FunctionAddress,
    /// A map.
    Map,
    /// A map or a function, in LLVM's words.
    Symbol,
}

impl From<Insn> for Operation {
    fn from(insn: Insn) -> Self {
        Self { insn, refers_to: None }
    }
}

impl Operation {
    pub(super) fn naming(insn: Insn, of: NameOf, (name, at): (String, Range<usize>)) -> Self {
        Self { insn, refers_to: Some(Name { of, text: name, at }) }
    }
}

pub(super) type Parsed<T> = Result<T, Fault>;

/// Reads a whole instruction.
pub(super) fn operation(cursor: &mut Cursor<'_>) -> Parsed<Operation> {
    let operation = match cursor.peek() {
        Some(Token::Sign("*")) => store(cursor)?,
        Some(Token::Word(word)) => match word.as_str() {
            "if" => conditional(cursor)?,
            "goto" => jump(cursor, |off| Insn::Jump { off })?,
            "may_goto" => jump(cursor, |off| Insn::MayGoto { off })?,
            "gotol" => jump_long(cursor)?,
            "call" => call(cursor)?,
            "lock" => lock(cursor)?,
            "store_release" => store_release(cursor)?,
            "exit" => {
                cursor.advance();
                Insn::Exit.into()
            }
            _ if register(word).is_some() => to_register(cursor)?,
            _ if is_nearly_a_register(word) => {
                return cursor.expected_register();
            }
            _ => return cursor.expected("an instruction, a label or a directive"),
        },
        _ => return cursor.expected("an instruction, a label or a directive"),
    };
    cursor.end()?;
    Ok(operation)
}

/// `r11` and its like, of which it is a register that was meant.
fn is_nearly_a_register(word: &str) -> bool {
    let digits = word.strip_prefix(['r', 'w', 'R', 'W']);
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// `r1 = ...` and `r1 += ...`
fn to_register(cursor: &mut Cursor<'_>) -> Parsed<Operation> {
    let (dst, width) = cursor.register()?;
    let Some(Token::Sign(sign)) = cursor.peek() else {
        return cursor.expected("`=` or an operator such as `+=`");
    };
    if *sign == "=" {
        cursor.advance();
        return assign(cursor, dst, width);
    }
    let signed = match *sign {
        "s/=" => Some(SignedOp::Div),
        "s%=" => Some(SignedOp::Mod),
        _ => None,
    };
    if let Some(op) = signed {
        cursor.advance();
        let src = operand(cursor, width)?;
        return Ok(Insn::SignedAlu { width, op, dst, src }.into());
    }
    let Some(op) = AluOp::ALL.iter().copied().find(|op| op.text() == *sign) else {
        return cursor.expected("`=` or an operator such as `+=`");
    };
    cursor.advance();
    let src = operand(cursor, width)?;
    Ok(Insn::Alu { width, op, dst, src }.into())
}

/// What stands behind `r1 =`.
fn assign(cursor: &mut Cursor<'_>, dst: Reg, width: Width) -> Parsed<Operation> {
    match cursor.peek() {
        Some(Token::Sign("*")) => load(cursor, dst, width),
        Some(Token::Sign("(")) => move_signed(cursor, dst, width),
        Some(Token::Sign("-")) if matches!(cursor.peek_second(), Some(Token::Word(_))) => {
            cursor.advance();
            same_register(cursor, dst, width)?;
            Ok(Insn::Neg { width, dst }.into())
        }
        Some(Token::Word(word)) => match register(word) {
            Some(_) => {
                let src = cursor.register_of(width)?.into();
                Ok(Insn::Alu { width, op: AluOp::Mov, dst, src }.into())
            }
            None if is_nearly_a_register(word) => cursor.expected_register(),
            None => assign_word(cursor, word, dst, width),
        },
        Some(Token::Quoted(_)) => symbol(cursor, dst, width),
        _ => immediate(cursor, dst, width),
    }
}

fn assign_word(cursor: &mut Cursor<'_>, word: &str, dst: Reg, width: Width) -> Parsed<Operation> {
    if let Some((to, bits)) = swap(word) {
        cursor.advance();
        // The low half of a swap of 64 bits has no meaning, and the others write all of it.
        let (src, _) = cursor.register()?;
        if width == Width::W64 && src == dst {
            return Ok(Insn::ByteSwap { dst, to, bits }.into());
        }
        return cursor
            .expected(&format!("`{dst} = {word} {dst}`: it swaps a whole register in place"));
    }
    if let Some(op) = word.strip_prefix("atomic_").and_then(|_| fetching(word)) {
        return fetch(cursor, op, dst, width);
    }
    match word {
        "map" if matches!(cursor.peek_second(), Some(Token::Sign("["))) => {
            whole(cursor, width)?;
            map(cursor, dst)
        }
        "subprog" if matches!(cursor.peek_second(), Some(Token::Sign("["))) => {
            whole(cursor, width)?;
            function_address(cursor, dst)
        }
        "btf_id" if matches!(cursor.peek_second(), Some(Token::Sign(":"))) => {
            whole(cursor, width)?;
            kernel_variable(cursor, dst)
        }
        "addr_space_cast" => {
            whole(cursor, width)?;
            addr_space_cast(cursor, dst)
        }
        "load_acquire" => load_acquire(cursor, dst, width),
        "xchg_8" | "xchg_16" | "xchg_32" | "xchg32_32" | "xchg_64" => exchange(cursor, dst, width),
        "cmpxchg_8" | "cmpxchg_16" | "cmpxchg_32" | "cmpxchg32_32" | "cmpxchg_64" => {
            compare_exchange(cursor, dst, width)
        }
        _ => symbol(cursor, dst, width),
    }
}

/// Only all 64 bits of a register can take an address.
fn whole(cursor: &Cursor<'_>, width: Width) -> Parsed<()> {
    match width {
        Width::W64 => Ok(()),
        Width::W32 => {
            cursor.expected("a number or a w register: an address needs a whole register")
        }
    }
}

fn same_register(cursor: &mut Cursor<'_>, dst: Reg, width: Width) -> Parsed<()> {
    let at = cursor.place();
    if cursor.register_of(width)? == dst {
        return Ok(());
    }
    Err((at, format!("expected the same register as before `=`, {dst} or its half")))
}

/// `NAME ll`
fn symbol(cursor: &mut Cursor<'_>, dst: Reg, width: Width) -> Parsed<Operation> {
    let named = named(cursor, "a register, a number, or a load such as *(u64 *)(r1 + 0)")?;
    if !cursor.is_next("[") && matches!(cursor.peek(), Some(Token::Word(word)) if word == "ll") {
        whole(cursor, width)?;
        cursor.advance();
        let insn = Insn::LoadImm64 { dst, value: Imm64::MapFd(0) };
        return Ok(Operation::naming(insn, NameOf::Symbol, named));
    }
    let what = "expected a register, a number, or a load such as *(u64 *)(r1 + 0)";
    Err((named.1, format!("{what}, found `{}`", beginning(&named.0))))
}

/// `5`, `-5` or `5 ll`
fn immediate(cursor: &mut Cursor<'_>, dst: Reg, width: Width) -> Parsed<Operation> {
    let at = cursor.place();
    let limits = i128::from(i64::MIN)..i128::from(u64::MAX) + 1;
    let number =
        cursor.number(limits, "a register, a number, or a load such as *(u64 *)(r1 + 0)")?;
    let place = cursor.since(&at);
    if matches!(cursor.peek(), Some(Token::Word(word)) if word == "ll") {
        whole(cursor, width)?;
        cursor.advance();
        return Ok(Insn::LoadImm64 { dst, value: Imm64::Value(number as u64) }.into());
    }
    let src = narrow(number, width == Width::W32).ok_or_else(|| {
        (place, format!("{number} does not fit into 32 bits: `{dst} = {number} ll` loads 64"))
    })?;
    Ok(Insn::Alu { width, op: AluOp::Mov, dst, src: src.into() }.into())
}

/// A number as an immediate of 32 bits; where the higher ones do not count, also unsigned.
fn narrow(number: i128, unsigned: bool) -> Option<i32> {
    let unsigned = u32::try_from(number).ok().filter(|_| unsigned).map(|number| number as i32);
    i32::try_from(number).ok().or(unsigned)
}

/// A register of that width, or a number of 32 bits.
pub(super) fn operand(cursor: &mut Cursor<'_>, width: Width) -> Parsed<Operand> {
    operand_of(cursor, width, width == Width::W32)
}

pub(super) fn operand_of(cursor: &mut Cursor<'_>, width: Width, unsigned: bool) -> Parsed<Operand> {
    if let Some(Token::Word(_)) = cursor.peek() {
        return cursor.register_of(width).map(Operand::Reg);
    }
    let most = if unsigned { i128::from(u32::MAX) } else { i128::from(i32::MAX) };
    let number = cursor.number(i128::from(i32::MIN)..most + 1, "a register or a number")?;
    Ok(Operand::Imm(narrow(number, unsigned).unwrap_or_default()))
}

/// `(s8)r2`
fn move_signed(cursor: &mut Cursor<'_>, dst: Reg, width: Width) -> Parsed<Operation> {
    cursor.sign("(")?;
    let bits = match cursor.peek() {
        Some(Token::Word(word)) if word == "s8" => SignedBits::B8,
        Some(Token::Word(word)) if word == "s16" => SignedBits::B16,
        Some(Token::Word(word)) if word == "s32" => SignedBits::B32,
        _ => return cursor.expected("s8, s16 or s32"),
    };
    cursor.advance();
    cursor.sign(")")?;
    let src = cursor.register_of(width)?;
    Ok(Insn::MoveSigned { width, bits, dst, src }.into())
}

fn swap(word: &str) -> Option<(SwapTo, SwapBits)> {
    let (to, bits) = [("le", SwapTo::Little), ("be", SwapTo::Big), ("bswap", SwapTo::Other)]
        .into_iter()
        .find_map(|(name, to)| Some((to, word.strip_prefix(name)?)))?;
    let bits = match bits {
        "16" => SwapBits::B16,
        "32" => SwapBits::B32,
        "64" => SwapBits::B64,
        _ => return None,
    };
    Some((to, bits))
}

/// `map[...]`
fn map(cursor: &mut Cursor<'_>, dst: Reg) -> Parsed<Operation> {
    cursor.keyword("map")?;
    cursor.sign("[")?;
    let by_number = matches!(cursor.peek_second(), Some(Token::Sign(":")));
    let operation = if by_number {
        let by_index = match cursor.peek() {
            Some(Token::Word(word)) if word == "fd" => false,
            Some(Token::Word(word)) if word == "idx" => true,
            _ => return cursor.expected("fd, idx or the name of a map"),
        };
        cursor.advance();
        cursor.sign(":")?;
        let number = cursor.number(i128::from(i32::MIN)..1 << 31, "a number")? as i32;
        cursor.sign("]")?;
        let value = match (value_offset(cursor)?, by_index) {
            (None, false) => Imm64::MapFd(number),
            (None, true) => Imm64::MapIndex(number),
            (Some(offset), false) => Imm64::MapValue { fd: number, offset },
            (Some(offset), true) => Imm64::MapIndexValue { index: number, offset },
        };
        Insn::LoadImm64 { dst, value }.into()
    } else {
        let named = named(cursor, "fd, idx or the name of a map")?;
        cursor.sign("]")?;
        let value = match value_offset(cursor)? {
            None => Imm64::MapFd(0),
            Some(offset) => Imm64::MapValue { fd: 0, offset },
        };
        Operation::naming(Insn::LoadImm64 { dst, value }, NameOf::Map, named)
    };
    cursor.takes_word("ll");
    Ok(operation)
}

/// `[0]+8`, or nothing.
fn value_offset(cursor: &mut Cursor<'_>) -> Parsed<Option<u32>> {
    if !cursor.takes("[") {
        return Ok(None);
    }
    cursor.number(0..1, "0, for only the first value can be loaded")?;
    cursor.sign("]")?;
    cursor.sign("+")?;
    cursor.number(0..1 << 32, "an offset").map(|offset| Some(offset as u32))
}

/// `subprog[+3]` or `subprog[NAME]`
fn function_address(cursor: &mut Cursor<'_>, dst: Reg) -> Parsed<Operation> {
    cursor.keyword("subprog")?;
    cursor.sign("[")?;
    let operation = if let Some(Token::Word(_) | Token::Quoted(_)) = cursor.peek() {
        let insn = Insn::LoadImm64 { dst, value: Imm64::Function(0) };
        Operation::naming(insn, NameOf::FunctionAddress, named(cursor, "the name of a function")?)
    } else {
        let off = distance(cursor, 32)?;
        Insn::LoadImm64 { dst, value: Imm64::Function(off) }.into()
    };
    cursor.sign("]")?;
    cursor.takes_word("ll");
    Ok(operation)
}

/// `btf_id:12` or `btf_id:12, 3`
fn kernel_variable(cursor: &mut Cursor<'_>, dst: Reg) -> Parsed<Operation> {
    cursor.keyword("btf_id")?;
    cursor.sign(":")?;
    let limits = i128::from(i32::MIN)..1 << 31;
    let btf_id = cursor.number(limits.clone(), "the number of a variable")? as i32;
    let module =
        if cursor.takes(",") { cursor.number(limits, "a module's descriptor")? as i32 } else { 0 };
    Ok(Insn::LoadImm64 { dst, value: Imm64::KernelVariable { btf_id, module } }.into())
}

/// `addr_space_cast(r2, 0, 1)`
fn addr_space_cast(cursor: &mut Cursor<'_>, dst: Reg) -> Parsed<Operation> {
    cursor.keyword("addr_space_cast")?;
    cursor.sign("(")?;
    let src = cursor.pointer_register()?;
    cursor.sign(",")?;
    let to = cursor.number(0..1 << 16, "an address space")? as u16;
    cursor.sign(",")?;
    let from = cursor.number(0..1 << 16, "an address space")? as u16;
    cursor.sign(")")?;
    Ok(Insn::AddrSpaceCast { dst, src, to, from }.into())
}

pub(super) fn named(cursor: &mut Cursor<'_>, what: &str) -> Parsed<(String, Range<usize>)> {
    let at = cursor.place();
    Ok((cursor.name(what)?, at))
}

/// The call of a helper by name, if it is one.
pub(super) fn helper_call(name: &str) -> Option<Insn> {
    helper_number(name).map(|helper| Insn::Call { helper })
}

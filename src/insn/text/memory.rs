//! Loads, stores and atomic operations, from the pieces of their line.

use super::cursor::{Cursor, register};
use super::lexer::Token;
use super::operation::{Operation, Parsed, operand_of};
use crate::insn::instruction::{Insn, Width};
use crate::insn::opcode::{AtomicOp, Size};
use crate::insn::register::Reg;

/// What a pointer in brackets points to.
#[derive(Clone, Copy)]
struct Pointee {
    size: Size,
    signed: bool,
}

/// `(u64 *)`
fn pointee(cursor: &mut Cursor<'_>) -> Parsed<Pointee> {
    cursor.sign("(")?;
    let found = match cursor.peek() {
        Some(Token::Word(word)) => {
            let by_name = |text: &str| Size::ALL.iter().copied().find(|size| size.text() == text);
            let unsigned = by_name(word).map(|size| Pointee { size, signed: false });
            let signed = word
                .strip_prefix('s')
                .and_then(|bits| by_name(&format!("u{bits}")))
                .map(|size| Pointee { size, signed: true });
            unsigned.or(signed)
        }
        _ => None,
    };
    let Some(found) = found else {
        return cursor.expected("u8, u16, u32, u64, or s8 to s64 for a load with sign");
    };
    cursor.advance();
    cursor.sign("*")?;
    cursor.sign(")")?;
    Ok(found)
}

fn unsigned_pointee(cursor: &mut Cursor<'_>) -> Parsed<Size> {
    let at = cursor.place();
    let pointee = pointee(cursor)?;
    if pointee.signed {
        let what = "expected u8, u16, u32 or u64: only loads have signs";
        return Err((cursor.since(&at), what.to_owned()));
    }
    Ok(pointee.size)
}

/// `r1 + 16`, the brackets around it taken by the caller; `r1` alone is the same as `r1 + 0`.
fn place(cursor: &mut Cursor<'_>) -> Parsed<(Reg, i16)> {
    let base = cursor.pointer_register()?;
    if !cursor.is_next("+") && !cursor.is_next("-") {
        return Ok((base, 0));
    }
    let limits = i128::from(i16::MIN)..1 << 15;
    Ok((base, cursor.number(limits, "an offset of 16 bits")? as i16))
}

/// `(r1 + 16)`
fn place_in_brackets(cursor: &mut Cursor<'_>) -> Parsed<(Reg, i16)> {
    cursor.sign("(")?;
    let place = place(cursor)?;
    cursor.sign(")")?;
    Ok(place)
}

/// `*(u64 *)(r1 + 16)` or `*(u8 *)skb[5]`, as what a register becomes.
pub(super) fn load(cursor: &mut Cursor<'_>, dst: Reg, width: Width) -> Parsed<Operation> {
    cursor.sign("*")?;
    let at = cursor.place();
    let Pointee { size, signed } = pointee(cursor)?;
    if width == Width::W32 && (signed || size == Size::DW) {
        let what = "expected a load of 1, 2 or 4 bytes without sign into half a register";
        return Err((cursor.since(&at), what.to_owned()));
    }
    if cursor.takes_word("skb") {
        return packet(cursor, size, dst, signed);
    }
    let (base, off) = place_in_brackets(cursor)?;
    Ok(if signed {
        Insn::LoadSigned { size, dst, base, off }
    } else {
        Insn::Load { size, dst, base, off }
    }
    .into())
}

/// `[5]`, `[r1]` or `[r1 + 5]`
fn packet(cursor: &mut Cursor<'_>, size: Size, dst: Reg, signed: bool) -> Parsed<Operation> {
    if dst != Reg::R0 || signed {
        return cursor
            .expected("r0 before `=` and a size without sign: skb[...] gives nothing else");
    }
    cursor.sign("[")?;
    let index = match cursor.peek() {
        Some(Token::Word(_)) => Some(cursor.pointer_register()?),
        _ => None,
    };
    let off = if index.is_some() && cursor.is_next("]") {
        0
    } else {
        cursor.number(i128::from(i32::MIN)..1 << 31, "a register or a place in the packet")? as i32
    };
    cursor.sign("]")?;
    Ok(Insn::LoadPacket { size, index, off }.into())
}

/// `*(u64 *)(r1 + 16) = r2`
pub(super) fn store(cursor: &mut Cursor<'_>) -> Parsed<Operation> {
    cursor.sign("*")?;
    let size = unsigned_pointee(cursor)?;
    let (base, off) = place_in_brackets(cursor)?;
    cursor.sign("=")?;
    let half = matches!(cursor.peek(), Some(Token::Word(word))
        if register(word).is_some_and(|(_, width)| width == Width::W32));
    let width = if half && size != Size::DW { Width::W32 } else { Width::W64 };
    let src = operand_of(cursor, width, size != Size::DW)?;
    Ok(Insn::Store { size, base, off, src }.into())
}

/// `(u64 *)(r1 + 16)`, as atomic operations take it.
fn atomic_place(cursor: &mut Cursor<'_>) -> Parsed<(Size, Reg, i16)> {
    let size = unsigned_pointee(cursor)?;
    let (base, off) = place_in_brackets(cursor)?;
    Ok((size, base, off))
}

const fn width_of(size: Size) -> Width {
    match size {
        Size::DW => Width::W64,
        Size::B | Size::H | Size::W => Width::W32,
    }
}

/// The register of a value of that size: its half has the name with `w`, which LLVM insists on and the
/// verifier does not.
fn value_register(cursor: &mut Cursor<'_>, size: Size) -> Parsed<Reg> {
    match (width_of(size), cursor.peek()) {
        (Width::W32, Some(Token::Word(word))) if word.starts_with('r') => cursor.pointer_register(),
        (width, _) => cursor.register_of(width),
    }
}

/// `lock *(u64 *)(r1 + 16) += r2`
pub(super) fn lock(cursor: &mut Cursor<'_>) -> Parsed<Operation> {
    cursor.keyword("lock")?;
    cursor.sign("*")?;
    let (size, base, off) = atomic_place(cursor)?;
    let without_fetch = [AtomicOp::Add, AtomicOp::Or, AtomicOp::And, AtomicOp::Xor];
    let Some(op) = without_fetch.into_iter().find(|op| cursor.is_next(op.text())) else {
        return cursor.expected("`+=`, `|=`, `&=` or `^=`");
    };
    cursor.advance();
    let src = value_register(cursor, size)?;
    Ok(Insn::Atomic { op, size, base, off, src }.into())
}

pub(super) fn fetching(word: &str) -> Option<AtomicOp> {
    [AtomicOp::FetchAdd, AtomicOp::FetchOr, AtomicOp::FetchAnd, AtomicOp::FetchXor]
        .into_iter()
        .find(|op| op.text() == word)
}

/// The register before `=` must be the one that is taken and given.
fn same_value(cursor: &mut Cursor<'_>, size: Size, dst: Reg) -> Parsed<()> {
    let at = cursor.place();
    if value_register(cursor, size)? == dst {
        return Ok(());
    }
    Err((at, format!("expected {dst} or its half, as before `=`: it is taken and given")))
}

/// A register that all of an operation's value does not fit into cannot be its result.
fn fits(cursor: &Cursor<'_>, size: Size, width: Width) -> Parsed<()> {
    if size == Size::DW && width == Width::W32 {
        return cursor.expected("a whole register before `=`: 8 bytes do not fit into its half");
    }
    Ok(())
}

/// `r2 = atomic_fetch_add((u64 *)(r1 + 16), r2)`
pub(super) fn fetch(
    cursor: &mut Cursor<'_>,
    op: AtomicOp,
    dst: Reg,
    width: Width,
) -> Parsed<Operation> {
    cursor.advance();
    cursor.sign("(")?;
    let (size, base, off) = atomic_place(cursor)?;
    fits(cursor, size, width)?;
    cursor.sign(",")?;
    same_value(cursor, size, dst)?;
    cursor.sign(")")?;
    Ok(Insn::Atomic { op, size, base, off, src: dst }.into())
}

/// The size in the name of an exchange.
fn size_in_name(cursor: &mut Cursor<'_>) -> Parsed<Size> {
    let size = match cursor.peek() {
        Some(Token::Word(word)) if word.ends_with("_8") => Size::B,
        Some(Token::Word(word)) if word.ends_with("_16") => Size::H,
        Some(Token::Word(word)) if word.ends_with("_32") => Size::W,
        Some(Token::Word(word)) if word.ends_with("_64") => Size::DW,
        _ => return cursor.expected("an exchange"),
    };
    cursor.advance();
    Ok(size)
}

/// `r2 = xchg_64(r1 + 16, r2)`
pub(super) fn exchange(cursor: &mut Cursor<'_>, dst: Reg, width: Width) -> Parsed<Operation> {
    let size = size_in_name(cursor)?;
    fits(cursor, size, width)?;
    cursor.sign("(")?;
    let (base, off) = place(cursor)?;
    cursor.sign(",")?;
    same_value(cursor, size, dst)?;
    cursor.sign(")")?;
    Ok(Insn::Atomic { op: AtomicOp::Xchg, size, base, off, src: dst }.into())
}

/// `r0 = cmpxchg_64(r1 + 16, r0, r2)`
pub(super) fn compare_exchange(
    cursor: &mut Cursor<'_>,
    dst: Reg,
    width: Width,
) -> Parsed<Operation> {
    let size = size_in_name(cursor)?;
    fits(cursor, size, width)?;
    if dst != Reg::R0 {
        return cursor.expected("r0 before `=`: that is where the old value goes");
    }
    cursor.sign("(")?;
    let (base, off) = place(cursor)?;
    cursor.sign(",")?;
    same_value(cursor, size, Reg::R0)?;
    cursor.sign(",")?;
    let src = value_register(cursor, size)?;
    cursor.sign(")")?;
    Ok(Insn::Atomic { op: AtomicOp::CmpXchg, size, base, off, src }.into())
}

/// `r0 = load_acquire((u64 *)(r1 + 0))`
pub(super) fn load_acquire(cursor: &mut Cursor<'_>, dst: Reg, width: Width) -> Parsed<Operation> {
    cursor.keyword("load_acquire")?;
    cursor.sign("(")?;
    let (size, base, off) = atomic_place(cursor)?;
    fits(cursor, size, width)?;
    cursor.sign(")")?;
    Ok(Insn::LoadAcquire { size, dst, base, off }.into())
}

/// `store_release((u64 *)(r1 + 0), r2)`
pub(super) fn store_release(cursor: &mut Cursor<'_>) -> Parsed<Operation> {
    cursor.keyword("store_release")?;
    cursor.sign("(")?;
    let (size, base, off) = atomic_place(cursor)?;
    cursor.sign(",")?;
    let src = value_register(cursor, size)?;
    cursor.sign(")")?;
    Ok(Insn::StoreRelease { size, base, off, src }.into())
}

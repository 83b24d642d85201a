//! Jumps and calls, from the pieces of their line.

use std::ops::Range;

use super::cursor::Cursor;
use super::lexer::Token;
use super::operation::{NameOf, Operation, Parsed, named, operand};
use crate::insn::instruction::Insn;
use crate::insn::opcode::JumpOp;

/// `if r1 != 0 goto +3`
pub(super) fn conditional(cursor: &mut Cursor<'_>) -> Parsed<Operation> {
    cursor.keyword("if")?;
    let (dst, width) = cursor.register()?;
    let Some(op) = JumpOp::ALL.iter().copied().find(|op| cursor.is_next(op.text())) else {
        return cursor.expected("a comparison such as `==`, `s<` or `&`");
    };
    cursor.advance();
    let src = operand(cursor, width)?;
    jump(cursor, |off| Insn::JumpIf { width, op, dst, src, off })
}

/// `goto +3` or `goto out`, whatever the first word is.
pub(super) fn jump(cursor: &mut Cursor<'_>, insn: impl Fn(i16) -> Insn) -> Parsed<Operation> {
    if !(cursor.takes_word("goto") || cursor.takes_word("may_goto")) {
        return cursor.expected("`goto`");
    }
    match target(cursor, 16)? {
        Where::Distance(off) => Ok(insn(off as i16).into()),
        Where::Label(named) => Ok(Operation::naming(insn(0), NameOf::Label, named)),
    }
}

pub(super) fn jump_long(cursor: &mut Cursor<'_>) -> Parsed<Operation> {
    cursor.keyword("gotol")?;
    match target(cursor, 32)? {
        Where::Distance(off) => Ok(Insn::JumpLong { off }.into()),
        Where::Label(named) => {
            Ok(Operation::naming(Insn::JumpLong { off: 0 }, NameOf::Label, named))
        }
    }
}

enum Where {
    Distance(i32),
    Label((String, Range<usize>)),
}

fn target(cursor: &mut Cursor<'_>, bits: u32) -> Parsed<Where> {
    let target = if is_relative(cursor) {
        Where::Distance(distance(cursor, bits)?)
    } else if let Some(Token::Word(_) | Token::Quoted(_)) = cursor.peek() {
        Where::Label(named(cursor, "a label")?)
    } else {
        return cursor.expected("a label, or a distance such as +3 or -3");
    };
    // What llvm-objdump adds for people.
    if cursor.takes("<") {
        while cursor.peek().is_some() {
            cursor.advance();
        }
    }
    Ok(target)
}

/// `+3` or `pc+3`
fn is_relative(cursor: &Cursor<'_>) -> bool {
    let sign = |token: Option<&Token>| matches!(token, Some(Token::Sign("+" | "-")));
    let pc = matches!(cursor.peek(), Some(Token::Word(word)) if word == "pc");
    sign(cursor.peek()) || (pc && sign(cursor.peek_second()))
}

pub(super) fn distance(cursor: &mut Cursor<'_>, bits: u32) -> Parsed<i32> {
    cursor.takes_word("pc");
    if !cursor.is_next("+") && !cursor.is_next("-") {
        return cursor.expected("a distance such as +3 or -3");
    }
    let most = 1_i128 << (bits - 1);
    Ok(cursor.number(-most..most, &format!("a distance of {bits} bits"))? as i32)
}

/// `call 5`, `call bpf_ktime_get_ns`, `call function`, `call pc+3` or `call kfunc 123`
pub(super) fn call(cursor: &mut Cursor<'_>) -> Parsed<Operation> {
    cursor.keyword("call")?;
    if matches!(cursor.peek(), Some(Token::Word(word)) if word == "pc") && is_relative(cursor) {
        return Ok(Insn::CallLocal { off: distance(cursor, 32)? }.into());
    }
    let number_follows = matches!(cursor.peek_second(), Some(Token::Number(_) | Token::Sign("-")));
    if number_follows && cursor.takes_word("kfunc") {
        let btf_id = cursor.number(i128::from(i32::MIN)..1 << 31, "the number of a function")?;
        let limits = i128::from(i16::MIN)..1 << 15;
        let module =
            if cursor.takes(",") { cursor.number(limits, "the place of a module")? } else { 0 };
        return Ok(Insn::CallKernel { btf_id: btf_id as i32, module: module as i16 }.into());
    }
    if let Some(Token::Word(_) | Token::Quoted(_)) = cursor.peek() {
        let named = named(cursor, "a function")?;
        return Ok(Operation::naming(Insn::CallLocal { off: -1 }, NameOf::Function, named));
    }
    let what = "the number or the name of a helper, the name of a function, or pc+3";
    let helper = cursor.number(i128::from(i32::MIN)..1 << 31, what)? as i32;
    Ok(Insn::Call { helper }.into())
}

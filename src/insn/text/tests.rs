//! Text and instructions say the same, and what is wrong is shown where it is.

use proptest::prelude::*;

use super::{parse, write};
use crate::insn::tests::insn;
use crate::insn::{
    Endianness, Imm64, Insn, MapDefinition, Module, Reference, Reg, Section, Target, decode_any,
    encode,
};

/// A name of any kind: words, and what needs quotes.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_.$][a-z0-9_.$]{0,8}", "[a-c]", "[ -~äß]{1,8}", Just("pc".to_owned())]
}

fn comment() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[!-~]([ -~é]{0,20}[!-~])?")
}

/// Names, each once.
fn names(range: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    prop::collection::btree_set(name(), range)
        .prop_map(|names| names.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
}

type Line = (Insn, Option<String>, prop::sample::Index, u8);

/// A module in which everything is named somehow: `lines` are dealt out to the sections.
fn build(
    license: Option<String>,
    maps: Vec<(String, [u32; 6])>,
    sections: Vec<String>,
    functions: &[String],
    labels: &[String],
    lines: Vec<Vec<Line>>,
) -> Module {
    let maps: Vec<MapDefinition> = maps
        .into_iter()
        .map(|(name, [map_type, key_size, value_size, max_entries, flags, pinning])| {
            MapDefinition { name, map_type, key_size, value_size, max_entries, flags, pinning }
        })
        .collect();
    let externs = functions.iter().filter(|name| name.len() == 3).cloned().collect();
    let mut functions = functions.iter().filter(|name| name.len() != 3).cloned();
    let mut module = Module { license, maps, externs, sections: Vec::new() };
    for (name, lines) in sections.into_iter().zip(lines) {
        let mut section = Section { name, ..Section::default() };
        let mut labels = labels.iter().cloned();
        for (index, (insn, comment, which, what)) in lines.into_iter().enumerate() {
            section.comments.extend(comment.map(|comment| (index, comment)));
            let mut insn = insn;
            let maps = module.maps.iter().map(|map| &map.name).collect::<Vec<_>>();
            let others = module.sections.iter().flat_map(|section| &section.functions);
            let others = others.map(|(_, name)| name).collect::<Vec<_>>();
            if what % 5 == 0 && !maps.is_empty() {
                let value = if what % 2 == 0 {
                    Imm64::MapFd(0)
                } else {
                    Imm64::MapValue { fd: 0, offset: u32::from(what) }
                };
                insn = Insn::LoadImm64 { dst: Reg::R3, value };
                let to = Target::Map((*which.get(&maps)).clone());
                section.references.push(Reference { index, to });
            } else if what % 7 == 0 && !others.is_empty() {
                insn = if what % 2 == 0 {
                    Insn::CallLocal { off: -1 }
                } else {
                    Insn::LoadImm64 { dst: Reg::R2, value: Imm64::Function(0) }
                };
                let to = Target::Function((*which.get(&others)).clone());
                section.references.push(Reference { index, to });
            }
            if what % 13 == 0 && !module.externs.is_empty() {
                section.references.retain(|reference| reference.index != index);
                insn = if what % 2 == 0 {
                    Insn::CallLocal { off: -1 }
                } else {
                    Insn::LoadImm64 { dst: Reg::R2, value: Imm64::Value(0) }
                };
                let to = Target::Extern(which.get(&module.externs).clone());
                // LLVM's way to write it knows no difference between this and a map of that name.
                if !maps.contains(&&to.name().to_owned()) {
                    section.references.push(Reference { index, to });
                }
            }
            if index == 0 || what % 11 == 0 {
                section.functions.extend(functions.next().map(|name| (index, name)));
            }
            if what % 3 == 0 {
                section.labels.extend(labels.next().map(|name| (index, name)));
            }
            section.insns.push(insn);
        }
        if !section.functions.is_empty() {
            module.sections.push(section);
        }
    }
    module
}

pub(crate) fn module() -> impl Strategy<Value = Module> {
    let line = || (insn(), comment(), any::<prop::sample::Index>(), any::<u8>());
    let lines = prop::collection::vec(prop::collection::vec(line(), 1..30), 1..4);
    let map = (1_u32..40, any::<[u32; 5]>());
    (
        prop::option::of("[ -~]{0,12}"),
        names(0..4),
        prop::collection::vec(map, 4),
        prop::collection::btree_set("[ -~]{1,20}", 3..5),
        names(0..20),
        names(0..20),
        lines,
    )
        .prop_map(|(license, map_names, maps, sections, functions, labels, lines)| {
            let maps = map_names
                .into_iter()
                .zip(maps)
                .map(|(name, (map_type, [a, b, c, d, e]))| (name, [map_type, a, b, c, d, e]));
            let sections = sections.into_iter().collect();
            build(license, maps.collect(), sections, &functions, &labels, lines)
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(module in module()) {
        let text = write(&module);
        let parsed = parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(&parsed.module, &module, "{}", text);
        prop_assert_eq!(write(&parsed.module), text);
    }

    #[test]
    fn every_instruction_is_read_as_it_is_shown(insn in insn()) {
        let parsed = parse(&insn.to_string()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&parsed.module.sections[0].insns[..], &[insn][..]);
    }

    #[test]
    fn any_slots_survive_as_text(slots in prop::collection::vec(any::<[u8; 8]>(), 1..20)) {
        let bytes = slots.concat();
        let insns = decode_any(&bytes, Endianness::Little).unwrap();
        let text: Vec<String> = insns.iter().map(ToString::to_string).collect();
        let text = text.join("\n");
        let read = parse(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(encode(&read.module.sections[0].insns, Endianness::Little), bytes);
    }

    #[test]
    fn any_text_is_read_or_refused_with_a_place_in_it(text in "\\PC{0,200}") {
        check_any(&text);
    }

    #[test]
    fn words_of_the_language_in_any_order_are_read_or_refused(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..40),
    ) {
        check_any(&words.join(" "));
        check_any(&words.concat());
    }
}

const WORDS: &[&str] = &[
    ".section",
    ".func",
    ".map",
    ".license",
    ".insn",
    "\n",
    ":",
    "\"",
    "\"a\"",
    "a",
    "r0",
    "w1",
    "r11",
    "=",
    "+=",
    "s>>=",
    "*",
    "(",
    ")",
    "u64",
    "s8",
    "[",
    "]",
    "map",
    "fd",
    "subprog",
    "if",
    "goto",
    "gotol",
    "may_goto",
    "call",
    "pc",
    "+",
    "-",
    "1",
    "0x",
    "ll",
    "lock",
    "xchg_64",
    ",",
    "skb",
    ";",
    "#",
    "//",
    "exit",
    "\\x",
    "be16",
    "kfunc",
    "type",
    "hash",
    "key",
    "99999999999999999999",
    "é",
    "\t",
];

/// What the fuzz target checks, too.
fn check_any(text: &str) {
    match parse(text) {
        Ok(parsed) => {
            let written = write(&parsed.module);
            assert_eq!(parse(&written).unwrap().module, parsed.module, "{written}");
        }
        Err(error) => {
            let line = text.lines().nth(error.line - 1).unwrap();
            assert!(error.column >= 1 && error.column <= line.chars().count() + 1, "{error:?}");
            assert_eq!(error.to_string().lines().count(), 3, "{error}");
        }
    }
}

#[test]
fn seeds_of_the_fuzzer_are_read_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/text");
    let seeds: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(seeds.len() >= 3);
    for seed in seeds {
        let bytes = std::fs::read(seed.unwrap().path()).unwrap();
        check_any(&String::from_utf8_lossy(&bytes));
    }
}

fn insns(text: &str) -> Vec<String> {
    let parsed = parse(text).unwrap_or_else(|error| panic!("{error}"));
    parsed.module.sections[0].insns.iter().map(ToString::to_string).collect()
}

#[test]
fn what_others_write_is_read() {
    let cases = [
        ("r0=*(u64*)(r1+0x10)", "r0 = *(u64 *)(r1 + 16)"),
        ("r2 = *(u64 *)(r10 -8)", "r2 = *(u64 *)(r10 - 8)"),
        ("w2 = *(u32 *)(r1 + 0x4)", "r2 = *(u32 *)(r1 + 4)"),
        ("*(u8 *)(r1 + 0) = w2", "*(u8 *)(r1 + 0) = r2"),
        ("12: (7b) *(u64 *)(r10 -8) = r1", "*(u64 *)(r10 - 8) = r1"),
        ("  3:\tif r1 != 0x0 goto +0x1 <out>", "if r1 != 0 goto +1"),
        ("5: (55) if r0 != 0x0 goto pc+2", "if r0 != 0 goto +2"),
        ("(85) call bpf_ktime_get_ns#5", "call 5"),
        ("85: (85) call pc-1", "call pc-1"),
        ("w1 = 0xffffffff", "w1 = -1"),
        ("if w1 > 4294967295 goto +0", "if w1 > -1 goto +0"),
        ("r1 = 0xffffffffffffffff ll", "r1 = -1 ll"),
        ("r1 = -9223372036854775808 ll", "r1 = -9223372036854775808 ll"),
        ("w2 = xchg32_32(r1 + 0x8, w2)", "w2 = xchg_32(r1 + 8, w2)"),
        ("w0 = cmpxchg32_32(r1 + 0, w0, w2)", "w0 = cmpxchg_32(r1 + 0, w0, w2)"),
        ("lock *(u32 *)(r1 + 0) += r2", "lock *(u32 *)(r1 + 0) += w2"),
        ("r0 = load_acquire((u32 *)(r1 + 0))", "w0 = load_acquire((u32 *)(r1 + 0))"),
        ("may_goto +0x1", "may_goto +1"),
        ("r1 = *(u8 *)(r2)", "r1 = *(u8 *)(r2 + 0)"),
        (".insn 0x95, 0, 0, 0, 0", "exit"),
        (".insn 24, 1, 0, 0, 0", ".insn 0x18, 1, 0, 0, 0"),
    ];
    for (text, insn) in cases {
        assert_eq!(insns(text), [insn], "{text}");
    }
}

#[test]
fn names_go_to_labels_functions_helpers_and_maps() {
    let text = "\
.map m, type array, key 4, value 8, entries 1
.section one
.func f
again: r1 = map[m]
    r2 = m ll                   // the same
    r3 = map[m][0]+4 ll
    call bpf_map_lookup_elem    # a helper
    call g
    call h
    r4 = subprog[h]
    if r1 == 0 goto again
    gotol out
.func g
out: exit
.section two
.func h
    exit
";
    let parsed = parse(text).unwrap();
    let section = &parsed.module.sections[0];
    let shown: Vec<String> = section.insns.iter().map(ToString::to_string).collect();
    let expected = [
        "r1 = map[fd:0]",
        "r2 = map[fd:0]",
        "r3 = map[fd:0][0]+4",
        "call 1",
        "call pc+5",
        "call pc-1",
        "r4 = subprog[+0]",
        "if r1 == 0 goto -12",
        "gotol +0",
        "exit",
    ];
    assert_eq!(shown, expected);
    let references: Vec<(usize, &str)> =
        section.references.iter().map(|at| (at.index, at.to.name())).collect();
    assert_eq!(references, [(0, "m"), (1, "m"), (2, "m"), (5, "h"), (6, "h")]);
    assert_eq!(section.comments[&3], "a helper");
    assert_eq!(parsed.lines[0], [4, 5, 6, 7, 8, 9, 10, 11, 12, 14]);
}

#[test]
fn what_is_wrong_is_shown_where_it_is() {
    let cases = [
        ("r0 = r11", 1, 6, "expected a register, r0 to r10 or w0 to w10, found `r11`"),
        ("r0 = w1", 1, 6, "expected a whole register, r0 to r10, found `w1`"),
        (
            "w0 = 1 ll",
            1,
            8,
            "expected a number or a w register: an address needs a whole register, found `ll`",
        ),
        (
            "r0 = 4294967296",
            1,
            6,
            "4294967296 does not fit into 32 bits: `r0 = 4294967296 ll` loads 64",
        ),
        (
            "r0 += 0xffffffff",
            1,
            7,
            "expected a register or a number, -2147483648 to 2147483647, found 4294967295",
        ),
        (
            "exit\n  frobnicate r1",
            2,
            3,
            "expected an instruction, a label or a directive, found `frobnicate`",
        ),
        ("goto out", 1, 6, "there is no label out in this section"),
        ("goto 3", 1, 6, "expected a label, or a distance such as +3 or -3, found `3`"),
        ("goto +32768", 1, 6, "expected a distance of 16 bits, -32768 to 32767, found 32768"),
        ("call nobody", 1, 6, "there is no helper and no function nobody"),
        ("r1 = map[m]", 1, 10, "there is no map m: `.map m, type ...` defines it"),
        ("exit\nout:", 2, 1, "no instruction follows out in its section"),
        ("a: exit\na: exit", 2, 1, "label a stands in this section twice"),
        (
            "r0 = *(u24 *)(r1 + 0)",
            1,
            8,
            "expected u8, u16, u32, u64, or s8 to s64 for a load with sign, found `u24`",
        ),
        (
            "r0 = *(u64 *)(r1 + 32768)",
            1,
            18,
            "expected an offset of 16 bits, -32768 to 32767, found 32768",
        ),
        (
            "r2 = atomic_fetch_add((u64 *)(r1 + 0), r3)",
            1,
            40,
            "expected r2 or its half, as before `=`: it is taken and given",
        ),
        ("exit exit", 1, 6, "expected the end of the line, found `exit`"),
        (".map m, key 4", 1, 6, "this map has no type: add `, type hash` or another one"),
        (
            ".map m, type hush",
            1,
            14,
            "expected a type of map, such as hash, array or percpu_array, found `hush`",
        ),
        (
            ".map m, type hash, size 4",
            1,
            20,
            "expected type, key, value, entries, flags or pinning, found `size`",
        ),
        (".license GPL", 1, 10, "expected a license in quotes, such as \"GPL\", found `GPL`"),
        (
            ".globl f",
            1,
            1,
            "expected .section, .func, .map, .license, .extern or .insn, found `.globl`",
        ),
        (
            ".section",
            1,
            9,
            "expected the name of a section, such as tracepoint/syscalls/sys_enter_read",
        ),
        ("r0 = \"x", 1, 6, "there is no `\"` at the end of this"),
        ("r0 = 0x", 1, 6, "`0x` is no number of 64 bits: cannot parse integer from empty string"),
        ("r0 = §", 1, 6, "`§` has no meaning here"),
        ("if r1 = 0 goto +1", 1, 7, "expected a comparison such as `==`, `s<` or `&`, found `=`"),
        ("if r1 == 0", 1, 11, "expected `goto`, found the end of the line"),
    ];
    for (text, line, column, message) in cases {
        let error = parse(text).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
        assert_eq!(error.message, message, "{text}");
    }
}

#[test]
fn a_jump_by_name_that_is_too_far_is_an_error_and_gotol_reaches_it() {
    let far = |jump: &str| format!("{jump} out\n{}out: exit\n", "r0 = 0\n".repeat(32_768));
    let error = parse(&far("goto")).unwrap_err();
    let message = "out is 32768 slots away, which does not fit into 16 bits: use gotol";
    assert_eq!((error.line, error.message.as_str()), (1, message));
    assert_eq!(insns(&far("gotol"))[0], "gotol +32768");
}

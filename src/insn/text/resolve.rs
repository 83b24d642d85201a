//! What names mean, when the whole file is known.

use std::collections::BTreeMap;
use std::ops::Range;

use super::operation::{Name, NameOf, helper_call};
use super::parse::{Draft, Parsed};
use crate::insn::instruction::{Imm64, Insn};
use crate::insn::module::{Module, Names, Reference, Target};

/// What is wrong with a name, and where in the text.
pub(super) struct Fault {
    pub(super) line: usize,
    pub(super) at: Range<usize>,
    pub(super) message: String,
}

pub(super) fn resolve(mut module: Module, mut drafts: Vec<Draft>) -> Result<Parsed, Fault> {
    for draft in &mut drafts {
        require_instructions(draft)?;
    }
    drafts.retain(|draft| !draft.section.insns.is_empty());
    for index in 0..drafts.len() {
        name_first_function(&mut drafts, index);
    }
    // Where each function is: its section, and its first instruction.
    let mut functions: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (at, draft) in drafts.iter().enumerate() {
        for (index, name) in &draft.section.functions {
            functions.insert(name.clone(), (at, *index));
        }
    }
    let mut lines = Vec::new();
    for (at, mut draft) in drafts.into_iter().enumerate() {
        let slots = draft.section.slots();
        let labels: BTreeMap<String, usize> =
            draft.section.labels.iter().map(|(index, name)| (name.clone(), *index)).collect();
        for (index, name) in std::mem::take(&mut draft.names) {
            let line = draft.lines.get(index).copied().unwrap_or(1) as usize;
            let meaning = meaning(&name, &module, &functions, &labels, at);
            let fault = |message| Fault { line, at: name.at.clone(), message };
            let insn = &mut draft.section.insns[index];
            match meaning.map_err(fault)? {
                Meaning::Helper(call) => *insn = call,
                Meaning::Local(target) => {
                    let distance = slots[target] as i64 - (slots[index] as i64 + 1);
                    put_distance(insn, &name, distance).map_err(fault)?;
                }
                Meaning::Elsewhere(to) => {
                    if let Insn::LoadImm64 { value, .. } = insn {
                        match to {
                            Target::Map(_) => {}
                            Target::Function(_) => *value = Imm64::Function(0),
                            Target::Extern(_) => *value = Imm64::Value(0),
                        }
                    }
                    draft.section.references.push(Reference { index, to });
                }
            }
        }
        lines.push(draft.lines);
        module.sections.push(draft.section);
    }
    Ok(Parsed { module, lines })
}

/// A label or function at the end of a section names nothing.
fn require_instructions(draft: &Draft) -> Result<(), Fault> {
    let end = draft.section.insns.len();
    let labels = draft.section.labels.iter().zip(&draft.labels_at);
    let functions = draft.section.functions.iter().zip(&draft.functions_at);
    for ((index, name), (line, at)) in labels.chain(functions) {
        if *index == end {
            let message = format!("no instruction follows {name} in its section");
            return Err(Fault { line: *line, at: at.clone(), message });
        }
    }
    Ok(())
}

/// A section whose first instruction has no function is named after its last part.
fn name_first_function(drafts: &mut [Draft], index: usize) {
    let section = &drafts[index].section;
    if section.functions.first().is_some_and(|(at, _)| *at == 0) {
        return;
    }
    let name = section.default_function_name();
    let functions = drafts.iter().flat_map(|draft| &draft.section.functions);
    let name = Names::taken(functions.map(|(_, name)| name.clone())).unused(&name);
    drafts[index].section.functions.insert(0, (0, name));
}

enum Meaning {
    Helper(Insn),
    /// An instruction of the same section.
    Local(usize),
    Elsewhere(Target),
}

fn meaning(
    name: &Name,
    module: &Module,
    functions: &BTreeMap<String, (usize, usize)>,
    labels: &BTreeMap<String, usize>,
    section: usize,
) -> Result<Meaning, String> {
    let Name { of, text: name, .. } = name;
    let function = || {
        functions.get(name).map(|(at, index)| {
            if *at == section {
                Meaning::Local(*index)
            } else {
                Meaning::Elsewhere(Target::Function(name.clone()))
            }
        })
    };
    let map = || {
        let is_there = module.maps.iter().any(|map| map.name == *name);
        is_there.then(|| Meaning::Elsewhere(Target::Map(name.clone())))
    };
    let external = || {
        let is_there = module.externs.contains(name);
        is_there.then(|| Meaning::Elsewhere(Target::Extern(name.clone())))
    };
    let known = match of {
        NameOf::Label => labels.get(name).map(|index| Meaning::Local(*index)),
        NameOf::Function => {
            function().or_else(external).or_else(|| helper_call(name).map(Meaning::Helper))
        }
        NameOf::FunctionAddress => function(),
        NameOf::Map => map(),
        NameOf::Symbol => map().or_else(function).or_else(external),
    };
    known.ok_or_else(|| match of {
        NameOf::Label => format!("there is no label {name} in this section"),
        NameOf::Function => format!("there is no helper and no function {name}"),
        NameOf::FunctionAddress => format!("there is no function {name}"),
        NameOf::Map => format!("there is no map {name}: `.map {name}, type ...` defines it"),
        NameOf::Symbol => format!("there is no map and no function {name}"),
    })
}

/// Writes how far it is into a jump, a call, or the load of a function's address.
fn put_distance(insn: &mut Insn, name: &Name, distance: i64) -> Result<(), String> {
    let too_far = |bits: u32| {
        let name = &name.text;
        format!("{name} is {distance} slots away, which does not fit into {bits} bits")
    };
    let short = || i16::try_from(distance).map_err(|_| too_far(16) + ": use gotol");
    let long = || i32::try_from(distance).map_err(|_| too_far(32));
    match insn {
        Insn::Jump { off } | Insn::JumpIf { off, .. } | Insn::MayGoto { off } => *off = short()?,
        Insn::JumpLong { off } | Insn::CallLocal { off } => *off = long()?,
        Insn::LoadImm64 { value, .. } => *value = Imm64::Function(long()?),
        _ => {}
    }
    Ok(())
}

//! From a file of functions to programs: a function, and behind it all those that it calls.
//!
//! The kernel takes one piece of code for each program, in which a call of a function is a distance in
//! slots. A file has each function once, wherever it stands, so the distances are put in here, as libbpf
//! does it when it loads an object file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use super::instruction::{Imm64, Insn};
use super::module::{Module, Section, Target};
use super::program::{Program, Relocation};

/// A program of a module, ready for the maps' descriptors.
#[derive(Clone, Debug)]
pub struct Linked {
    /// The code.
    pub program: Program,
    /// For each instruction where the module has it: the index of the section, and its own in that.
    pub origin: Vec<(usize, usize)>,
    /// Its functions: the index of the first instruction in the program, and the name.
    pub functions: Vec<(usize, String)>,
}

/// A function of a module by the index of its section, and its own among the section's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionAt {
    /// The section.
    pub section: usize,
    /// The function.
    pub function: usize,
}

/// Why a function is no program of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlinkable {
    /// It refers to what only a kernel knows.
    Extern(String),
    /// It is not there, or calls what is not there.
    Missing(String),
}

impl fmt::Display for Unlinkable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extern(name) => {
                write!(f, "{name} is extern: only a loader that reads the kernel's types finds it")
            }
            Self::Missing(name) => write!(f, "there is no function {name}"),
        }
    }
}

impl std::error::Error for Unlinkable {}

impl Module {
    /// The functions that are programs: those that no other function refers to. Where each is called by
    /// another, the first function of the file.
    pub fn programs(&self) -> Vec<FunctionAt> {
        let finder = Finder::of(self);
        let mut called = BTreeSet::new();
        let all: Vec<FunctionAt> = finder.all().collect();
        for at in &all {
            for index in finder.indices(*at) {
                called.extend(finder.referred(at.section, index).filter(|target| target != at));
            }
        }
        let mut programs: Vec<FunctionAt> =
            all.iter().copied().filter(|at| !called.contains(at)).collect();
        if programs.is_empty() {
            programs.extend(all.first());
        }
        programs
    }

    /// The name of a function.
    pub fn function_name(&self, at: FunctionAt) -> Option<&str> {
        let (_, name) = self.sections.get(at.section)?.functions.get(at.function)?;
        Some(name)
    }

    /// Puts a program together.
    ///
    /// # Errors
    /// When it refers to something extern.
    ///
    /// ```
    /// use rlat::insn::text;
    ///
    /// let text = ".section socket\n.func main\ncall two\nexit\n.section .text\n.func two\nr0 = 2\nexit";
    /// let module = text::parse(text).unwrap().module;
    /// let [main] = module.programs()[..] else { panic!() };
    /// let linked = module.link(main)?;
    /// assert_eq!(linked.program.insns()[0].to_string(), "call pc+1");
    /// assert_eq!(linked.origin, [(0, 0), (0, 1), (1, 0), (1, 1)]);
    /// assert_eq!(linked.functions, [(0, "main".to_owned()), (2, "two".to_owned())]);
    /// # Ok::<(), rlat::insn::Unlinkable>(())
    /// ```
    pub fn link(&self, entry: FunctionAt) -> Result<Linked, Unlinkable> {
        let finder = Finder::of(self);
        let missing =
            || Unlinkable::Missing(format!("{} of section {}", entry.function, entry.section));
        let name = self.function_name(entry).ok_or_else(missing)?.to_owned();
        // The entry, and behind it each function once, in the order of the first calls.
        let mut pieces = vec![entry];
        let mut waiting = VecDeque::from([entry]);
        while let Some(at) = waiting.pop_front() {
            for index in finder.indices(at) {
                if let Some(Target::Extern(name)) = finder.reference(at.section, index) {
                    return Err(Unlinkable::Extern(name.clone()));
                }
                if let Some(target) = finder.referred(at.section, index)
                    && !pieces.contains(&target)
                {
                    pieces.push(target);
                    waiting.push_back(target);
                }
            }
        }
        let origin: Vec<(usize, usize)> = pieces
            .iter()
            .flat_map(|at| finder.indices(*at).map(|index| (at.section, index)))
            .collect();
        Ok(self.put_together(name, origin, &finder))
    }

    fn put_together(
        &self,
        name: String,
        origin: Vec<(usize, usize)>,
        finder: &Finder<'_>,
    ) -> Linked {
        let mut slots: BTreeMap<(usize, usize), i64> = BTreeMap::new();
        let mut next = 0;
        for place in &origin {
            slots.insert(*place, next);
            next += self.sections[place.0].insns[place.1].slots() as i64;
        }
        let mut insns = Vec::with_capacity(origin.len());
        let mut comments = BTreeMap::new();
        let mut labels = Vec::new();
        let mut relocations = Vec::new();
        for (index, place) in origin.iter().enumerate() {
            let section = &self.sections[place.0];
            let mut insn = section.insns[place.1];
            let distance = finder
                .target(place.0, place.1)
                .and_then(|target| Some(slots.get(&target)? - slots.get(place)? - 1))
                .and_then(|distance| i32::try_from(distance).ok());
            if let (
                Some(distance),
                Insn::CallLocal { off } | Insn::LoadImm64 { value: Imm64::Function(off), .. },
            ) = (distance, &mut insn)
            {
                *off = distance;
            }
            if let Some(Target::Map(map)) = finder.reference(place.0, place.1) {
                relocations.push(Relocation { index, map: map.clone() });
            }
            comments.extend(section.comments.get(&place.1).map(|text| (index, text.clone())));
            let first = section.labels.partition_point(|(at, _)| *at < place.1);
            let here = section.labels[first..].iter().take_while(|(at, _)| *at == place.1);
            labels.extend(here.map(|(_, label)| (index, label.clone())));
            insns.push(insn);
        }
        let functions = origin.iter().enumerate().filter_map(|(index, (section, at))| {
            let functions = &self.sections[*section].functions;
            let found = functions.iter().find(|(first, _)| first == at);
            found.map(|(_, name)| (index, name.clone()))
        });
        let functions = functions.collect();
        let program = Program::new(name, insns, comments, labels, relocations);
        Linked { program, origin, functions }
    }
}

/// What the sections of a module hold, to be found quickly.
struct Finder<'a> {
    module: &'a Module,
    /// For each section the index of the instruction at each slot.
    by_slot: Vec<BTreeMap<i64, usize>>,
    slots: Vec<Vec<usize>>,
    references: Vec<BTreeMap<usize, &'a Target>>,
    names: BTreeMap<&'a str, FunctionAt>,
}

impl<'a> Finder<'a> {
    fn of(module: &'a Module) -> Self {
        let slots: Vec<Vec<usize>> = module.sections.iter().map(Section::slots).collect();
        let by_slot = module.sections.iter().zip(&slots).map(|(section, slots)| {
            let slots = slots.iter().take(section.insns.len());
            slots.enumerate().map(|(index, slot)| (*slot as i64, index)).collect()
        });
        let references = module.sections.iter().map(|section| {
            section.references.iter().map(|reference| (reference.index, &reference.to)).collect()
        });
        let mut names = BTreeMap::new();
        for (section, content) in module.sections.iter().enumerate() {
            for (function, (_, name)) in content.functions.iter().enumerate() {
                names.insert(name.as_str(), FunctionAt { section, function });
            }
        }
        Self { module, by_slot: by_slot.collect(), slots, references: references.collect(), names }
    }

    fn all(&self) -> impl Iterator<Item = FunctionAt> {
        let sections = self.module.sections.iter().enumerate();
        sections.flat_map(|(section, content)| {
            (0..content.functions.len()).map(move |function| FunctionAt { section, function })
        })
    }

    /// The instructions of a function.
    fn indices(&self, at: FunctionAt) -> std::ops::Range<usize> {
        let section = &self.module.sections[at.section];
        let begin = |function: usize| section.functions.get(function).map(|(index, _)| *index);
        let start = begin(at.function).unwrap_or_default();
        start..begin(at.function + 1).unwrap_or(section.insns.len()).max(start)
    }

    fn reference(&self, section: usize, index: usize) -> Option<&'a Target> {
        self.references[section].get(&index).copied()
    }

    /// The instruction that a call or the load of a function's address leads to.
    fn target(&self, section: usize, index: usize) -> Option<(usize, usize)> {
        if let Some(Target::Function(name)) = self.reference(section, index) {
            let at = *self.names.get(name.as_str())?;
            return Some((at.section, self.indices(at).start));
        }
        let (Insn::CallLocal { off } | Insn::LoadImm64 { value: Imm64::Function(off), .. }) =
            self.module.sections[section].insns[index]
        else {
            return None;
        };
        let slot = self.slots[section][index] as i64 + 1 + i64::from(off);
        Some((section, *self.by_slot[section].get(&slot)?))
    }

    /// The function to which that belongs.
    fn referred(&self, section: usize, index: usize) -> Option<FunctionAt> {
        let (section, target) = self.target(section, index)?;
        let functions = &self.module.sections[section].functions;
        let function = functions.iter().rposition(|(start, _)| *start <= target)?;
        Some(FunctionAt { section, function })
    }
}

#[cfg(test)]
mod tests {
    use crate::insn::text::parse;

    #[test]
    fn functions_that_are_called_are_no_programs() {
        let text = ".section xdp\n.func a\ncall c\nexit\n.func b\nr1 = subprog[d]\ncall c\nexit\n\
                    .section .text\n.func c\nr0 = 1 ; one\nexit\n.func d\nexit";
        let module = parse(text).unwrap().module;
        let programs = module.programs();
        let names: Vec<_> = programs.iter().map(|at| module.function_name(*at).unwrap()).collect();
        assert_eq!(names, ["a", "b"]);
        let linked = module.link(programs[1]).unwrap();
        let texts: Vec<String> = linked.program.insns().iter().map(ToString::to_string).collect();
        let expected = ["r1 = subprog[+3]", "call pc+2", "exit", "exit", "r0 = 1", "exit"];
        assert_eq!(texts, expected);
        assert_eq!(linked.program.comment(4), Some("one"));
    }

    #[test]
    fn what_calls_itself_is_a_program_and_what_is_extern_is_none() {
        let module = parse(".func f\ncall f\nexit").unwrap().module;
        let linked = module.link(module.programs()[0]).unwrap();
        assert_eq!(linked.program.insns()[0].to_string(), "call pc-1");
        let module = parse(".extern k\n.func f\ncall k\nexit").unwrap().module;
        assert!(module.link(module.programs()[0]).is_err());
    }
}

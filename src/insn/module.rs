//! Everything that one file of programs holds: sections of code, maps and a license.
//!
//! It is what the text assembler reads and an object file is written from, and the other way round.

use std::collections::{BTreeMap, BTreeSet};

use super::instruction::Insn;
use super::program::Program;

/// The programs of a file, with the maps that they refer to by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// What the programs' authors allow; the kernel gives some helpers only to `GPL` and its like.
    pub license: Option<String>,
    /// The maps, in the order of the file.
    pub maps: Vec<MapDefinition>,
    /// Names of what is in no section, and only a loader knows: functions and variables of the kernel.
    pub externs: Vec<String>,
    /// The code, in the order of the file.
    pub sections: Vec<Section>,
}

/// What a map is created from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapDefinition {
    /// Its name, by which instructions refer to it.
    pub name: String,
    /// The number of its type (`enum bpf_map_type`); see [`map_type_name`].
    pub map_type: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// How many values at most.
    pub max_entries: u32,
    /// `BPF_F_...`, such as 1024 for an array that can be mapped into memory.
    pub flags: u32,
    /// What libbpf is to do about pinning: 0 nothing, 1 by name.
    pub pinning: u32,
}

/// Code that is in one section of an object file, whose name tells libbpf what to attach it to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The name, such as `tracepoint/syscalls/sys_enter_read`.
    pub name: String,
    /// The instructions of all its functions. Not empty.
    pub insns: Vec<Insn>,
    /// What is said about instructions, by index: one line each, without blanks around.
    pub comments: BTreeMap<usize, String>,
    /// Index and name of the first instruction of each function, in order; the first one is at 0.
    pub functions: Vec<(usize, String)>,
    /// Index and name of places to jump to, in order.
    pub labels: Vec<(usize, String)>,
    /// What is known by name only until the program is loaded, in order.
    pub references: Vec<Reference>,
}

/// An instruction that refers to something outside of its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Index of the instruction: a 64-bit load, or a call.
    pub index: usize,
    /// What it refers to.
    pub to: Target,
}

/// What an instruction refers to by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A map of the module.
    Map(String),
    /// A function in another section.
    Function(String),
    /// What the module names as extern: a function where it is called, else an address.
    Extern(String),
}

impl Target {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Map(name) | Self::Function(name) | Self::Extern(name) => name,
        }
    }
}

impl Section {
    /// A program as the only function of a section of that name. Comments become one line each, and
    /// labels that share a name are told apart by a number.
    ///
    /// ```
    /// use rlat::insn::{Assembler, Reg, Section};
    ///
    /// let mut asm = Assembler::new("nothing");
    /// asm.mov(Reg::R0, 0).comment("what it returns");
    /// asm.exit();
    /// let section = Section::of("socket", &asm.finish()?);
    /// assert_eq!(section.functions, [(0, "nothing".to_owned())]);
    /// assert_eq!(section.comments[&0], "what it returns");
    /// # Ok::<(), rlat::insn::AssembleError>(())
    /// ```
    pub fn of(name: impl Into<String>, program: &Program) -> Self {
        let comments = (0..program.insns().len()).filter_map(|index| {
            let comment = one_line(program.comment(index)?);
            (!comment.is_empty()).then_some((index, comment))
        });
        let references = program.relocations().iter().map(|relocation| Reference {
            index: relocation.index,
            to: Target::Map(relocation.map.clone()),
        });
        let mut labels: Vec<(usize, String)> = program.labels().to_vec();
        labels.sort_by_key(|(index, _)| *index);
        // The function is a place with a name, too.
        let mut names = Names::taken([program.name().to_owned()]);
        for (_, label) in &mut labels {
            *label = names.unused(label);
        }
        Self {
            name: name.into(),
            insns: program.insns().to_vec(),
            comments: comments.collect(),
            functions: vec![(0, program.name().to_owned())],
            labels,
            references: references.collect(),
        }
    }

    /// The name of a function that has none: the last part of its section's name.
    pub(crate) fn default_function_name(&self) -> String {
        let last = self.name.rsplit(['/', '.']).find(|part| !part.is_empty()).unwrap_or("main");
        last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
    }

    /// The slot at which each instruction starts, and at last the number of slots.
    pub fn slots(&self) -> Vec<usize> {
        let mut next = 0;
        let mut slots = Vec::with_capacity(self.insns.len() + 1);
        for insn in &self.insns {
            slots.push(next);
            next += insn.slots();
        }
        slots.push(next);
        slots
    }
}

/// Names of which each is there once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: BTreeSet<String>,
    /// The number that is tried next behind a name that is taken.
    next: BTreeMap<String, usize>,
}

impl Names {
    /// These are taken.
    pub(crate) fn taken(names: impl IntoIterator<Item = String>) -> Self {
        Self { taken: names.into_iter().collect(), next: BTreeMap::new() }
    }

    /// The name itself, or with a number behind it if it is taken; it is then.
    pub(crate) fn unused(&mut self, name: &str) -> String {
        let mut unused = name.to_owned();
        let number = self.next.entry(name.to_owned()).or_insert(2);
        while !self.taken.insert(unused.clone()) {
            unused = format!("{name}_{number}");
            *number += 1;
        }
        unused
    }
}

/// A comment without line ends, and with nothing that a terminal could obey.
pub(crate) fn one_line(text: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_control() => ' ',
        // What does not simply print: it could turn the line around.
        c if !c.is_ascii() && c.escape_debug().len() > 1 => '?',
        c => c,
    };
    text.chars().map(plain).collect::<String>().trim().to_owned()
}

/// The name of a map type as this text syntax has it: the kernel's without its beginning, in small
/// letters.
///
/// ```
/// use rlat::insn::{map_type_name, map_type_number};
///
/// assert_eq!(map_type_name(1), Some("hash"));
/// assert_eq!(map_type_number("percpu_array"), Some(6));
/// ```
pub fn map_type_name(number: u32) -> Option<&'static str> {
    MAP_TYPES.get(usize::try_from(number).ok()?).copied().filter(|_| number != 0)
}

/// The number of the map type with that name.
pub fn map_type_number(name: &str) -> Option<u32> {
    MAP_TYPES.iter().skip(1).position(|known| *known == name).map(|at| at as u32 + 1)
}

/// `enum bpf_map_type` in `include/uapi/linux/bpf.h`; 0 is none.
const MAP_TYPES: [&str; 35] = [
    "unspec",
    "hash",
    "array",
    "prog_array",
    "perf_event_array",
    "percpu_hash",
    "percpu_array",
    "stack_trace",
    "cgroup_array",
    "lru_hash",
    "lru_percpu_hash",
    "lpm_trie",
    "array_of_maps",
    "hash_of_maps",
    "devmap",
    "sockmap",
    "cpumap",
    "xskmap",
    "sockhash",
    "cgroup_storage",
    "reuseport_sockarray",
    "percpu_cgroup_storage",
    "queue",
    "stack",
    "sk_storage",
    "devmap_hash",
    "struct_ops",
    "ringbuf",
    "inode_storage",
    "task_storage",
    "bloom_filter",
    "user_ringbuf",
    "cgrp_storage",
    "arena",
    "insn_array",
];

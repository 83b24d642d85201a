//! A finished program: instructions with their comments, labels and references to maps.

use std::collections::BTreeMap;
use std::fmt;

use super::instruction::{Imm64, Insn};

/// Says that an instruction refers to a map, which is known by name until it is linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Index of the instruction, a 64-bit immediate load.
    pub index: usize,
    /// The map's name.
    pub map: String,
}

/// A program refers to a map that linking was not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMap(pub String);

impl fmt::Display for UnknownMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no map named {} was given", self.0)
    }
}

impl std::error::Error for UnknownMap {}

/// A program as [`Assembler::finish`](super::Assembler::finish) makes it. Its
/// [`Display`](fmt::Display) is the listing with labels and comments.
#[derive(Clone, Debug)]
pub struct Program {
    name: String,
    insns: Vec<Insn>,
    comments: BTreeMap<usize, String>,
    labels: Vec<(usize, String)>,
    relocations: Vec<Relocation>,
}

impl Program {
    pub(super) fn new(
        name: String,
        insns: Vec<Insn>,
        comments: BTreeMap<usize, String>,
        labels: Vec<(usize, String)>,
        relocations: Vec<Relocation>,
    ) -> Self {
        Self { name, insns, comments, labels, relocations }
    }

    /// The name, as the kernel and bpftool will show it, where 15 bytes are enough.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The instructions, with descriptor 0 where a map will be.
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    /// The references to maps.
    pub fn relocations(&self) -> &[Relocation] {
        &self.relocations
    }

    /// The comment on the instruction with that index.
    pub fn comment(&self, index: usize) -> Option<&str> {
        self.comments.get(&index).map(String::as_str)
    }

    /// Places to jump to: the index of the instruction, and the label's name.
    pub fn labels(&self) -> &[(usize, String)] {
        &self.labels
    }

    /// The index of the instruction that starts at a slot. The verifier counts slots.
    pub fn index_of_slot(&self, slot: usize) -> Option<usize> {
        self.slots().position(|at| at == slot)
    }

    /// The slot at which each instruction starts.
    pub fn slots(&self) -> impl Iterator<Item = usize> {
        self.insns.iter().scan(0, |next, insn| {
            let at = *next;
            *next += insn.slots();
            Some(at)
        })
    }

    /// The instructions with the maps' descriptors in place, ready to be encoded and loaded.
    ///
    /// # Errors
    /// [`UnknownMap`] when a map that the program names is not among `maps`.
    pub fn link(&self, maps: &[(&str, i32)]) -> Result<Vec<Insn>, UnknownMap> {
        let mut linked = self.insns.clone();
        for Relocation { index, map } in &self.relocations {
            let (_, map_fd) =
                maps.iter().find(|(name, _)| name == map).ok_or_else(|| UnknownMap(map.clone()))?;
            if let Insn::LoadImm64 {
                value: Imm64::MapFd(fd) | Imm64::MapValue { fd, .. }, ..
            } = &mut linked[*index]
            {
                *fd = *map_fd;
            }
        }
        Ok(linked)
    }

    fn text(&self, index: usize, insn: &Insn) -> String {
        let map = self.relocations.iter().find(|relocation| relocation.index == index);
        match (insn, map) {
            (Insn::LoadImm64 { dst, value: Imm64::MapValue { offset, .. } }, Some(map)) => {
                format!("{dst} = map[{}][0]+{offset}", map.map)
            }
            (Insn::LoadImm64 { dst, .. }, Some(map)) => format!("{dst} = map[{}]", map.map),
            _ => insn.to_string(),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (slot, insn)) in self.slots().zip(&self.insns).enumerate() {
            for (_, label) in self.labels.iter().filter(|(at, _)| *at == index) {
                writeln!(f, "{label}:")?;
            }
            let text = self.text(index, insn);
            match self.comment(index) {
                Some(comment) => writeln!(f, "{slot:6}: {text:<36} ; {comment}")?,
                None => writeln!(f, "{slot:6}: {text}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::insn::{Assembler, Imm64, Insn, Reg, UnknownMap};

    #[test]
    fn linking_puts_descriptors_in_place_or_names_the_missing_map() {
        let mut asm = Assembler::new("t");
        asm.load_map(Reg::R1, "starts").comment("tid -> start");
        asm.load_map_value(Reg::R2, "control", 8);
        asm.exit();
        let program = asm.finish().unwrap();

        let linked = program.link(&[("control", 4), ("starts", 3)]).unwrap();
        assert_eq!(linked[0], Insn::LoadImm64 { dst: Reg::R1, value: Imm64::MapFd(3) });
        let value = Imm64::MapValue { fd: 4, offset: 8 };
        assert_eq!(linked[1], Insn::LoadImm64 { dst: Reg::R2, value });
        assert_eq!(program.link(&[("starts", 3)]), Err(UnknownMap("control".into())));

        assert_eq!(
            program.to_string(),
            "     0: r1 = map[starts]                     ; tid -> start\n     \
             2: r2 = map[control][0]+8\n     4: exit\n"
        );
        assert_eq!(program.index_of_slot(2), Some(1));
        assert_eq!(program.index_of_slot(3), None);
    }
}

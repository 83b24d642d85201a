//! The `format` file of a tracepoint: the layout of its record, field by field.
//!
//! A BPF program on a tracepoint is given a pointer to such a record. The offsets are read from
//! this file and are never constants, since some distributions' kernels have a wider header in front.
//! The kernel writes the file in `f_show()` of `kernel/trace/trace_events.c`:
//!
//! ```text
//! name: sched_process_exec
//! ID: 365
//! format:
//!         field:unsigned short common_type;       offset:0;  size:2; signed:0;
//!         field:int common_pid;                   offset:4;  size:4; signed:1;
//!
//!         field:__data_loc char[] filename;       offset:8;  size:4; signed:0;
//!         field:pid_t pid;                        offset:12; size:4; signed:1;
//!
//! print fmt: "filename=%s pid=%d", __get_str(filename), REC->pid
//! ```

use std::fmt;

/// What the `format` file of one tracepoint says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The name of the tracepoint, without its category.
    pub name: String,
    /// The number that `perf_event_open(2)` takes; the `id` file says the same.
    pub id: u64,
    /// The fields in the file's order, those common to all tracepoints (`common_...`) first.
    pub fields: Vec<Field>,
}

/// One field of a tracepoint's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The whole declaration as the kernel writes it: `char comm[16]`, `__data_loc char[] filename`.
    pub declaration: String,
    /// The field's name.
    pub name: String,
    /// Its C type as the kernel writes it, of one element where it is an array: `char *`, `pid_t`.
    pub type_name: String,
    /// Where it starts in the record, in bytes.
    pub offset: u32,
    /// How long it is in the record, in bytes: 8 for a system call's argument, whatever its type.
    pub size: u32,
    /// Whether it is a signed number. False where the file does not say.
    pub signed: bool,
    /// One value, or one of several sorts of array.
    pub shape: Shape,
}

/// How the values of a [`Field`] are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One value: `pid_t pid`.
    Single,
    /// A fixed number of values: `char comm[16]`.
    Array {
        /// How many; none where the kernel writes a name instead of a number (Linux 5.17 to 6.1).
        length: Option<u32>,
    },
    /// Values up to the end of the record: `u32 buf[]`.
    Flexible,
    /// A string or array elsewhere in the record: `__data_loc char[] filename`. The field holds
    /// its length in the high 16 bits and its offset from the record's start in the low 16.
    DataLoc,
    /// As [`Shape::DataLoc`], with the offset counted from the field's own end (Linux 5.17).
    RelLoc,
}

impl Format {
    /// Parses a `format` file. Lines that it does not know are passed over, for kernels to come.
    ///
    /// ```
    /// use rlat::tracefs::Format;
    ///
    /// let text = b"name: sys_exit_read\nID: 841\nformat:\n\
    ///     \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    ///     \tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n";
    /// let format = Format::parse(text)?;
    /// assert_eq!(format.id, 841);
    /// assert_eq!(format.field("ret").map(|field| field.offset), Some(16));
    /// # Ok::<(), rlat::tracefs::FormatError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A field whose declaration, offset or size is missing or not a number, and a file without
    /// a name or an id.
    pub fn parse(text: &[u8]) -> Result<Self, FormatError> {
        let text = String::from_utf8_lossy(text);
        let mut name = None;
        let mut id = None;
        let mut fields = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let at =
                |problem| FormatError { line: index + 1, text: line.trim().to_owned(), problem };
            if let Some(value) = line.strip_prefix("name:") {
                name = Some(value.trim().to_owned());
            } else if let Some(value) = line.strip_prefix("ID:") {
                id = Some(value.trim().parse().map_err(|_| at(Problem::Id))?);
            } else if let Some(field) = line.trim_start().strip_prefix("field:") {
                fields.push(parse_field(field).map_err(at)?);
            } else if line.starts_with("print fmt:") {
                break;
            }
        }
        let missing = |problem| FormatError { line: 0, text: String::new(), problem };
        Ok(Self {
            name: name.ok_or_else(|| missing(Problem::Name))?,
            id: id.ok_or_else(|| missing(Problem::Id))?,
            fields,
        })
    }

    /// The fields of this tracepoint itself, without those that all of them have: its arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| !field.name.starts_with("common_"))
    }

    /// The field of that name, if the tracepoint has one.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Parses what follows `field:`: a declaration, and `key:value` pairs, each ended by a semicolon.
fn parse_field(text: &str) -> Result<Field, Problem> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next().unwrap_or_default();
    let (mut offset, mut size, mut signed) = (None, None, false);
    for (key, value) in parts.filter_map(|part| part.split_once(':')) {
        match key {
            "offset" => offset = value.parse().ok(),
            "size" => size = value.parse().ok(),
            "signed" => signed = value == "1",
            _ => {}
        }
    }
    let (type_name, name, shape) = parse_declaration(declaration).ok_or(Problem::Declaration)?;
    Ok(Field {
        declaration: declaration.to_owned(),
        name: name.to_owned(),
        type_name,
        offset: offset.ok_or(Problem::Offset)?,
        size: size.ok_or(Problem::Size)?,
        signed,
        shape,
    })
}

/// Splits a declaration into type, name and shape.
fn parse_declaration(text: &str) -> Option<(String, &str, Shape)> {
    // The loc forms carry their brackets on the type or, for __rel_loc, on the name.
    for (prefix, shape) in [("__data_loc ", Shape::DataLoc), ("__rel_loc ", Shape::RelLoc)] {
        if let Some(rest) = text.strip_prefix(prefix) {
            let (type_name, name) = split_name(rest.trim_end_matches("[]"))?;
            let element = type_name.trim_end_matches("[]").trim_end();
            return Some((element.to_owned(), name, shape));
        }
    }
    let (scalar, shape) = match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        Some((scalar, "")) => (scalar, Shape::Flexible),
        Some((scalar, length)) => (scalar, Shape::Array { length: length.parse().ok() }),
        None => (text, Shape::Single),
    };
    let (type_name, name) = split_name(scalar)?;
    Some((type_name, name, shape))
}

/// Splits `char * buf` or `char *buf` into `char *` and `buf`.
fn split_name(text: &str) -> Option<(String, &str)> {
    let (front, last) = text.trim_end().rsplit_once(' ')?;
    let name = last.trim_start_matches('*');
    let stars = &last[..last.len() - name.len()];
    let type_name = match (front.trim(), stars) {
        ("", _) => return None,
        (front, "") => front.to_owned(),
        (front, stars) => format!("{front} {stars}"),
    };
    (!name.is_empty()).then_some((type_name, name))
}

/// What is wrong in a `format` file, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// The line, from 1; 0 where a line is missing from the file.
    pub line: usize,
    /// The text of the line.
    pub text: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// The part of a `format` file that is missing or cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The `name:` line.
    Name,
    /// The `ID:` line, or its number.
    Id,
    /// The type and name of a field.
    Declaration,
    /// The `offset:` of a field.
    Offset,
    /// The `size:` of a field.
    Size,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.problem {
            Problem::Name => "name",
            Problem::Id => "ID",
            Problem::Declaration => "type and name of the field",
            Problem::Offset => "offset",
            Problem::Size => "size",
        };
        match self.line {
            0 => write!(f, "the line with the {part} is missing"),
            line => write!(f, "the {part} cannot be read in line {line}: {:?}", self.text),
        }
    }
}

impl std::error::Error for FormatError {}

#[cfg(test)]
mod tests;

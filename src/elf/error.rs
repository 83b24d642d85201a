//! Why a file is no object of ours to read, or a module none to write.

use std::fmt;

/// What is wrong with an object file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedObject(pub String);

/// Why a module cannot be an object file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritable(pub String);

impl fmt::Display for MalformedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MalformedObject {}
impl std::error::Error for Unwritable {}

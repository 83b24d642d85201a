//! Kernel maps as typed handles that own their descriptor.
//!
//! A map is memory in the kernel that programs and processes share. [`HashMap`] and [`Array`] are
//! read by bpf(2); [`MmapableArray`] through mapped memory, which is how rlat reads everything while
//! it measures. [`Plain`] says what can be a key or a value.
//!
//! The system calls themselves are in [`loader::sys`](crate::loader::sys).

mod array;
pub mod cpus;
mod hash;
mod memory;
mod plain;

pub use array::{Array, CgroupArray, MmapableArray};
pub use hash::HashMap;
pub use plain::Plain;

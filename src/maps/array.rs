//! Arrays: a fixed number of values, found by index.

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;

use nix::errno::Errno;

use super::memory::Mapping;
use super::plain::{Plain, to_bytes};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::loader::sys::{self, MMAPABLE, MapFd, MapSpec, MapType};
use crate::loader::{Answer, Feature, probe, refusal};

/// An array map in the kernel (`BPF_MAP_TYPE_ARRAY`, Linux 3.19), read and written by bpf(2).
#[derive(Debug)]
pub struct Array<V> {
    fd: MapFd,
    value: PhantomData<V>,
}

impl<V: Plain> Array<V> {
    /// Creates an array of `max_entries` values, all zero.
    ///
    /// # Errors
    /// [`Kind::Permission`] without the privilege, else as [`sys::map_create`].
    pub fn create(name: &str, max_entries: u32) -> Result<Self> {
        let fd = create(name, V::BYTES as u32, max_entries, 0)
            .map_err(|errno| refusal::of_bpf(errno, Step::Map, name))?;
        Ok(Self { fd, value: PhantomData })
    }

    /// The descriptor's number, which instructions carry.
    pub fn number(&self) -> i32 {
        self.fd.as_fd().as_raw_fd()
    }

    /// The value at an index.
    ///
    /// # Errors
    /// `ENOENT` when the index is not below the number of entries.
    pub fn get(&self, index: u32) -> nix::Result<V> {
        let mut value = vec![0; V::BYTES];
        self.fd.lookup(&index.to_ne_bytes(), &mut value)?;
        Ok(V::read(&value))
    }

    /// Sets the value at an index.
    ///
    /// # Errors
    /// `E2BIG` when the index is not below the number of entries.
    pub fn set(&self, index: u32, value: &V) -> nix::Result<()> {
        self.fd.update(&index.to_ne_bytes(), &to_bytes(value))
    }
}

/// An array whose values are 64-bit words in memory that we share with the programs, so that reading
/// them is no system call. Linux 5.5.
///
/// That matters beyond speed: while a process is inside of bpf(2) on a map, the kernel does not run
/// programs that are attached through perf on that CPU (`bpf_disable_instrumentation` in
/// `include/linux/bpf.h`), and calls of the measured process would go uncounted.
#[derive(Debug)]
pub struct MmapableArray {
    fd: MapFd,
    memory: Mapping,
    words_per_value: usize,
}

impl MmapableArray {
    /// Creates an array of `max_entries` values of `words_per_value` words each, all zero, and maps
    /// it.
    ///
    /// # Errors
    /// [`Kind::Permission`] without the privilege, [`Kind::Unsupported`] when the kernel has no
    /// such arrays.
    pub fn create(name: &str, words_per_value: usize, max_entries: u32) -> Result<Self> {
        let value_bytes = words_per_value * size_of::<u64>();
        let fd = create(name, value_bytes as u32, max_entries, MMAPABLE)
            .map_err(|errno| refused(errno, name))?;
        let memory = Mapping::new(fd.as_fd(), value_bytes * max_entries as usize)
            .map_err(|errno| refusal::of_bpf(errno, Step::Map, name))?;
        Ok(Self { fd, memory, words_per_value })
    }

    /// The descriptor's number, which instructions carry.
    pub fn number(&self) -> i32 {
        self.fd.as_fd().as_raw_fd()
    }

    /// Each value's words, by index.
    pub fn values(&self) -> impl Iterator<Item = &[AtomicU64]> {
        self.memory.words().chunks_exact(self.words_per_value)
    }
}

/// An array of control groups (`BPF_MAP_TYPE_CGROUP_ARRAY`, Linux 4.8), for
/// `bpf_current_task_under_cgroup`.
#[derive(Debug)]
pub struct CgroupArray {
    fd: MapFd,
}

impl CgroupArray {
    /// Creates an array of `max_entries` places, all empty.
    ///
    /// # Errors
    /// [`Kind::Permission`] without the privilege, else as [`sys::map_create`].
    pub fn create(name: &str, max_entries: u32) -> Result<Self> {
        let spec = MapSpec {
            map_type: MapType::CgroupArray,
            key_size: 4,
            value_size: 4,
            max_entries,
            flags: 0,
            name,
        };
        let fd = refusal::with_memlock(|| sys::map_create(spec))
            .map_err(|errno| refusal::of_bpf(errno, Step::Map, name))?;
        Ok(Self { fd })
    }

    /// The descriptor's number, which instructions carry.
    pub fn number(&self) -> i32 {
        self.fd.as_fd().as_raw_fd()
    }

    /// Puts the control group of an open folder into a place.
    ///
    /// # Errors
    /// `EBADF` when the folder is no control group of version 2, `E2BIG` when there is no such place.
    pub fn set(&self, index: u32, folder: BorrowedFd<'_>) -> nix::Result<()> {
        self.fd.update(&index.to_ne_bytes(), &(folder.as_raw_fd() as u32).to_ne_bytes())
    }
}

fn create(name: &str, value_size: u32, max_entries: u32, flags: u32) -> nix::Result<MapFd> {
    let spec =
        MapSpec { map_type: MapType::Array, key_size: 4, value_size, max_entries, flags, name };
    refusal::with_memlock(|| sys::map_create(spec))
}

fn refused(errno: Errno, name: &str) -> Error {
    if errno == Errno::EINVAL && probe(Feature::MmapableArray) == Answer::No {
        return Error {
            kind: Kind::Unsupported,
            step: Step::Map,
            object: name.to_owned(),
            cause: Cause::Explained(
                errno,
                "this kernel has no arrays that can be mapped into memory".to_owned(),
            ),
            next: "use Linux 5.5 or newer".to_owned(),
        };
    }
    refusal::of_bpf(errno, Step::Map, name)
}

//! Memory that we share with the programs: the one file that maps any.
#![allow(unsafe_code)]

use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::AtomicU64;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// A mapping of an array map's values. Dropping it unmaps them.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the memory belongs to the mapping, is not tied to a thread, and is only handed out as
// atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of the map, rounded down to whole words.
    pub(super) fn new(map: BorrowedFd<'_>, bytes: usize) -> nix::Result<Self> {
        let length = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL)?;
        let (read_write, shared) =
            (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED);
        // SAFETY: no address is asked for, so no other mapping is replaced.
        let start = unsafe { mmap(None, length, read_write, shared, map, 0) }?;
        Ok(Self { start: start.cast(), words: bytes / size_of::<AtomicU64>() })
    }

    /// The words. Programs change them at any time, which is what atomics are for.
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, readable and writable over all of these words, lives
        // as long as `self`, and atomics may be changed by others.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of `new`, and no slice of it can outlive `self`.
        // Failing would mean that the arguments are wrong, and nothing could be done about it.
        let _ = unsafe { munmap(self.start.cast(), self.words * size_of::<AtomicU64>()) };
    }
}

//! Maps: creating them, and their elements one at a time.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::Result;
use nix::errno::Errno;

use super::{NAME_BYTES, bpf, object_name, own};

const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_LOOKUP_ELEM: i32 = 1;
const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_MAP_DELETE_ELEM: i32 = 3;
const BPF_MAP_GET_NEXT_KEY: i32 = 4;

/// `BPF_F_NO_PREALLOC`: a hash takes memory for an entry when it is inserted. Linux 4.6.
pub const NO_PREALLOC: u32 = 1 << 0;
/// `BPF_F_MMAPABLE`: the array's values can be mapped into memory. Linux 5.5.
pub const MMAPABLE: u32 = 1 << 10;

/// The kinds of map that rlat uses (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapType {
    /// `BPF_MAP_TYPE_HASH`: any key. Linux 3.19.
    Hash = 1,
    /// `BPF_MAP_TYPE_ARRAY`: the key is an index, u32. Linux 3.19.
    Array = 2,
    /// `BPF_MAP_TYPE_CGROUP_ARRAY`: an array of control groups, set by descriptor. Linux 4.8.
    CgroupArray = 8,
}

/// What a map is created from.
#[derive(Clone, Copy, Debug)]
pub struct MapSpec<'a> {
    /// Hash or array.
    pub map_type: MapType,
    /// Bytes of a key; 4 for an array.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// How many values at most; an array has exactly that many.
    pub max_entries: u32,
    /// 0, [`MMAPABLE`] or [`NO_PREALLOC`].
    pub flags: u32,
    /// Shown by bpftool, cut to 15 bytes.
    pub name: &'a str,
}

/// A map's descriptor, with the sizes that make using it safe.
#[derive(Debug)]
pub struct MapFd {
    fd: OwnedFd,
    key_size: usize,
    value_size: usize,
}

impl AsFd for MapFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[repr(C)]
#[derive(Default)]
struct MapCreateAttr {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; NAME_BYTES],
}

/// Creates a map.
///
/// # Errors
/// As bpf(2): `EPERM` without the privilege, `EINVAL` for a flag or size that this kernel does not
/// take, `E2BIG` or `ENOMEM` when it is too large.
pub fn map_create(spec: MapSpec<'_>) -> Result<MapFd> {
    let mut attr = MapCreateAttr {
        map_type: spec.map_type as u32,
        key_size: spec.key_size,
        value_size: spec.value_size,
        max_entries: spec.max_entries,
        map_flags: spec.flags,
        map_name: object_name(spec.name),
        ..MapCreateAttr::default()
    };
    // SAFETY: the attribute is the one that BPF_MAP_CREATE reads, and it holds no pointer.
    let fd = unsafe { bpf(BPF_MAP_CREATE, &mut attr) }?;
    Ok(MapFd {
        fd: own(fd)?,
        key_size: spec.key_size as usize,
        value_size: spec.value_size as usize,
    })
}

/// What a map of any type is created from, by numbers as a file has them.
#[derive(Clone, Copy, Debug)]
pub struct AnyMapSpec<'a> {
    /// Of `enum bpf_map_type`.
    pub type_number: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// How many values at most.
    pub max_entries: u32,
    /// `BPF_F_...`
    pub flags: u32,
    /// Shown by bpftool, cut to 15 bytes.
    pub name: &'a str,
}

/// Creates a map that programs refer to, and that is not used from here.
///
/// # Errors
/// As [`map_create`].
pub fn map_create_any(spec: AnyMapSpec<'_>) -> Result<OwnedFd> {
    let mut attr = MapCreateAttr {
        map_type: spec.type_number,
        key_size: spec.key_size,
        value_size: spec.value_size,
        max_entries: spec.max_entries,
        map_flags: spec.flags,
        map_name: object_name(spec.name),
        ..MapCreateAttr::default()
    };
    // SAFETY: the attribute is the one that BPF_MAP_CREATE reads, and it holds no pointer.
    own(unsafe { bpf(BPF_MAP_CREATE, &mut attr) }?)
}

#[repr(C)]
struct MapElemAttr {
    map_fd: u32,
    _padding: u32,
    key: u64,
    value_or_next_key: u64,
    flags: u64,
}

impl MapFd {
    /// Copies the value of `key` into `value`.
    ///
    /// # Errors
    /// `ENOENT` when the map has no such key; `EINVAL` when a length is not the map's.
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> Result<()> {
        let mut attr = self.elem(key, value.as_mut_ptr() as u64, value.len())?;
        // SAFETY: `elem` checked that the kernel reads and writes within `key` and `value`.
        unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &mut attr) }.map(drop)
    }

    /// Sets the value of `key`, which a hash map inserts if it is new.
    ///
    /// # Errors
    /// `E2BIG` when a hash map is full or an array has no such index; `EINVAL` when a length is not
    /// the map's.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut attr = self.elem(key, value.as_ptr() as u64, value.len())?;
        // SAFETY: `elem` checked that the kernel reads within `key` and `value`.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut attr) }.map(drop)
    }

    /// Removes `key` from a hash map.
    ///
    /// # Errors
    /// `ENOENT` when there is no such key; `EINVAL` for an array or a wrong length.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut attr = self.elem(key, 0, self.value_size)?;
        // SAFETY: `elem` checked that the kernel reads within `key`; this command has no value.
        unsafe { bpf(BPF_MAP_DELETE_ELEM, &mut attr) }.map(drop)
    }

    /// Copies into `next` the key after `key`, or the first one for `None`.
    ///
    /// # Errors
    /// `ENOENT` after the last key; `EINVAL` when a length is not the map's.
    pub fn next_key(&self, key: Option<&[u8]>, next: &mut [u8]) -> Result<()> {
        if next.len() != self.key_size || key.is_some_and(|key| key.len() != self.key_size) {
            return Err(Errno::EINVAL);
        }
        let mut attr = MapElemAttr {
            map_fd: self.fd.as_raw_fd() as u32,
            _padding: 0,
            key: key.map_or(0, |key| key.as_ptr() as u64),
            value_or_next_key: next.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: both keys were just checked to be as long as the map's; null asks for the first.
        unsafe { bpf(BPF_MAP_GET_NEXT_KEY, &mut attr) }.map(drop)
    }

    fn elem(&self, key: &[u8], value: u64, value_len: usize) -> Result<MapElemAttr> {
        if key.len() != self.key_size || value_len != self.value_size {
            return Err(Errno::EINVAL);
        }
        Ok(MapElemAttr {
            map_fd: self.fd.as_raw_fd() as u32,
            _padding: 0,
            key: key.as_ptr() as u64,
            value_or_next_key: value,
            flags: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::MapCreateAttr;

    #[test]
    fn the_attribute_is_laid_out_as_in_the_kernels_header() {
        assert_eq!(offset_of!(MapCreateAttr, map_name), 28);
    }
}

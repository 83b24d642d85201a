//! The hash map: any key, found and inserted by programs and by us.

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

use super::plain::{Plain, to_bytes};
use crate::error::{Result, Step};
use crate::loader::refusal;
use crate::loader::sys::{self, MapFd, MapSpec, MapType, NO_PREALLOC};

/// A hash map in the kernel (`BPF_MAP_TYPE_HASH`, Linux 3.19), that owns its descriptor. Dropping it
/// closes it.
#[derive(Debug)]
pub struct HashMap<K, V> {
    fd: MapFd,
    types: PhantomData<(K, V)>,
}

impl<K: Plain, V: Plain> HashMap<K, V> {
    /// Creates a map with room for `max_entries`, taken now, so that an insertion never fails for want of
    /// memory. bpftool shows 15 bytes of the name.
    ///
    /// # Errors
    /// [`Kind::Permission`](crate::error::Kind::Permission) without the privilege, else as
    /// [`sys::map_create`].
    pub fn create(name: &str, max_entries: u32) -> Result<Self> {
        Self::create_with(name, max_entries, 0)
    }

    /// The same, with memory taken for each entry when it is inserted. For tracing programs that is safe
    /// since Linux 6.1, see [`allocates_on_demand`](crate::loader::allocates_on_demand).
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_growing(name: &str, max_entries: u32) -> Result<Self> {
        Self::create_with(name, max_entries, NO_PREALLOC)
    }

    fn create_with(name: &str, max_entries: u32, flags: u32) -> Result<Self> {
        let spec = MapSpec {
            map_type: MapType::Hash,
            key_size: K::BYTES as u32,
            value_size: V::BYTES as u32,
            max_entries,
            flags,
            name,
        };
        let fd = refusal::with_memlock(|| sys::map_create(spec))
            .map_err(|errno| refusal::of_bpf(errno, Step::Map, name))?;
        Ok(Self { fd, types: PhantomData })
    }

    /// The descriptor's number, which instructions carry.
    pub fn number(&self) -> i32 {
        self.fd.as_fd().as_raw_fd()
    }

    /// The value of a key, if the map has it.
    ///
    /// # Errors
    /// As bpf(2), but for `ENOENT`.
    pub fn get(&self, key: &K) -> nix::Result<Option<V>> {
        let mut value = vec![0; V::BYTES];
        match self.fd.lookup(&to_bytes(key), &mut value) {
            Ok(()) => Ok(Some(V::read(&value))),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `E2BIG` when the map is full.
    pub fn set(&self, key: &K, value: &V) -> nix::Result<()> {
        self.fd.update(&to_bytes(key), &to_bytes(value))
    }

    /// Removes a key.
    ///
    /// # Errors
    /// `ENOENT` when the map does not have it.
    pub fn remove(&self, key: &K) -> nix::Result<()> {
        self.fd.delete(&to_bytes(key))
    }

    /// Every key with its value. While programs change the map, an entry may be missed or come
    /// twice; when none does, each comes once.
    ///
    /// # Errors
    /// As bpf(2).
    pub fn entries(&self) -> nix::Result<Vec<(K, V)>> {
        let mut entries = Vec::new();
        let mut current: Option<Vec<u8>> = None;
        loop {
            let mut next = vec![0; K::BYTES];
            match self.fd.next_key(current.as_deref(), &mut next) {
                Ok(()) => {}
                Err(Errno::ENOENT) => return Ok(entries),
                Err(errno) => return Err(errno),
            }
            let key = K::read(&next);
            if let Some(value) = self.get(&key)? {
                entries.push((key, value));
            }
            current = Some(next);
        }
    }
}

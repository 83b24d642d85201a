//! The regions of all calls and CPUs, in one map.

use super::layout::{CPUS_MAP, Region, region_words};
use crate::error::Result;
use crate::histogram::Linear;
use crate::maps::{MmapableArray, cpus};

/// The map with a region for each measured call of each possible CPU.
#[derive(Debug)]
pub(super) struct Regions {
    map: MmapableArray,
    calls: usize,
}

impl Regions {
    /// Creates the map for that many calls.
    pub(super) fn create(
        calls: usize,
        linear: Option<Linear>,
        steps: &mut dyn FnMut(String),
    ) -> Result<Self> {
        let words = region_words(linear.map_or(0, Linear::bucket_count));
        let possible = cpus::possible_count()?;
        let map = MmapableArray::create(CPUS_MAP, words, possible * calls as u32)?;
        map.values().map(Region::new).for_each(Region::prepare);
        let bytes = words * size_of::<u64>();
        steps(format!("map {CPUS_MAP}: {possible} x {calls} regions of {bytes} bytes"));
        Ok(Self { map, calls })
    }

    /// Name and descriptor, for linking programs.
    pub(super) fn number(&self) -> (String, i32) {
        (CPUS_MAP.to_owned(), self.map.number())
    }

    /// The regions of one call, by its index.
    pub(super) fn of(&self, call: usize) -> impl Iterator<Item = Region<'_>> {
        self.map.values().skip(call).step_by(self.calls).map(Region::new)
    }

    /// How many calls have been recorded so far.
    pub(super) fn recorded(&self) -> u64 {
        self.map.values().map(|words| Region::new(words).recorded()).sum()
    }
}

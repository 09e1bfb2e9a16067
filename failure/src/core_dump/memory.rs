//! The memory that was dumped.

use std::borrow::Cow;

use program::RunAddr;

use crate::image::elf::{PF_W, PF_X, Segment};
use crate::image::{Memory, Region};

/// A run of addresses that were mapped, with the bytes of them that are in the core.
#[derive(Clone, Copy, Debug)]
struct Load<'a> {
    start: u64,
    /// One past the last mapped address.
    end: u64,
    /// The dumped bytes, from `start`; what the core has not goes on after them.
    bytes: &'a [u8],
    executable: bool,
    writable: bool,
}

/// All dumped memory: disjoint, in address order.
#[derive(Clone, Debug)]
pub(super) struct Dumped<'a> {
    loads: Vec<Load<'a>>,
    size_of_core: usize,
}

impl<'a> Dumped<'a> {
    /// Takes the load segments of a core. Where two claim the same address, the one that starts first (and
    /// among those, stands first) keeps it; no kernel writes such a core.
    pub(super) fn new(core: &'a [u8], segments: impl Iterator<Item = Segment>) -> (Self, bool) {
        let mut loads: Vec<Load<'a>> = segments
            .filter_map(|segment| {
                let end = segment.vaddr.checked_add(segment.memsz.max(segment.filesz))?;
                let from = usize::try_from(segment.offset)
                    .unwrap_or(usize::MAX)
                    .min(core.len());
                let rest = core.get(from..)?;
                let len = usize::try_from(segment.filesz)
                    .unwrap_or(usize::MAX)
                    .min(rest.len());
                let (executable, writable) = (segment.flags & PF_X != 0, segment.flags & PF_W != 0);
                Some(Load {
                    start: segment.vaddr,
                    end,
                    bytes: rest.get(..len)?,
                    executable,
                    writable,
                })
            })
            .filter(|load| load.start < load.end)
            .collect();
        loads.sort_by_key(|load| load.start);
        let mut taken = 0;
        let mut overlap = false;
        loads.retain_mut(|load| {
            if load.start < taken {
                overlap = true;
                let cut = usize::try_from(taken - load.start).unwrap_or(usize::MAX);
                load.bytes = load.bytes.get(cut..).unwrap_or_default();
                load.start = taken;
            }
            taken = taken.max(load.end);
            load.start < load.end
        });
        (
            Self {
                loads,
                size_of_core: core.len(),
            },
            overlap,
        )
    }

    fn load_at(&self, addr: u64) -> Option<&Load<'a>> {
        let after = self.loads.partition_point(|load| load.start <= addr);
        let load = self.loads.get(after.checked_sub(1)?)?;
        (addr < load.end).then_some(load)
    }

    /// All dumped bytes from `addr` on, as far as one load goes.
    fn dumped_from(&self, addr: u64) -> Option<&'a [u8]> {
        let load = self.load_at(addr)?;
        let skip = usize::try_from(addr - load.start).ok()?;
        load.bytes.get(skip..).filter(|rest| !rest.is_empty())
    }
}

impl Memory for Dumped<'_> {
    fn region_at(&self, addr: u64) -> Option<Region> {
        let load = self.load_at(addr)?;
        Some(Region {
            range: load.start..load.end,
            executable: load.executable,
            writable: load.writable,
        })
    }

    fn read(&self, addr: RunAddr, len: usize) -> Option<Cow<'_, [u8]>> {
        let addr = addr.0;
        if len == 0 {
            return Some(Cow::Borrowed(&[]));
        }
        let first = self.dumped_from(addr)?;
        if let Some(whole) = first.get(..len) {
            return Some(Cow::Borrowed(whole));
        }
        // Loads may share bytes of the file; asking for more than the file holds is asking for nonsense.
        if len > self.size_of_core {
            return None;
        }
        let mut joined = Vec::new();
        let mut at = addr;
        while joined.len() < len {
            let part = self.dumped_from(at)?;
            let part = part.get(..len - joined.len()).unwrap_or(part);
            joined.extend_from_slice(part);
            at = at.checked_add(part.len() as u64)?;
        }
        Some(Cow::Owned(joined))
    }

    fn bytes_from(&self, addr: RunAddr, most: usize) -> Option<&[u8]> {
        let rest = self.dumped_from(addr.0)?;
        Some(rest.get(..most).unwrap_or(rest))
    }
}

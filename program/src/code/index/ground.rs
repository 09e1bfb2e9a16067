//! Where code is, and distances in it.

use crate::addr::LinkRange;
use crate::elf::Elf;

/// The code of a file. Functions are known by their distance from its first byte.
#[derive(Debug)]
pub(in super::super) struct Ground {
    pub base: u64,
    code: Vec<LinkRange>,
    /// The same without the linker's stubs, which are no functions.
    pub(super) own: Vec<LinkRange>,
    /// Where the file starts, if that is code.
    pub(super) entry: Option<u32>,
}

impl Ground {
    pub(super) fn new(elf: &Elf<'_>) -> Self {
        let code = elf.code_ranges();
        let base = code.first().map_or(0, |range| range.start.0);
        let own = code.iter().filter(|range| !elf.is_stub(range.start));
        let mut ground = Self {
            base,
            own: own.cloned().collect(),
            code,
            entry: None,
        };
        let entry = elf.entry().0;
        ground.entry = ground.covering(entry).and_then(|_| ground.distance(entry));
        ground
    }

    pub(in super::super) fn distance(&self, addr: u64) -> Option<u32> {
        u32::try_from(addr.checked_sub(self.base)?).ok()
    }

    pub(in super::super) fn addr(&self, distance: u32) -> u64 {
        self.base.saturating_add(u64::from(distance))
    }

    pub(in super::super) fn covering(&self, addr: u64) -> Option<&LinkRange> {
        let after = self.code.partition_point(|range| range.start.0 <= addr);
        self.code
            .get(after.checked_sub(1)?)
            .filter(|range| addr < range.end.0)
    }

    /// Where the code around a distance ends.
    pub(super) fn limit(&self, distance: u32) -> u32 {
        let addr = self.addr(distance);
        let end = self.covering(addr).map_or(addr, |range| range.end.0);
        self.distance(end).unwrap_or(u32::MAX)
    }

    /// How far the code goes.
    pub(super) fn span(&self) -> u32 {
        let end = self.code.iter().map(|range| range.end.0).max();
        end.map_or(0, |end| self.distance(end).unwrap_or(u32::MAX))
    }
}

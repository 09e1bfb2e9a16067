//! Walking the children of one entry.

use gimli::UnitOffset;

use super::units::{Entry, Reader, Unit};

/// The direct children of an entry, and those of children that the caller enters.
pub(super) struct Children<'u, 'a> {
    entries: gimli::EntriesRaw<'u, Reader<'a>>,
    /// Entries deeper than this are passed over.
    level: isize,
    root: isize,
}

impl<'u, 'a> Children<'u, 'a> {
    pub fn of(unit: &'u Unit<'a>, parent: UnitOffset) -> Option<Self> {
        let mut entries = unit.gimli.entries_raw(Some(parent)).ok()?;
        let root = entries.next_depth();
        let mut entry = Entry::null();
        entries.read_entry(&mut entry).ok()?;
        entry.has_children().then_some(Self {
            entries,
            level: root + 1,
            root,
        })
    }

    pub fn enter(&mut self, depth: isize) {
        self.level = depth + 1;
    }

    pub fn next(&mut self) -> Option<(isize, Entry<'a>)> {
        loop {
            if self.entries.is_empty() {
                return None;
            }
            let depth = self.entries.next_depth();
            if depth <= self.root {
                return None;
            }
            if depth < self.level {
                self.level = depth;
            }
            if depth > self.level {
                let Some(abbreviation) = self.entries.read_abbreviation().ok()? else {
                    continue;
                };
                self.entries.skip_attributes(abbreviation.attributes()).ok()?;
                continue;
            }
            let mut entry = Entry::null();
            if self.entries.read_entry(&mut entry).ok()? {
                return Some((depth, entry));
            }
        }
    }
}

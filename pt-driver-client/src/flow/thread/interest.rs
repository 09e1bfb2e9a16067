//! Which addresses somebody asks for.

use std::ops::Range;

/// Which addresses are asked for. Gaps are always told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interest {
    /// Sorted, without overlap. First and last address.
    ranges: Vec<(u64, u64)>,
    /// See [`Interest::at_most`].
    pub(super) most: usize,
}

/// About a gigabyte of events.
const MOST: usize = 16 << 20;

impl Interest {
    /// Every address.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            ranges: vec![(0, u64::MAX)],
            most: MOST,
        }
    }

    /// Blocks with an instruction in one of these ranges, and branches in them.
    pub fn ranges(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut sorted: Vec<(u64, u64)> = ranges
            .into_iter()
            .filter(|range| !range.is_empty())
            .map(|range| (range.start, range.end - 1))
            .collect();
        sorted.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match ranges.last_mut() {
                Some((_, before)) if first <= before.saturating_add(1) => *before = last.max(*before),
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges, most: MOST }
    }

    /// Of more events than this the last ones are kept, so that a long trace cannot take all memory.
    #[must_use]
    pub fn at_most(self, events: usize) -> Self {
        Self { most: events, ..self }
    }

    /// Whether an address from `first` to `last` is asked for.
    pub(super) fn touches(&self, first: u64, last: u64) -> bool {
        let after = self.ranges.partition_point(|&(start, _)| start <= last);
        let before = after.checked_sub(1).and_then(|index| self.ranges.get(index));
        before.is_some_and(|&(_, end)| first <= end)
    }
}

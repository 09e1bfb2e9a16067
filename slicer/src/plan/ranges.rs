//! Address ranges: what a tracer's filters take.

use program::{LinkAddr, ModuleId, Pc};
use serde::{Deserialize, Serialize};

/// A half-open range of one module's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PcRange {
    /// The module.
    pub module: ModuleId,
    /// The first address inside.
    pub start: LinkAddr,
    /// The first address behind.
    pub end: LinkAddr,
}

impl PcRange {
    /// Whether `pc` lies inside.
    #[must_use]
    pub fn contains(&self, pc: Pc) -> bool {
        self.module == pc.module && self.start <= pc.addr && pc.addr < self.end
    }

    /// How many bytes lie inside.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    /// Whether nothing lies inside.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

/// The same addresses in the fewest ranges, ascending: what overlaps or touches becomes one, what is empty
/// goes.
#[must_use]
pub fn merge(mut ranges: Vec<PcRange>) -> Vec<PcRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let joins = next.module == kept.module && next.start <= kept.end;
        if joins {
            kept.end = kept.end.max(next.end);
        }
        joins
    });
    ranges
}

/// At most `limit` ranges that hold everything that `ranges` holds: the smallest gaps are filled first.
/// Processors filter by a handful of ranges (often two), and tracing a little more is better than a
/// statement missed. Modules are never joined, so there may be one range for each module over the limit.
#[must_use]
pub fn coarsen(ranges: Vec<PcRange>, limit: usize) -> Vec<PcRange> {
    let mut ranges = merge(ranges);
    let excess = ranges.len().saturating_sub(limit);
    let mut gaps: Vec<(u64, usize)> = ranges
        .windows(2)
        .enumerate()
        .filter(|(_, pair)| pair[0].module == pair[1].module)
        .map(|(at, pair)| (pair[1].start.0 - pair[0].end.0, at))
        .collect();
    gaps.sort_unstable();
    for &(_, at) in gaps.iter().take(excess) {
        ranges[at].end = ranges[at + 1].start;
    }
    merge(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(module: u32, start: u64, end: u64) -> PcRange {
        PcRange {
            module: ModuleId(module),
            start: LinkAddr(start),
            end: LinkAddr(end),
        }
    }

    #[test]
    fn touching_and_overlapping_ranges_become_one() {
        let ranges = vec![
            range(0, 8, 12),
            range(1, 12, 16),
            range(0, 0, 4),
            range(0, 4, 8),
            range(0, 20, 20),
        ];
        assert_eq!(merge(ranges), [range(0, 0, 12), range(1, 12, 16)]);
        let nested = vec![range(0, 0, 100), range(0, 10, 20), range(0, 50, 120)];
        assert_eq!(merge(nested), [range(0, 0, 120)]);
    }

    #[test]
    fn the_smallest_gaps_are_filled_first() {
        let ranges = vec![
            range(0, 0, 10),
            range(0, 12, 20),
            range(0, 90, 99),
            range(0, 21, 30),
        ];
        assert_eq!(coarsen(ranges.clone(), 9).len(), 4);
        assert_eq!(
            coarsen(ranges.clone(), 3),
            [range(0, 0, 10), range(0, 12, 30), range(0, 90, 99)]
        );
        assert_eq!(coarsen(ranges.clone(), 2), [range(0, 0, 30), range(0, 90, 99)]);
        assert_eq!(coarsen(ranges, 0), [range(0, 0, 99)]);
        assert_eq!(coarsen(vec![range(0, 0, 1), range(1, 5, 6)], 1).len(), 2);
    }
}

//! Which units cover an address.

use std::collections::HashSet;

use gimli::{UnitHeader, UnitType};
use rayon::prelude::*;

use super::Sources;
use super::units::Reader;
use crate::addr::{LinkAddr, LinkRange};

/// A map from address ranges, which may overlap, to numbers.
#[derive(Default)]
pub(super) struct RangeMap {
    /// Sorted by start; the third field is the greatest end so far, so that a search can go back from the
    /// last range that starts at or before an address and stop as soon as no earlier one reaches it.
    entries: Vec<(LinkRange, u32, LinkAddr)>,
}

impl RangeMap {
    pub fn new(ranges: impl IntoIterator<Item = (LinkRange, u32)>) -> Self {
        let mut entries: Vec<_> = ranges
            .into_iter()
            .map(|(range, value)| (range, value, LinkAddr(0)))
            .collect();
        entries.sort_unstable_by_key(|(range, value, _)| (range.start, range.end, *value));
        let mut reach = LinkAddr(0);
        for (range, _, furthest) in &mut entries {
            reach = reach.max(range.end);
            *furthest = reach;
        }
        Self { entries }
    }

    /// The numbers whose range holds the address, the range that starts last first.
    pub fn at(&self, addr: LinkAddr) -> impl Iterator<Item = u32> {
        let after = self.entries.partition_point(|(range, ..)| range.start <= addr);
        let before = self.entries.get(..after).unwrap_or_default();
        let near = before.iter().rev().take_while(move |(.., reach)| *reach > addr);
        near.filter(move |(range, ..)| range.end > addr)
            .map(|(_, value, _)| *value)
    }

    /// The numbers whose range overlaps another.
    pub fn overlapping(&self, wanted: &LinkRange) -> impl Iterator<Item = u32> {
        let (start, end) = (wanted.start, wanted.end);
        let after = self.entries.partition_point(|(range, ..)| range.start < end);
        let before = self.entries.get(..after).unwrap_or_default();
        let near = before.iter().rev().take_while(move |(.., reach)| *reach > start);
        near.filter(move |(range, ..)| range.end > start)
            .map(|(_, value, _)| *value)
    }
}

impl<'a> Sources<'a> {
    /// Which of the main units cover which addresses: from `.debug_aranges`, and from the root entry of
    /// every unit that the table does not mention.
    pub(super) fn unit_ranges(&self) -> &RangeMap {
        self.unit_ranges.get_or_init(|| {
            let (mut ranges, covered) = self.aranges();
            let units = self.main_units();
            let missing = (0..).zip(&units.headers).filter(|(index, header)| {
                !covered.contains(index) && !matches!(header.type_(), UnitType::Type { .. })
            });
            let missing: Vec<_> = missing.collect();
            // A unit takes microseconds; below some hundreds the other core is not worth waking.
            let found: Vec<_> = missing
                .par_iter()
                .with_min_len(128)
                .flat_map_iter(|(index, header)| {
                    self.root_ranges(*index, header)
                        .into_iter()
                        .map(|range| (range, *index))
                })
                .collect();
            ranges.extend(found);
            RangeMap::new(ranges)
        })
    }

    fn aranges(&self) -> (Vec<(LinkRange, u32)>, HashSet<u32>) {
        let mut ranges = Vec::new();
        let mut covered = HashSet::new();
        let mut headers = self.dwarf.debug_aranges.headers();
        while let Ok(Some(header)) = headers.next() {
            let units = self.main_units();
            let offset = header.debug_info_offset();
            let Ok(index) = units
                .headers
                .binary_search_by_key(&offset.0, |unit| unit.offset().0)
            else {
                continue;
            };
            let Ok(index) = u32::try_from(index) else { continue };
            let mut entries = header.entries();
            while let Ok(Some(entry)) = entries.next() {
                let range = entry.range();
                if range.begin != 0 && range.begin < range.end {
                    ranges.push((LinkAddr(range.begin)..LinkAddr(range.end), index));
                    covered.insert(index);
                }
            }
        }
        (ranges, covered)
    }

    fn root_ranges(&self, index: u32, header: &UnitHeader<Reader<'a>>) -> Vec<LinkRange> {
        let Some(unit) = self.root_unit(index, header) else {
            return Vec::new();
        };
        match unit.entry(header.root_offset()) {
            Some(root) => self.ranges_of(&unit, &root),
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(ranges: &[(u64, u64, u32)]) -> RangeMap {
        RangeMap::new(
            ranges
                .iter()
                .map(|&(start, end, value)| (LinkAddr(start)..LinkAddr(end), value)),
        )
    }

    #[test]
    fn a_range_behind_shorter_ones_is_found() {
        let map = map(&[(10, 100, 1), (20, 30, 2), (40, 50, 3), (200, 300, 4)]);
        let at = |addr| map.at(LinkAddr(addr)).collect::<Vec<_>>();
        assert_eq!(at(25), [2, 1]);
        assert_eq!(at(60), [1]);
        assert_eq!(at(100), []);
        assert_eq!(at(9), []);
        assert_eq!(at(299), [4]);
    }

    #[test]
    fn overlap_excludes_the_end() {
        let map = map(&[(10, 20, 1), (20, 30, 2), (30, 40, 3)]);
        let overlapping = |start, end| {
            map.overlapping(&(LinkAddr(start)..LinkAddr(end)))
                .collect::<Vec<_>>()
        };
        assert_eq!(overlapping(15, 30), [2, 1]);
        assert_eq!(overlapping(20, 21), [2]);
        assert_eq!(overlapping(0, 10), []);
    }
}

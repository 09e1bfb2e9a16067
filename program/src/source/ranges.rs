//! Which units cover an address: all of them, where a look at the likely ones ([`super::near`]) does not tell.

use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use gimli::{ArangeHeader, Section as _, UnitHeader, UnitType};
use rayon::prelude::*;

use super::Sources;
use super::passed::Passed;
use super::units::Reader;
use crate::addr::{LinkAddr, LinkRange};
use crate::files::Reading;

/// A map from address ranges, which may overlap, to numbers.
pub(super) struct RangeMap<N = u32> {
    /// Sorted by start; the third field is the greatest end so far, so that a search can go back from the
    /// last range that starts at or before an address and stop as soon as no earlier one reaches it.
    entries: Vec<(LinkRange, N, LinkAddr)>,
}

impl<N> Default for RangeMap<N> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<N: Copy + Ord> RangeMap<N> {
    pub fn new(ranges: impl IntoIterator<Item = (LinkRange, N)>) -> Self {
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
    pub fn at(&self, addr: LinkAddr) -> impl Iterator<Item = N> {
        let after = self.entries.partition_point(|(range, ..)| range.start <= addr);
        let before = self.entries.get(..after).unwrap_or_default();
        let near = before.iter().rev().take_while(move |(.., reach)| *reach > addr);
        near.filter(move |(range, ..)| range.end > addr)
            .map(|(_, value, _)| *value)
    }

    /// Whether one range has all of another in it.
    pub fn surrounds(&self, wanted: &LinkRange) -> bool {
        let after = self
            .entries
            .partition_point(|(range, ..)| range.start <= wanted.start);
        let last = after.checked_sub(1).and_then(|last| self.entries.get(last));
        last.is_some_and(|(range, ..)| range.end >= wanted.end)
    }

    /// The numbers whose range overlaps another.
    pub fn overlapping(&self, wanted: &LinkRange) -> impl Iterator<Item = N> {
        let (start, end) = (wanted.start, wanted.end);
        let after = self.entries.partition_point(|(range, ..)| range.start < end);
        let before = self.entries.get(..after).unwrap_or_default();
        let near = before.iter().rev().take_while(move |(.., reach)| *reach > start);
        near.filter(move |(range, ..)| range.end > start)
            .map(|(_, value, _)| *value)
    }
}

/// The part of `.debug_aranges` that speaks of one unit.
pub(super) struct UnitSet<'a> {
    pub unit: usize,
    header: ArangeHeader<Reader<'a>>,
    map: OnceLock<RangeMap<usize>>,
}

impl<'a> UnitSet<'a> {
    pub fn new(header: ArangeHeader<Reader<'a>>) -> Self {
        Self {
            unit: header.debug_info_offset().0,
            header,
            map: OnceLock::new(),
        }
    }

    fn ranges(&self) -> impl Iterator<Item = LinkRange> + use<'a> {
        let mut entries = self.header.entries();
        let ranges = std::iter::from_fn(move || entries.next().ok().flatten()).map(|entry| entry.range());
        let kept = ranges.filter(|range| range.begin != 0 && range.begin < range.end);
        kept.map(|range| LinkAddr(range.begin)..LinkAddr(range.end))
    }

    pub fn map(&self) -> &RangeMap<usize> {
        self.map
            .get_or_init(|| RangeMap::new(self.ranges().map(|range| (range, self.unit))))
    }
}

/// Which units cover which addresses.
pub(super) struct UnitRanges<'a> {
    sets: Vec<UnitSet<'a>>,
    /// Units without a set, by their root entries.
    others: RangeMap<usize>,
    /// Everything, when there were many questions.
    all: OnceLock<RangeMap<usize>>,
    questions: AtomicU32,
}

/// Every stack of a main thread ends in the C library's `_start`, so short and without debug information. A
/// program that brings its own is found like any other code.
const START_CODE: u64 = 64;

/// Questions that are answered by looking through the table before it gets sorted.
const FEW_QUESTIONS: u32 = 8;

impl UnitRanges<'_> {
    fn all(&self) -> &RangeMap<usize> {
        self.all.get_or_init(|| {
            let sets = self.sets.iter();
            let in_sets = sets.flat_map(|set| set.ranges().map(|range| (range, set.unit)));
            let others = self.others.entries.iter();
            RangeMap::new(in_sets.chain(others.map(|(range, unit, _)| (range.clone(), *unit))))
        })
    }

    fn at(&self, addr: LinkAddr) -> Vec<usize> {
        if self.sets.is_empty() {
            return self.others.at(addr).collect();
        }
        if self.questions.fetch_add(1, Ordering::Relaxed) >= FEW_QUESTIONS {
            return self.all().at(addr).collect();
        }
        let holding = self
            .sets
            .iter()
            .filter(|set| set.ranges().any(|range| range.contains(&addr)));
        holding.map(|set| set.unit).chain(self.others.at(addr)).collect()
    }
}

impl<'a> Sources<'a> {
    /// All units that cover an address.
    pub(super) fn units_at(&self, addr: LinkAddr) -> Vec<usize> {
        let start = self.start..LinkAddr(self.start.0.saturating_add(START_CODE));
        if start.contains(&addr) {
            return self.near_units(addr).collect();
        }
        self.unit_ranges().at(addr)
    }

    /// The units whose code overlaps a range, each once.
    pub(super) fn units_overlapping(&self, wanted: &LinkRange) -> Vec<usize> {
        if let Some(set) = self
            .sets_near(wanted.start)
            .find(|set| set.map().surrounds(wanted))
        {
            return vec![set.unit];
        }
        let ranges = self.unit_ranges();
        let mut units: Vec<usize> = if ranges.others.surrounds(wanted) {
            ranges.others.overlapping(wanted).collect()
        } else {
            ranges.all().overlapping(wanted).collect()
        };
        units.sort_unstable();
        units.dedup();
        units
    }

    /// Which of the main units cover which addresses: from `.debug_aranges`, and from the root entry of
    /// every unit that the table does not mention.
    fn unit_ranges(&self) -> &UnitRanges<'a> {
        self.unit_ranges.get_or_init(|| {
            let sets = self.sets();
            // The headers of all units were looked at, a page or more for each.
            for section in [self.dwarf.debug_aranges.reader(), self.dwarf.debug_info.reader()] {
                self.files.expect(section.slice(), Reading::Over);
            }
            let covered: HashSet<usize> = sets.iter().map(|set| set.unit).collect();
            let missing = self.main_units().iter().filter(|header| {
                !covered.contains(&header.offset().0) && !matches!(header.type_(), UnitType::Type { .. })
            });
            let missing: Vec<_> = missing.collect();
            // A unit takes microseconds; below some hundreds the other core is not worth waking.
            let found: Vec<_> = missing
                .par_iter()
                .with_min_len(128)
                .flat_map_iter(|header| {
                    let ranges = self.root_ranges(header).into_iter();
                    ranges.map(|range| (range, header.offset().0))
                })
                .collect();
            UnitRanges {
                sets,
                others: RangeMap::new(found),
                all: OnceLock::new(),
                questions: AtomicU32::new(0),
            }
        })
    }

    /// The code of a main unit, as its root entry says; a table that tells more is asked where that says nothing.
    pub(super) fn ranges_of_unit(&self, at: usize) -> Vec<LinkRange> {
        let own = self.main_header(at).map(|header| self.root_ranges(&header));
        let own = own.unwrap_or_default();
        if !own.is_empty() {
            return own;
        }
        let sets = self.unit_ranges().sets.iter().filter(|set| set.unit == at);
        sets.flat_map(UnitSet::ranges).collect()
    }

    fn sets(&self) -> Vec<UnitSet<'a>> {
        let units = self.main_units();
        let mut sets = Vec::new();
        let mut headers = self.dwarf.debug_aranges.headers();
        let mut passed = Passed::new(self.files, self.dwarf.debug_aranges.reader().slice());
        while let Ok(Some(header)) = headers.next() {
            passed.up_to(header.offset().0);
            let offset = header.debug_info_offset();
            let known = units.binary_search_by_key(&offset.0, |unit| unit.offset().0);
            sets.extend(known.ok().map(|_| UnitSet::new(header)));
        }
        sets.sort_unstable_by_key(|set| set.unit);
        sets
    }

    fn root_ranges(&self, header: &UnitHeader<Reader<'a>>) -> Vec<LinkRange> {
        let Some(unit) = self.root_unit(header) else {
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

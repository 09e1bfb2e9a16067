//! Which units cover an address.

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

    /// Whether one range has all of another in it.
    fn surrounds(&self, wanted: &LinkRange) -> bool {
        let after = self
            .entries
            .partition_point(|(range, ..)| range.start <= wanted.start);
        let last = after.checked_sub(1).and_then(|last| self.entries.get(last));
        last.is_some_and(|(range, ..)| range.end >= wanted.end)
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

/// The part of `.debug_aranges` that speaks of one unit.
pub(super) struct UnitSet<'a> {
    /// The first range in it. Linkers put the code of one compilation together, and compilations in one order
    /// into all sections: units that are sorted by their first range are sorted by nearly all of them.
    first: LinkAddr,
    unit: u32,
    header: ArangeHeader<Reader<'a>>,
    map: OnceLock<RangeMap>,
}

impl<'a> UnitSet<'a> {
    fn new(unit: u32, header: ArangeHeader<Reader<'a>>) -> Option<Self> {
        let mut set = Self {
            first: LinkAddr(0),
            unit,
            header,
            map: OnceLock::new(),
        };
        set.first = set.ranges().next()?.start;
        Some(set)
    }

    fn ranges(&self) -> impl Iterator<Item = LinkRange> + use<'a> {
        let mut entries = self.header.entries();
        let ranges = std::iter::from_fn(move || entries.next().ok().flatten()).map(|entry| entry.range());
        let kept = ranges.filter(|range| range.begin != 0 && range.begin < range.end);
        kept.map(|range| LinkAddr(range.begin)..LinkAddr(range.end))
    }

    fn map(&self) -> &RangeMap {
        self.map
            .get_or_init(|| RangeMap::new(self.ranges().map(|range| (range, self.unit))))
    }
}

/// Which units cover which addresses, as far as it was asked for.
pub(super) struct UnitRanges<'a> {
    /// By first range.
    sets: Vec<UnitSet<'a>>,
    /// Units without a set, by their root entries.
    others: RangeMap,
    /// Everything, for questions that a look at the likely units does not answer.
    all: OnceLock<RangeMap>,
    hard_questions: AtomicU32,
    /// The code that a process starts with.
    start: LinkRange,
}

/// Every stack of a main thread ends in the C library's `_start`, so short and without debug information. A
/// program that brings its own is found like any other code.
const START_CODE: u64 = 64;

/// Hard questions that are answered by looking through the table before it gets sorted.
const HARD_QUESTIONS: u32 = 8;

impl<'a> UnitRanges<'a> {
    /// The units whose sets are likely to hold an address.
    fn likely(&self, addr: LinkAddr) -> impl Iterator<Item = &UnitSet<'a>> {
        let after = self.sets.partition_point(|set| set.first <= addr);
        let places = [after.checked_sub(1), Some(after), after.checked_sub(2)];
        places.into_iter().flatten().filter_map(|at| self.sets.get(at))
    }

    fn all(&self) -> &RangeMap {
        self.all.get_or_init(|| {
            let sets = self.sets.iter();
            let in_sets = sets.flat_map(|set| set.ranges().map(|range| (range, set.unit)));
            let others = self.others.entries.iter();
            RangeMap::new(in_sets.chain(others.map(|(range, unit, _)| (range.clone(), *unit))))
        })
    }

    /// The units that cover an address, found in one of them or in a few.
    pub fn likely_at(&self, addr: LinkAddr) -> impl Iterator<Item = u32> {
        self.likely(addr)
            .flat_map(move |set| set.map().at(addr).take(1))
            .chain(self.others.at(addr))
    }

    /// All units that cover an address.
    pub fn all_at(&self, addr: LinkAddr) -> Vec<u32> {
        if self.start.contains(&addr) {
            return self.likely_at(addr).collect();
        }
        if self.hard_questions.fetch_add(1, Ordering::Relaxed) >= HARD_QUESTIONS {
            return self.all().at(addr).collect();
        }
        let holding = self
            .sets
            .iter()
            .filter(|set| set.ranges().any(|range| range.contains(&addr)));
        holding.map(|set| set.unit).chain(self.others.at(addr)).collect()
    }

    /// The units whose code overlaps a range, each once.
    pub fn overlapping(&self, wanted: &LinkRange) -> Vec<u32> {
        let whole = self.likely(wanted.start).find(|set| set.map().surrounds(wanted));
        let mut units: Vec<u32> = match whole {
            Some(set) => vec![set.unit],
            None if self.others.surrounds(wanted) => self.others.overlapping(wanted).collect(),
            None => self.all().overlapping(wanted).collect(),
        };
        units.sort_unstable();
        units.dedup();
        units
    }
}

impl<'a> Sources<'a> {
    /// Which of the main units cover which addresses: from `.debug_aranges`, and from the root entry of
    /// every unit that the table does not mention.
    pub(super) fn unit_ranges(&self) -> &UnitRanges<'a> {
        self.unit_ranges.get_or_init(|| {
            let sets = self.sets();
            // The headers of all units were looked at, a page or more for each.
            for section in [self.dwarf.debug_aranges.reader(), self.dwarf.debug_info.reader()] {
                self.files.expect(section.slice(), Reading::Over);
            }
            let covered: HashSet<u32> = sets.iter().map(|set| set.unit).collect();
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
            let start = self.start..LinkAddr(self.start.0.saturating_add(START_CODE));
            UnitRanges {
                sets,
                others: RangeMap::new(found),
                start,
                all: OnceLock::new(),
                hard_questions: AtomicU32::new(0),
            }
        })
    }

    /// The code of a main unit.
    pub(super) fn ranges_of_unit(&self, index: u32) -> Vec<LinkRange> {
        let known = self.unit_ranges();
        let own = known.sets.iter().filter(|set| set.unit == index);
        let mut ranges: Vec<LinkRange> = own.flat_map(UnitSet::ranges).collect();
        let others = known.others.entries.iter().filter(|(_, unit, _)| *unit == index);
        ranges.extend(others.map(|(range, ..)| range.clone()));
        ranges
    }

    fn sets(&self) -> Vec<UnitSet<'a>> {
        let units = &self.main_units().headers;
        let mut sets = Vec::new();
        let mut headers = self.dwarf.debug_aranges.headers();
        let mut passed = Passed::new(self.files, self.dwarf.debug_aranges.reader().slice());
        while let Ok(Some(header)) = headers.next() {
            passed.up_to(header.offset().0);
            let offset = header.debug_info_offset();
            let index = units.binary_search_by_key(&offset.0, |unit| unit.offset().0);
            let index = index.ok().and_then(|index| u32::try_from(index).ok());
            sets.extend(index.and_then(|index| UnitSet::new(index, header)));
        }
        sets.sort_unstable_by_key(|set| (set.first, set.unit));
        sets
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

//! The units that are likely to cover an address, without reading about the others.
//!
//! `.debug_aranges` has a set of ranges for each unit, one behind the other, and is in no order by rights. But linkers put
//! compilations in one order into all sections, so that addresses grow along the table, nearly: a search of it as if it were
//! sorted ends at the right set or beside it, having looked at a page here and there. Whether a set holds the address is
//! then read in it; where none near the place does, the whole table is asked ([`super::ranges`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

use gimli::{DebugArangesOffset, Section as _};

use super::Sources;
use super::ranges::UnitSet;
use crate::addr::LinkAddr;
use crate::files::Reading;

/// A range in the table, two addresses. A header takes as much, and a set is a multiple of it.
const CELL: usize = 16;

/// Cells that are looked at in one place. Some functions lie apart from the others of their unit, in the parts of the code
/// for what runs first or rarely, so the middle one of many counts.
const SAMPLE: usize = 64;

/// What is read of the table around the place of a set.
const AROUND: usize = 1 << 16;

/// Cells that are gone through for the header of a set: more than any but the largest compilations have ranges.
const LONGEST: usize = 1 << 16;

/// Addresses of one place, as a power of two: less code than nearly all units have.
const PLACE: u32 = 8;

/// The sets that were met.
#[derive(Default)]
pub(super) struct NearSets<'a> {
    /// By where they begin.
    known: RwLock<BTreeMap<usize, Near<'a>>>,
    /// By the place of the code that was asked about.
    places: RwLock<HashMap<u64, Option<Near<'a>>>>,
}

/// A set, and where it begins and ends in the table, in cells.
#[derive(Clone)]
struct Near<'a> {
    start: usize,
    end: usize,
    set: Arc<UnitSet<'a>>,
}

impl<'a> NearSets<'a> {
    fn around(&self, cell: usize) -> Option<Near<'a>> {
        let known = self.known.read().ok()?;
        let (_, near) = known.range(..=cell).next_back()?;
        (cell < near.end).then(|| near.clone())
    }

    fn keep(&self, near: &Near<'a>) {
        if let Ok(mut known) = self.known.write() {
            known.entry(near.start).or_insert_with(|| near.clone());
        }
    }
}

impl<'a> Sources<'a> {
    /// The units that cover an address, as far as they are found near the place where they should be.
    pub(super) fn near_units(&self, addr: LinkAddr) -> impl Iterator<Item = usize> {
        self.sets_near(addr)
            .filter_map(move |set| set.map().at(addr).next())
    }

    /// The sets that are likely to hold an address: the one at its place, the next one, and the one before.
    pub(super) fn sets_near(&self, addr: LinkAddr) -> impl Iterator<Item = Arc<UnitSet<'a>>> {
        let table = Table(self.dwarf.debug_aranges.reader().slice());
        let here = self.set_at_place_of(table, addr);
        let (start, end) = here.as_ref().map_or((0, 0), |here| (here.start, here.end));
        let others = here.is_some().then_some([Some(end), start.checked_sub(1)]);
        let others = others.into_iter().flatten().flatten();
        let others = others.filter_map(move |cell| self.set_around(table, cell));
        here.into_iter().chain(others).map(|near| near.set)
    }

    fn set_at_place_of(&self, table: Table<'a>, addr: LinkAddr) -> Option<Near<'a>> {
        let place = addr.0 >> PLACE;
        if let Ok(places) = self.near_sets.places.read()
            && let Some(known) = places.get(&place)
        {
            return known.clone();
        }
        let cell = table.place_of(place << PLACE);
        let found = cell.and_then(|cell| self.set_around(table, cell));
        if let Ok(mut places) = self.near_sets.places.write() {
            places.insert(place, found.clone());
        }
        found
    }

    fn set_around(&self, table: Table<'a>, cell: usize) -> Option<Near<'a>> {
        if let Some(known) = self.near_sets.around(cell) {
            return Some(known);
        }
        let at = cell * CELL;
        let around = at.saturating_sub(AROUND)..at.saturating_add(AROUND).min(table.0.len());
        self.files
            .expect(table.0.get(around).unwrap_or_default(), Reading::Through);
        let (start, end) = table.set_around(cell)?;
        let header = self.dwarf.debug_aranges.header(DebugArangesOffset(start * CELL));
        let near = Near {
            start,
            end,
            set: Arc::new(UnitSet::new(header.ok()?)),
        };
        self.near_sets.keep(&near);
        Some(near)
    }
}

/// `.debug_aranges`, taken for rows of cells, which it is as compilers for 64 bits write it.
#[derive(Clone, Copy)]
struct Table<'a>(&'a [u8]);

impl Table<'_> {
    fn len(self) -> usize {
        self.0.len() / CELL
    }

    fn cell(self, at: usize) -> Option<[u8; CELL]> {
        self.0.get(at.checked_mul(CELL)?..)?.first_chunk().copied()
    }

    /// The start of the range in a cell that has one.
    fn start(self, at: usize) -> Option<u64> {
        let cell = self.cell(at)?;
        let word = |from: usize| Some(u64::from_le_bytes(*cell.get(from..)?.first_chunk()?));
        let (start, len) = (word(0)?, word(8)?);
        (start != 0 && len != 0 && self.header(at).is_none()).then_some(start)
    }

    /// Where the set ends whose header is in a cell, if that looks like one: the set before ends with a cell of
    /// zeros, and the length leads to another header or to the end.
    fn header(self, at: usize) -> Option<usize> {
        let end = self.header_alone(at)?;
        let follows = at == 0 || self.cell(at - 1)? == [0; CELL];
        let leads = end == self.len() || self.header_alone(end).is_some();
        (follows && leads).then_some(end)
    }

    fn header_alone(self, at: usize) -> Option<usize> {
        let [a, b, c, d, version, 0, _, _, _, _, 8, 0, 0, 0, 0, 0] = self.cell(at)? else {
            return None;
        };
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d]))
            .ok()?
            .checked_add(4)?;
        let end = at.checked_add(length / CELL)?;
        let fits = matches!(version, 2 | 3) && length % CELL == 0 && length > CELL && end <= self.len();
        fits.then_some(end)
    }

    /// The cell that an address would be in if the table were sorted.
    fn place_of(self, addr: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while high - low > SAMPLE {
            let middle = low + (high - low) / 2;
            match self.typical(middle) {
                Some(start) if start <= addr => low = middle,
                _ => high = middle,
            }
        }
        (low < self.len()).then_some(low)
    }

    /// What the ranges around a cell begin with.
    fn typical(self, at: usize) -> Option<u64> {
        let from = at.saturating_sub(SAMPLE / 2);
        let mut starts: Vec<u64> = (from..from + SAMPLE).filter_map(|at| self.start(at)).collect();
        let middle = starts.len() / 2;
        (!starts.is_empty()).then(|| *starts.select_nth_unstable(middle).1)
    }

    /// Where the set around a cell begins and ends.
    fn set_around(self, cell: usize) -> Option<(usize, usize)> {
        let before = (0..=cell).rev().take(LONGEST);
        let mut headers = before.filter_map(|at| Some((at, self.header(at)?)));
        headers.next().filter(|(_, end)| cell < *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set of ranges of one unit.
    fn set(unit: u32, ranges: &[(u64, u64)]) -> Vec<u8> {
        let length = (ranges.len() + 2) * CELL - 4;
        let mut bytes = u32::try_from(length).unwrap().to_le_bytes().to_vec();
        bytes.extend([2, 0]);
        bytes.extend(unit.to_le_bytes());
        bytes.extend([8, 0, 0, 0, 0, 0]);
        for (start, len) in ranges.iter().chain(&[(0, 0)]) {
            bytes.extend(start.to_le_bytes());
            bytes.extend(len.to_le_bytes());
        }
        bytes
    }

    /// Units whose functions are in one order in all parts of the code: each has most of them in one part, some in another.
    fn units(count: u64, functions: u64) -> Vec<Vec<(u64, u64)>> {
        let rare = |unit: u64, n: u64| (0x1000 + (unit * functions + n) * 16, 8);
        let usual = |unit: u64, n: u64| (0x10_0000 + (unit * functions + n) * 64, 60);
        let of = |unit| (0..functions).map(move |n| if n % 4 == 0 { rare(unit, n) } else { usual(unit, n) });
        (0..count).map(|unit| of(unit).collect()).collect()
    }

    #[test]
    fn the_set_of_an_address_is_at_its_place_or_beside_it() {
        let all = units(50, 40);
        let bytes: Vec<u8> = (0..)
            .zip(&all)
            .flat_map(|(unit, ranges)| set(unit, ranges))
            .collect();
        let table = Table(&bytes);
        let sets: Vec<(usize, usize)> = (0..50).map(|unit| (unit * 42, (unit + 1) * 42)).collect();
        for (unit, ranges) in all.iter().enumerate() {
            for (start, _) in ranges.iter().filter(|(start, _)| *start >= 0x10_0000) {
                let (found, end) = table.set_around(table.place_of(start + 1).unwrap()).unwrap();
                let found = sets.binary_search(&(found, end)).unwrap();
                assert!(
                    found.abs_diff(unit) <= 1,
                    "{start:#x} is in {unit}, not near {found}"
                );
            }
        }
    }

    #[test]
    fn sets_are_told_from_ranges_and_from_noise() {
        let bytes = [
            set(0, &[(0x2000, 8), (0x3000, 8)]),
            set(0x40, &[]),
            set(0x90, &[(0x4000, 1)]),
        ]
        .concat();
        let table = Table(&bytes);
        assert_eq!(table.set_around(2), Some((0, 4)));
        assert_eq!(table.set_around(4), Some((4, 6)));
        assert_eq!(table.set_around(8), Some((6, 9)));
        assert_eq!(table.set_around(9), None);
        // Cut short, the last header leads nowhere, and neither does the one before it.
        let cut = Table(bytes.get(..8 * CELL).unwrap());
        assert_eq!(cut.set_around(7), None);
        assert_eq!(Table(&[0xff; 1000]).place_of(5), Some(0));
        assert_eq!(Table(&[0xff; 1000]).set_around(3), None);
        assert_eq!(Table(&[]).place_of(5), None);
    }
}

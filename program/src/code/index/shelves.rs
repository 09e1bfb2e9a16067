//! The symbols of code, put roughly where they belong in one quick look at each.
//!
//! A symbol table is in no useful order, and that of a large program has half a million symbols. One question
//! needs a few hundred of them. So each is only put on the shelf of its address, in some fifty instructions and
//! two bytes; the symbols of a shelf are looked at properly when something on it is asked for.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{self, Sym64};

use super::ground::Ground;
use super::packed::{POSITION, Packed, is_code};
use crate::addr::group_shift;

/// No shelf is narrower than this (as a power of two): a dozen functions.
const MIN_SHIFT: u32 = 10;

/// Symbols that are looked at before their part of the table is given back.
const AT_ONCE: usize = 1 << 14;

/// Stands for a distance between symbols that has no room in two bytes.
const FAR: u16 = u16::MAX;

/// The symbols of a table by where, roughly, they are.
#[derive(Debug)]
pub(super) struct Shelves {
    shift: u32,
    /// For each shelf the last symbol that was put on it. The first symbol of any table is nobody's: zero is
    /// none.
    last: Vec<u32>,
    /// For each symbol, how far before it in the table the one is that was put on its shelf before it.
    back: Vec<u16>,
    /// The same, by position, where that is [`FAR`]: symbol and the one before it.
    far: Vec<(u32, u32)>,
    /// The shelves that have symbols, in order.
    filled: Vec<u32>,
    /// Symbols that are longer than a shelf: where they begin, and how far they and those before them go.
    long: Vec<(u32, u32)>,
}

impl Shelves {
    /// Puts the symbols of a table on shelves; what is not code on closer look may be among them. `functions` is
    /// about how many there are by other accounts; `others` gets what is certainly not code, and `passed` each
    /// part of the table that is done with.
    pub(super) fn new(
        symbols: &[Sym64<LE>],
        ground: &Ground,
        functions: usize,
        mut others: impl FnMut(&Sym64<LE>),
        passed: impl Fn(&[Sym64<LE>]),
    ) -> Self {
        let span = ground.span();
        let shift = group_shift(span.into(), symbols.len().max(functions)).max(MIN_SHIFT);
        let symbols = symbols.get(..POSITION as usize).unwrap_or(symbols);
        let mut shelves = Self {
            shift,
            last: vec![0; (span >> shift) as usize + 1],
            back: vec![0; symbols.len()],
            far: Vec::new(),
            filled: Vec::new(),
            long: Vec::new(),
        };
        let mut around = 0..0;
        let parts = symbols.chunks(AT_ONCE).zip(shelves.back.chunks_mut(AT_ONCE));
        for (from, (part, back)) in (0u32..).step_by(AT_ONCE).zip(parts) {
            for (position, (symbol, back)) in (from..).zip(part.iter().zip(back)) {
                let addr = symbol.st_value.get(LE);
                // Nearly all symbols are functions in the same code as the one before.
                if symbol.st_type() != elf::STT_FUNC || !around.contains(&addr) {
                    if !is_code(symbol) {
                        others(symbol);
                        continue;
                    }
                    if Packed::of_symbol(position as usize, symbol, ground, &mut around).is_none() {
                        continue;
                    }
                }
                let start = addr.wrapping_sub(ground.base);
                let Some(last) = shelves.last.get_mut((start >> shift) as usize) else {
                    continue;
                };
                let before = std::mem::replace(last, position);
                if before != 0 {
                    *back = u16::try_from(position - before).unwrap_or(FAR);
                    if *back == FAR {
                        shelves.far.push((position, before));
                    }
                }
                if symbol.st_size.get(LE) >> shift != 0 {
                    let found = Packed::of_symbol(position as usize, symbol, ground, &mut around);
                    shelves.long.extend(found.map(|found| (found.start, found.end)));
                }
            }
            passed(part);
        }
        let filled = (0..).zip(&shelves.last).filter(|(_, last)| **last != 0);
        shelves.filled = filled.map(|(shelf, _)| shelf).collect();
        shelves.long.sort_unstable();
        let mut furthest = 0;
        for (_, end) in &mut shelves.long {
            furthest = furthest.max(*end);
            *end = furthest;
        }
        shelves
    }

    pub(super) fn count(&self) -> usize {
        self.last.len()
    }

    /// The shelf that a distance belongs on, or the last one before it.
    pub(super) fn of(&self, distance: u32) -> usize {
        ((distance >> self.shift) as usize).min(self.last.len().saturating_sub(1))
    }

    /// The distances that belong on a shelf.
    pub(super) fn range(&self, shelf: usize) -> Range<u64> {
        let width = 1 << self.shift;
        let from = shelf as u64 * width;
        from..from + width
    }

    /// The symbols of a shelf, by position, the last one first.
    pub(super) fn positions(&self, shelf: usize) -> impl Iterator<Item = usize> + '_ {
        let mut next = self.last.get(shelf).copied().filter(|last| *last != 0);
        std::iter::from_fn(move || {
            let at = next?;
            next = self.before(at);
            usize::try_from(at).ok()
        })
    }

    fn before(&self, position: u32) -> Option<u32> {
        match self.back.get(position as usize).copied()? {
            0 => None,
            FAR => {
                let at = self.far.binary_search_by_key(&position, |(symbol, _)| *symbol);
                self.far.get(at.ok()?).map(|(_, before)| *before)
            }
            back => position.checked_sub(u32::from(back)),
        }
    }

    /// The first shelf behind another that has symbols.
    pub(super) fn next(&self, shelf: usize) -> Option<usize> {
        let after = self.filled.partition_point(|filled| *filled as usize <= shelf);
        self.filled.get(after).map(|filled| *filled as usize)
    }

    /// How far the functions go that begin before a shelf. `ends` gives the ends of those on one.
    pub(super) fn reach(&self, shelf: usize, ends: impl Fn(usize) -> Option<u32>) -> u32 {
        let from = self.range(shelf).start;
        let long = self.long.partition_point(|(start, _)| u64::from(*start) < from);
        let long = long.checked_sub(1).and_then(|at| self.long.get(at));
        // What begins two shelves before a symbol, and is not long, ends before it.
        let before = self.filled.partition_point(|filled| (*filled as usize) < shelf);
        let near = before.checked_sub(1).and_then(|before| self.filled.get(before));
        let near = near.map(|near| *near as usize);
        let near = near.map_or(0..0, |near| near.saturating_sub(1)..near + 1);
        let near = near.filter_map(ends).max();
        long.map_or(0, |(_, end)| *end).max(near.unwrap_or(0))
    }
}

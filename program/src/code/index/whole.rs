//! All functions of a file at once, for an analysis of the whole.

use super::super::names::NamesWith;
use super::super::starts::Starts;
use super::super::{cold, functions::FunctionId};
use super::complete::Stretch;
use super::packed::{Packed, merge_aliases};
use super::{Index, Part};
use crate::addr::group_shift;

/// About as many functions as this are sorted together.
const GROUP: usize = 2;

/// Every function of a file, in address order.
#[derive(Debug)]
pub(in super::super) struct Whole {
    pub entries: Vec<Packed>,
    /// A quick way to them by address; not where they are spread too thin.
    starts: Option<Starts>,
}

impl Whole {
    pub(super) fn new(index: &Index<'_>) -> Self {
        let mut around = 0..0;
        let symbols = index.table.raw().iter().enumerate();
        let unsorted: Vec<Packed> = symbols
            .filter_map(|(at, symbol)| Packed::of_symbol(at, symbol, &index.ground, &mut around))
            .collect();
        let mut entries = sorted(&unsorted);
        drop(unsorted);
        let cold = take_cold(index, &mut entries);
        merge_aliases(&mut entries);
        let stretch = Stretch {
            ground: &index.ground,
            wanted: 0..u64::MAX,
            reach: 0,
            cold: &cold,
        };
        stretch.complete(|| index.unwind(), &mut entries);
        entries.shrink_to_fit();
        let starts = Starts::new(&entries);
        Self { entries, starts }
    }

    /// The place, in address order, of the function that begins at a distance.
    pub(in super::super) fn place_of(&self, start: u32) -> Option<usize> {
        match &self.starts {
            Some(starts) => starts.at(start),
            None => self
                .entries
                .binary_search_by_key(&start, |entry| entry.start)
                .ok(),
        }
    }

    /// The function at a place in address order.
    pub(in super::super) fn id(&self, place: usize) -> Option<FunctionId> {
        self.entries.get(place).map(|entry| FunctionId(entry.start))
    }
}

fn sorted(unsorted: &[Packed]) -> Vec<Packed> {
    let last = unsorted.iter().map(|entry| entry.start).max().unwrap_or(0);
    let shift = group_shift(last.into(), unsorted.len() / GROUP);
    let group = |entry: &Packed| (entry.start >> shift) as usize;
    let mut places = vec![0u32; (last >> shift) as usize + 1];
    for entry in unsorted {
        places[group(entry)] += 1;
    }
    let mut before = 0;
    for place in &mut places {
        before += std::mem::replace(place, before);
    }
    let mut entries = vec![Packed::default(); unsorted.len()];
    for entry in unsorted {
        let place = &mut places[group(entry)];
        entries[*place as usize] = *entry;
        *place += 1;
    }
    let mut from = 0;
    for end in places {
        let group = &mut entries[from..end as usize];
        let key = |entry: &Packed| (entry.start, entry.symbol);
        if !group.is_sorted_by_key(key) {
            group.sort_unstable_by_key(key);
        }
        from = end as usize;
    }
    entries
}

/// Takes out the parts that belong to other functions. Names are searched as one block, not one by one.
fn take_cold(index: &Index<'_>, entries: &mut Vec<Packed>) -> Vec<Part> {
    let marked = NamesWith::new(index.table.names(), cold::MARK);
    let mut parts = Vec::new();
    if !marked.is_empty() {
        entries.retain(|entry| {
            let part = index.part(*entry, |name| marked.may_hold(name));
            parts.extend(part);
            part.is_none()
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_in_any_order_are_sorted_by_start_then_symbol() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        for (count, span) in [(0, 1), (1, 1 << 24), (3, 2), (1000, 300), (1000, 1 << 24)] {
            let unsorted: Vec<Packed> = (0..count)
                .map(|_| Packed {
                    start: next() % span,
                    end: 0,
                    symbol: next(),
                })
                .collect();
            let key = |entry: &Packed| (entry.start, entry.symbol);
            let mut expected: Vec<_> = unsorted.iter().map(key).collect();
            expected.sort_unstable();
            assert_eq!(sorted(&unsorted).iter().map(key).collect::<Vec<_>>(), expected);
        }
    }
}

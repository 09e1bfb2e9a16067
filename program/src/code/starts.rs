//! Which function begins at an address, for an analysis of the whole file.
//!
//! A search among hundreds of thousands of functions misses the cache a dozen times, and every call needs one.
//! This is a bit for each address and a count for each 512, in a row: one miss.

use super::functions::{FunctionId, Functions};

/// Addresses that share a count.
const GROUP: u64 = 512;
const WORDS: usize = 8;

/// Where functions lie farther apart than this on average, a table of their addresses is no help.
const MAX_DISTANCE: u64 = 1 << 12;

/// The functions of a file by where they begin.
#[derive(Debug)]
pub(super) struct Starts {
    first: u64,
    groups: Vec<Group>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    /// A bit for each address at which a function begins.
    bits: [u64; WORDS],
    /// How many functions begin before the group.
    before: u32,
}

impl Starts {
    /// `None` for a file whose functions are spread too thin.
    pub(super) fn new(functions: &Functions<'_>) -> Option<Self> {
        let entries = || functions.ids().filter_map(|id| functions.entry(id));
        let first = entries().next()?.start;
        let last = functions.ids().last().and_then(|id| functions.entry(id))?.start;
        let span = last.checked_sub(first)?;
        if span / MAX_DISTANCE > functions.len() as u64 {
            return None;
        }
        let mut groups = vec![Group::default(); usize::try_from(span / GROUP + 1).ok()?];
        for entry in entries() {
            let at = entry.start.checked_sub(first)?;
            let group = groups.get_mut(usize::try_from(at / GROUP).ok()?)?;
            group.bits[(at % GROUP / 64) as usize] |= 1 << (at % 64);
        }
        let mut before = 0;
        for group in &mut groups {
            group.before = before;
            before += group.bits.iter().map(|word| word.count_ones()).sum::<u32>();
        }
        // Addresses are distinct and sorted, so that their order is the functions'.
        (before as usize == functions.len()).then_some(Self { first, groups })
    }

    /// The function that begins at an address.
    pub(super) fn at(&self, addr: u64) -> Option<FunctionId> {
        let at = addr.checked_sub(self.first)?;
        let group = self.groups.get(usize::try_from(at / GROUP).ok()?)?;
        let word = (at % GROUP / 64) as usize;
        let bit = 1u64 << (at % 64);
        if group.bits[word] & bit == 0 {
            return None;
        }
        let lower = group.bits.iter().take(word).map(|word| word.count_ones());
        let own = (group.bits[word] & (bit - 1)).count_ones();
        Some(FunctionId(group.before + lower.sum::<u32>() + own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::LinkAddr;
    use crate::elf::Elf;

    #[test]
    fn every_function_is_found_and_nothing_else() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let functions = Functions::new(&Elf::parse(&file).unwrap());
        let starts = Starts::new(&functions).unwrap();
        assert!(functions.len() > 1000);
        for function in functions.iter() {
            assert_eq!(starts.at(function.entry.0), Some(function.id));
            for near in [-1, 1, 8] {
                let near = function.entry.offset(near);
                assert_eq!(starts.at(near.0), functions.starting_at(near));
            }
        }
        assert_eq!(starts.at(0), functions.starting_at(LinkAddr(0)));
        assert_eq!(starts.at(u64::MAX), None);
    }
}

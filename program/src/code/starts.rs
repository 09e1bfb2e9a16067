//! Which function begins at an address, for an analysis of the whole file.
//!
//! A search among hundreds of thousands of functions misses the cache a dozen times, and every call needs one.
//! This is a bit for each address and a count for each 512, in a row: one miss.

use super::index::Packed;

/// Addresses that share a count.
const GROUP: u32 = 512;
const WORDS: usize = 8;

/// Where functions lie farther apart than this on average, a table of their addresses is no help.
const MAX_DISTANCE: u32 = 1 << 12;

/// The functions of a file by where they begin.
#[derive(Debug)]
pub(super) struct Starts {
    first: u32,
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
    /// `None` for a file whose functions are spread too thin. They are sorted by start.
    pub(super) fn new(functions: &[Packed]) -> Option<Self> {
        let first = functions.first()?.start;
        let span = functions.last()?.start.checked_sub(first)?;
        if (span / MAX_DISTANCE) as usize > functions.len() {
            return None;
        }
        let mut groups = vec![Group::default(); (span / GROUP) as usize + 1];
        for function in functions {
            let at = function.start.checked_sub(first)?;
            let group = groups.get_mut((at / GROUP) as usize)?;
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

    /// The place, in address order, of the function that begins at a distance from the first code.
    pub(super) fn at(&self, start: u32) -> Option<usize> {
        let at = start.checked_sub(self.first)?;
        let group = self.groups.get((at / GROUP) as usize)?;
        let word = (at % GROUP / 64) as usize;
        let bit = 1u64 << (at % 64);
        if group.bits[word] & bit == 0 {
            return None;
        }
        let lower = group.bits.iter().take(word).map(|word| word.count_ones());
        let own = (group.bits[word] & (bit - 1)).count_ones();
        Some((group.before + lower.sum::<u32>() + own) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_and_nothing_else() {
        let mut state = 1u32;
        let mut start = 100;
        let functions: Vec<Packed> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            start += 1 + (state >> 20);
            Packed {
                start,
                ..Packed::default()
            }
        })
        .take(2000)
        .collect();
        let starts = Starts::new(&functions).unwrap();
        let searched = |start: u32| functions.binary_search_by_key(&start, |function| function.start);
        for function in &functions {
            assert!(starts.at(function.start).is_some());
            for near in function.start - 2..function.start + 9 {
                assert_eq!(starts.at(near), searched(near).ok());
            }
        }
        assert_eq!([starts.at(0), starts.at(u32::MAX)], [None; 2]);
    }
}

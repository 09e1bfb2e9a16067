//! Where a function is in a sorted list of them.

use program::addr::group_shift;
use program::code::FunctionId;

/// About as many functions as this are looked through at the end of a search.
const GROUP: usize = 2;

/// A way into a sorted list of functions. Every call of a whole program needs one search, and halving a list
/// of hundreds of thousands misses the cache a dozen times; this misses it twice.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    first: u32,
    shift: u32,
    /// Where, in the list, each group of ids begins, and the end.
    groups: Vec<u32>,
}

impl Directory {
    /// `functions` are sorted.
    pub fn new(functions: &[FunctionId]) -> Self {
        let first = functions.first().map_or(0, |first| first.0);
        let span = functions.last().map_or(0, |last| last.0.saturating_sub(first));
        let shift = group_shift(span.into(), functions.len() / GROUP);
        let mut groups = Vec::with_capacity((span >> shift) as usize + 2);
        for (place, function) in (0..).zip(functions) {
            let group = (function.0.saturating_sub(first) >> shift) as usize;
            groups.resize(groups.len().max(group + 1), place);
        }
        groups.push(u32::try_from(functions.len()).unwrap_or(u32::MAX));
        Self { first, shift, groups }
    }

    /// The place of a function in the list that this was made for.
    pub fn find(&self, functions: &[FunctionId], wanted: FunctionId) -> Option<usize> {
        let group = (wanted.0.checked_sub(self.first)? >> self.shift) as usize;
        let (from, to) = (*self.groups.get(group)?, *self.groups.get(group + 1)?);
        let group = functions.get(from as usize..to as usize)?;
        let at = group.iter().position(|function| *function == wanted)?;
        Some(from as usize + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_and_nothing_else() {
        for step in [1, 3, 16, 100_000] {
            for count in [0, 1, 2, 500] {
                let functions: Vec<_> = (7..).step_by(step).take(count).map(FunctionId).collect();
                let directory = Directory::new(&functions);
                for wanted in functions.iter().flat_map(|id| [id.0 - 1, id.0, id.0 + 1]) {
                    let wanted = FunctionId(wanted);
                    let expected = functions.binary_search(&wanted).ok();
                    assert_eq!(directory.find(&functions, wanted), expected);
                }
                for wanted in [FunctionId(0), FunctionId(u32::MAX)] {
                    assert_eq!(directory.find(&functions, wanted), None);
                }
            }
        }
    }
}

//! What a name that does not exist may have been meant to be.

use crate::code::demangle_path;
use crate::module::Module;
use crate::scoped;

/// Names that are longer are not mistyped, and not looked at.
const LONGEST: usize = 64;
const MOST_OFFERED: usize = 3;

/// The variables of a module whose names are most like a name, the likeliest first.
pub(super) fn similar(module: &Module<'_>, name: &str) -> Vec<String> {
    let mut found: Vec<(usize, String)> = module
        .elf()
        .data_symbols()
        .filter_map(|symbol| {
            let known = scoped::shown(&demangle_path(symbol.name));
            Some((distance(name, &known)?, known))
        })
        .collect();
    found.sort();
    found.dedup();
    found
        .into_iter()
        .take(MOST_OFFERED)
        .map(|(_, known)| known)
        .collect()
}

/// How far a wanted name is from a known one; `None` when nobody would mix them up.
fn distance(wanted: &str, known: &str) -> Option<usize> {
    let last = |path: &str| scoped::last(path).to_owned();
    // A path that was not given, or not given whole, costs less than a letter.
    if wanted != known && last(wanted) == last(known) {
        return Some(1);
    }
    let (wanted, known) = if wanted.contains("::") {
        (wanted.to_lowercase(), known.to_lowercase())
    } else {
        (wanted.to_lowercase(), last(known).to_lowercase())
    };
    let most = (wanted.len() / 3).clamp(1, 3);
    if wanted.len().abs_diff(known.len()) > most || wanted.len().max(known.len()) > LONGEST {
        return None;
    }
    let edits = edits(wanted.as_bytes(), known.as_bytes());
    (edits <= most).then_some(2 * edits)
}

/// How many letters were added, left out, changed or swapped with their neighbour.
fn edits(one: &[u8], other: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, byte) in one.iter().enumerate() {
        let mut next = vec![at + 1];
        for (column, theirs) in other.iter().enumerate() {
            let changed = row[column] + usize::from(byte != theirs);
            let mut least = changed.min(row[column + 1] + 1).min(next[column] + 1);
            let swapped = at > 0 && column > 0 && one[at - 1] == *theirs && *byte == other[column - 1];
            if swapped {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_are_missing_wrong_or_swapped_are_counted() {
        assert_eq!(edits(b"shared", b"shared"), 0);
        assert_eq!(edits(b"shard", b"shared"), 1);
        assert_eq!(edits(b"sahred", b"shared"), 1);
        assert_eq!(edits(b"", b"abc"), 3);
        assert_eq!(edits(b"queue", b"clue"), 3);
    }

    #[test]
    fn only_what_may_be_meant_is_near() {
        assert_eq!(distance("COUNT", "names::COUNT"), Some(1));
        assert_eq!(distance("Shared", "shared"), Some(0));
        assert_eq!(distance("shred", "shared"), Some(2));
        assert_eq!(distance("x", "stdout"), None);
        assert_eq!(distance("total", "stdin"), None);
    }
}

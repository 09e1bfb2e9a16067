//! How near a sketch is to one that a person made.
//!
//! Relevance is |S ∩ I| / |S ∪ I| over the statements of the sketch and of the ideal one, a statement being a line
//! executed by a thread of one kind. Ordering follows Kendall's τ over the pairs of accesses that both have: the share of
//! pairs that both have in the same order. A statement that comes several times is compared by its occurrences from
//! the last one back, for a sketch shows last instances. Overall accuracy is the mean of the two.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::AccessKind;

/// A step of either sketch, as far as comparing goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The role of its thread.
    pub role: String,
    /// The source file's name, without folders.
    pub file: String,
    /// The line.
    pub line: u32,
    /// What it does to a shared variable, if it does.
    pub access: Option<AccessKind>,
}

/// How near two sketches are; each is between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// Statements in both / statements in either.
    pub relevance: f64,
    /// Pairs of accesses in the same order / pairs of accesses in both.
    pub ordering: f64,
}

impl Accuracy {
    /// The mean of relevance and ordering.
    #[must_use]
    pub fn overall(&self) -> f64 {
        f64::midpoint(self.relevance, self.ordering)
    }
}

type Line<'a> = (&'a str, &'a str, u32);

/// Compares a sketch with an ideal one.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "steps are few")]
pub fn compare(sketch: &[Place], ideal: &[Place]) -> Accuracy {
    let lines = |steps: &[Place]| -> BTreeSet<(String, String, u32)> {
        let line = |step: &Place| (step.role.clone(), step.file.clone(), step.line);
        steps.iter().map(line).collect()
    };
    let (ours, theirs) = (lines(sketch), lines(ideal));
    let either = ours.union(&theirs).count();
    let both = ours.intersection(&theirs).count();
    let relevance = if either == 0 {
        1.0
    } else {
        both as f64 / either as f64
    };

    let (ours, theirs) = (positions(sketch), positions(ideal));
    let common: Vec<(usize, usize)> = ours
        .iter()
        .filter_map(|(key, at)| Some((*at, *theirs.get(key)?)))
        .collect();
    let mut pairs = 0_u64;
    let mut same = 0_u64;
    for (at, (a, b)) in common.iter().enumerate() {
        for (c, d) in &common[at + 1..] {
            pairs += 1;
            same += u64::from((a < c) == (b < d));
        }
    }
    let ordering = if pairs == 0 {
        1.0
    } else {
        same as f64 / pairs as f64
    };
    Accuracy { relevance, ordering }
}

/// The place of each access, by its line and how many of the same line come after it.
fn positions(steps: &[Place]) -> BTreeMap<(Line<'_>, usize), usize> {
    let mut after: BTreeMap<Line<'_>, usize> = BTreeMap::new();
    let mut places = BTreeMap::new();
    for (at, step) in steps.iter().enumerate().rev() {
        if step.access.is_none() {
            continue;
        }
        let line = (step.role.as_str(), step.file.as_str(), step.line);
        let later = after.entry(line).or_default();
        places.insert((line, *later), at);
        *later += 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u32, access: Option<AccessKind>) -> Place {
        Place {
            role: "worker".into(),
            file: "a.c".into(),
            line,
            access,
        }
    }

    const R: Option<AccessKind> = Some(AccessKind::Read);
    const W: Option<AccessKind> = Some(AccessKind::Write);

    #[test]
    fn the_same_is_perfect() {
        let steps = [place(3, W), place(5, R), place(9, None)];
        let accuracy = compare(&steps, &steps);
        assert_eq!((accuracy.relevance, accuracy.ordering), (1.0, 1.0));
        assert_eq!(compare(&[], &[]).overall(), 1.0);
    }

    #[test]
    fn what_is_missing_and_what_is_too_much_cost_relevance() {
        let ideal = [place(3, W), place(5, R), place(9, None)];
        let ours = [place(3, W), place(9, None), place(10, None)];
        assert_eq!(compare(&ours, &ideal).relevance, 0.5);
    }

    #[test]
    fn a_swapped_pair_costs_ordering() {
        let ideal = [place(3, W), place(5, R), place(7, R)];
        let ours = [place(5, R), place(3, W), place(7, R)];
        let ordering = compare(&ours, &ideal).ordering;
        assert!((ordering - 2.0 / 3.0).abs() < 1e-12, "{ordering}");
    }

    #[test]
    fn repeated_statements_match_from_the_end() {
        let ideal = [place(3, R), place(5, W), place(5, W)];
        let ours = [place(5, W), place(3, R), place(5, W), place(5, W)];
        assert_eq!(compare(&ours, &ideal).ordering, 1.0);
    }
}

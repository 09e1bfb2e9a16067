//! Refinement: what runs take out of the slice, and what they add to it.

use crate::evidence::Evidence;
use crate::run::{Catalogue, StatementId};

/// What the runs changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refined {
    /// Tracked statements of the slice that no run executed.
    pub left: Vec<StatementId>,
    /// Statements outside the slice that accessed tracked memory.
    pub joined: Vec<StatementId>,
}

/// Compares the slice with the runs. Only statements that `tracked` names can leave: of any other, not being seen says
/// nothing.
#[must_use]
pub fn refine(
    catalogue: &Catalogue,
    evidence: &Evidence,
    tracked: impl IntoIterator<Item = StatementId>,
) -> Refined {
    let in_slice = |id: StatementId| {
        let info = catalogue.statements.get(id.0 as usize);
        info.is_some_and(|info| info.slice.is_some())
    };
    let mut left: Vec<StatementId> = tracked
        .into_iter()
        .filter(|id| in_slice(*id) && !evidence.executed(*id))
        .collect();
    left.sort_unstable();
    left.dedup();
    Refined {
        left,
        joined: evidence.caught().filter(|id| !in_slice(*id)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Shape;
    use crate::sketch::Why;
    use crate::testkit::Lab;

    #[test]
    fn what_nobody_executed_leaves_and_what_a_watchpoint_caught_joins() {
        let mut lab = Lab::new(&[('m', "main"), ('a', "worker")], &[("p", Shape::Pointer)]);
        lab.slice(2, 0, None);
        lab.slice(7, 1, Some((Why::Control, 2)));
        lab.slice(8, 1, Some((Why::Data, 2)));
        lab.slice(9, 2, Some((Why::Data, 8)));
        let run = lab.failure("a:X8 m:W3=0 a:R2=0", 'a', &[2]);
        let (evidence, _) = lab.rank(&[run]);
        let tracked = [2, 7, 8].map(|line| lab.line(line));
        let refined = refine(&lab.catalogue, &evidence, tracked);
        assert_eq!(
            refined.left,
            [lab.line(7)],
            "9 was not tracked: nothing is known of it"
        );
        assert_eq!(refined.joined, [lab.line(3)]);
    }
}

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

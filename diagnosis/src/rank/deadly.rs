//! Calls that do nothing but fail.
//!
//! Large programs have assertions of their own: a macro that checks, and a function that says what was wrong and ends the process, by
//! `abort` or by a write to nowhere. The failing statement is in that function, and no more than the end of the story: who called it
//! decided that the program failed, and the branch to the call only restates that, as the one of an `assert` does.

use std::collections::BTreeSet;

use crate::run::{Because, Catalogue, StatementId, StatementInfo};
use crate::sketch::Why;

/// Functions that one such function may be behind another: one that formats a message, one that takes any arguments.
const DEEPEST: usize = 4;

/// The calls through which a failing statement that depends on nothing is reached whatever the functions between do. Where it depends on
/// data, a function that fails by it has done so for some reason, and may have returned for another caller.
pub(super) fn deadly(catalogue: &Catalogue, failing: StatementId) -> BTreeSet<StatementId> {
    let mut deadly = BTreeSet::new();
    if is_there_for(catalogue, failing).any(|(_, because)| because.why == Why::Data) {
        return deadly;
    }
    let mut reached = vec![failing];
    for _ in 0..DEEPEST {
        let unconditional = reached.into_iter().filter(|&it| !is_decided_on(catalogue, it));
        let calls = unconditional.flat_map(|it| is_there_for(catalogue, it));
        let calls = calls.filter(|(_, because)| because.why == Why::Call);
        let calls: Vec<StatementId> = calls.map(|(call, _)| call).collect();
        reached = calls.into_iter().filter(|&call| deadly.insert(call)).collect();
    }
    deadly
}

/// Whether its own function decides on a statement.
fn is_decided_on(catalogue: &Catalogue, statement: StatementId) -> bool {
    let function = |id| info(catalogue, id).map(|info| &info.function);
    let own = function(statement);
    is_there_for(catalogue, statement)
        .any(|(decides, because)| because.why == Why::Control && function(decides) == own)
}

/// What is in the slice for a statement.
fn is_there_for(
    catalogue: &Catalogue,
    statement: StatementId,
) -> impl Iterator<Item = (StatementId, Because)> {
    let all = (0..).map(StatementId).zip(&catalogue.statements);
    all.filter_map(move |(id, info)| {
        let because = info.because.filter(|because| because.of == statement)?;
        Some((id, because))
    })
}

fn info(catalogue: &Catalogue, statement: StatementId) -> Option<&StatementInfo> {
    catalogue.statements.get(statement.0 as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Lab;

    /// Whether a call in `check` of `die`, in which the failing statement is, does nothing but fail, with one more statement in the slice
    /// for the failing one.
    fn of_check(beside: Option<(&str, Why)>) -> bool {
        let mut lab = Lab::new(&[('m', "main")], &[]);
        lab.function("die", &[30]);
        lab.function("check", &[20]);
        lab.slice(30, 0, None);
        if let Some((function, why)) = beside {
            lab.function(function, &[29]);
            lab.slice(29, 1, Some((why, 30)));
        }
        lab.slice(20, 1, Some((Why::Call, 30)));
        let (failing, call) = (lab.line(30), lab.line(20));
        deadly(&lab.catalogue, failing).contains(&call)
    }

    #[test]
    fn a_call_of_what_always_fails_does_nothing_else() {
        assert!(of_check(None));
        assert!(
            of_check(Some(("check", Why::Control))),
            "the branch around the call"
        );
        assert!(!of_check(Some(("die", Why::Control))), "it may return");
        assert!(!of_check(Some(("die", Why::Data))), "it fails for what it met");
    }
}

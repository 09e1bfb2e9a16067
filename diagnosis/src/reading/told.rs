//! Of which branches a run tells that a kind of threads did not go some way.
//!
//! A thread that nobody looked at has branches, and no kind. A failing run shows the stack of every thread, a successful one only those that
//! touched what was watched: if the ways of the others counted for nobody, whatever every thread does in every run would be
//! what only failing runs have.

use std::collections::BTreeSet;

use super::threads;
use crate::run::{BranchId, Event, RunThread, What};

/// Those of the traced branches that no thread of an unknown kind came by.
pub(super) fn told(mut traced: BTreeSet<BranchId>, events: &[Event], of: &[RunThread]) -> BTreeSet<BranchId> {
    let unknown = |event: &&Event| of.get(event.thread.0 as usize).is_none_or(threads::is_unknown);
    for event in events.iter().filter(unknown) {
        if let What::Branch(branch, _) = event.what {
            traced.remove(&branch);
        }
    }
    traced
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::run::{StatementId, ThreadIx, Way};

    fn thread(role: &str) -> RunThread {
        RunThread {
            role: role.into(),
            stack: Vec::new(),
            ended: false,
            calls: BTreeMap::new(),
        }
    }

    fn went(thread: u32, branch: u32) -> Event {
        Event {
            thread: ThreadIx(thread),
            statement: StatementId(branch),
            time_ns: None,
            uncertain: false,
            what: What::Branch(BranchId(branch), Way::Taken),
        }
    }

    #[test]
    fn what_threads_of_unknown_kind_did_says_nothing_of_any_kind() {
        let traced: BTreeSet<BranchId> = (0..3).map(BranchId).collect();
        let threads = [thread("main"), thread(threads::UNKNOWN)];
        let told = told(traced, &[went(0, 0), went(0, 1), went(1, 1)], &threads);
        let expected: BTreeSet<BranchId> = [0, 2].map(BranchId).into();
        assert_eq!(told, expected);
    }
}

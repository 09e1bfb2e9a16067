//! Where the threads of a deadlock got what others wait for. No run has to have seen it all.

use std::cmp::Reverse;

use super::Evidence;
use crate::predictor::{Actor, Ending, Predictor, Wait};

impl Evidence {
    /// A deadlock with what all runs together say of it: what each thread wants, and where the one that has it got it. What was
    /// seen counts before what only follows from the code, and what was seen most before the rest.
    pub(crate) fn completed(&self, predictor: &Predictor) -> Predictor {
        let Predictor::Deadlock { waits, ending } = predictor else {
            return predictor.clone();
        };
        let completed = waits.iter().enumerate().map(|(at, wait)| {
            let next = waits.get(at + 1).or_else(|| waits.first());
            let fits = |since: &Actor| match ending {
                Ending::Ended => true,
                Ending::Cycle | Ending::Elsewhere => next.is_some_and(|next| next.wants.role == since.role),
            };
            let told = || {
                let all = self.acquired.iter();
                all.filter(|(acquired, _)| acquired.wants == wait.wants)
            };
            let since = told().filter(|(acquired, _)| acquired.since.as_ref().is_some_and(fits));
            let since = since.max_by_key(|(acquired, runs)| (acquired.seen, **runs, Reverse(*acquired)));
            let location = since.and_then(|(acquired, _)| acquired.location);
            let watched = || told().find_map(|(acquired, _)| acquired.location);
            Wait {
                location: location.or_else(watched),
                wants: wait.wants.clone(),
                held_since: since.and_then(|(acquired, _)| acquired.since.clone()),
            }
        });
        Predictor::Deadlock {
            waits: completed.collect(),
            ending: *ending,
        }
    }
}

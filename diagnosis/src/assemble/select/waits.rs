//! The steps of a hang: who waits where, and since when others have what is wanted.

use super::Selection;
use crate::predictor::extract::deadlocks;
use crate::predictor::{Actor, Predictor, Wait};
use crate::run::{RunThread, StatementId, ThreadIx};

impl Selection<'_> {
    /// Of a hang: where the threads that wait for one another do, and where each of them got what another wants; where this run
    /// did not see that, as others say.
    pub(super) fn waits(&mut self, best: Option<&Predictor>) {
        let (waits, rank): (&[Wait], _) = match best {
            Some(Predictor::Deadlock { waits, .. }) => (waits, Some(1)),
            _ => (&[], None),
        };
        let found = deadlocks(self.catalogue, self.run);
        if found.is_empty() {
            self.pieced_waits(waits);
        }
        for deadlock in found {
            for blocked in &deadlock.threads {
                self.take_ranked(blocked.thread, blocked.wants, None, rank);
                let known = waits.iter().find(|wait| wait.wants.statement == blocked.wants);
                let known = known.and_then(|wait| wait.held_since.as_ref());
                let since = blocked.since.map(|since| since.statement);
                if let Some(since) = since.or_else(|| known.map(|actor| actor.statement)) {
                    let there = self.gone_on_to(blocked.holder, since);
                    self.take_ranked(blocked.holder, since, there, rank);
                }
            }
            if let Some((thread, place)) = deadlock.beyond {
                self.take_ranked(thread, place, None, rank);
            }
        }
    }

    /// The same where no run saw who waits for whom: every thread waits here where the deadlock says.
    fn pieced_waits(&mut self, waits: &[Wait]) {
        let threads = self
            .run
            .threads
            .iter()
            .zip(0..)
            .map(|(of, at)| (of, ThreadIx(at)));
        let threads: Vec<_> = threads.collect();
        let waiting = |actor: &Actor| {
            let here = |of: &RunThread| of.role == actor.role && of.stack.first() == Some(&actor.statement);
            threads.iter().find(|(of, _)| here(of)).map(|(_, at)| *at)
        };
        for (wait, next) in waits.iter().zip(waits.iter().cycle().skip(1)) {
            let (Some(thread), Some(holder)) = (waiting(&wait.wants), waiting(&next.wants)) else {
                continue;
            };
            self.take_ranked(thread, wait.wants.statement, None, Some(1));
            if let Some(since) = &wait.held_since {
                let there = self.gone_on_to(holder, since.statement);
                self.take_ranked(holder, since.statement, there, Some(1));
            }
        }
    }

    /// Where a thread is that has come past a statement: in the same function, if it is still there.
    fn gone_on_to(&self, thread: ThreadIx, statement: StatementId) -> Option<StatementId> {
        let stack = &self.run.threads.get(thread.0 as usize)?.stack;
        let function = self.function(statement);
        let same = stack
            .iter()
            .find(|at| **at != statement && self.function(**at) == function);
        same.or(stack.first()).copied()
    }
}

//! Where threads became concurrent: rule 7.

use std::collections::BTreeSet;

use super::Selection;
use crate::run::{StatementId, ThreadIx};
use crate::sketch::Why;

impl Selection<'_> {
    /// Rule 7.
    pub(super) fn creations(&mut self, mut roles: BTreeSet<crate::predictor::Role>) {
        let with_steps: BTreeSet<ThreadIx> = self.picks.values().map(|pick| pick.thread).collect();
        let role = |thread: &ThreadIx| {
            self.run
                .threads
                .get(thread.0 as usize)
                .map(|thread| thread.role.clone())
        };
        roles.extend(with_steps.iter().filter_map(role));
        for creation in self.statements() {
            let Some(because) = self
                .because(creation)
                .filter(|because| because.why == Why::Thread)
            else {
                continue;
            };
            let Some(creator) = self.creator(creation) else {
                continue;
            };
            let creator_role = self
                .run
                .threads
                .get(creator.0 as usize)
                .map(|thread| thread.role.clone());
            if !creator_role.is_some_and(|role| roles.contains(&role)) {
                continue;
            }
            let created: Vec<ThreadIx> = self.picks.values().map(|pick| pick.thread).collect();
            let Some(created) = self.created_by(because.of, &created) else {
                continue;
            };
            self.take(creator, creation, None);
            self.at_start(creator, creation, created);
            self.argument(created);
        }
    }

    /// Where a created thread takes what it was given: in its start routine, for what it does later.
    fn argument(&mut self, created: ThreadIx) {
        let Some(role) = self
            .run
            .threads
            .get(created.0 as usize)
            .map(|thread| thread.role.clone())
        else {
            return;
        };
        for statement in self.statements() {
            let takes = self
                .because(statement)
                .is_some_and(|because| because.why == Why::Data && self.has(created, because.of));
            let in_slice = self.distance(statement).is_some();
            if takes && in_slice && self.function(statement) == Some(&*role) && !self.has_line(statement) {
                self.take(
                    created,
                    statement,
                    self.because(statement).map(|because| because.of),
                );
                self.at_start(created, statement, created);
            }
        }
    }

    fn at_start(&mut self, thread: ThreadIx, statement: StatementId, created: ThreadIx) {
        if let Some(pick) = self.picks.get_mut(&(thread, statement, None)) {
            pick.starts = Some(created);
        }
    }

    /// The thread that a creation is for: one with steps that executes the statement that depends on it, or what depends
    /// on that.
    fn created_by(&self, statement: StatementId, threads: &[ThreadIx]) -> Option<ThreadIx> {
        let mut at = Some(statement);
        let mut steps = 0;
        while let Some(statement) = at
            && steps <= self.catalogue.statements.len()
        {
            let executes = |thread: &&ThreadIx| {
                self.has(**thread, statement)
                    || self
                        .run
                        .events
                        .iter()
                        .any(|event| (event.thread, event.statement) == (**thread, statement))
                    || self
                        .run
                        .threads
                        .get(thread.0 as usize)
                        .is_some_and(|thread| thread.stack.contains(&statement))
            };
            if let Some(thread) = threads.iter().find(executes) {
                return Some(*thread);
            }
            at = self.because(statement).map(|because| because.of);
            steps += 1;
        }
        None
    }

    /// The thread that executes a creation: one that was seen to, else the first.
    fn creator(&self, creation: StatementId) -> Option<ThreadIx> {
        let seen = self
            .run
            .events
            .iter()
            .find(|event| event.statement == creation)
            .map(|event| event.thread);
        let main = self.run.threads.iter().position(|thread| &*thread.role == "main");
        seen.or_else(|| main.and_then(|at| u32::try_from(at).ok()).map(ThreadIx))
    }
}

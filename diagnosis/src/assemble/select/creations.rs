//! Where threads became concurrent: rule 7.

use std::collections::BTreeSet;

use super::Selection;
use crate::predictor::Role;
use crate::run::{StatementId, ThreadIx};
use crate::sketch::Why;

impl Selection<'_> {
    /// Rule 7. Threads of the `expected` roles have no step because they came too late for it.
    /// `arguments` are declarations that threads take theirs by and that the compiler made no code of.
    pub(super) fn creations(
        &mut self,
        mut roles: BTreeSet<Role>,
        expected: &BTreeSet<Role>,
        arguments: &[StatementId],
    ) {
        let with_steps: BTreeSet<ThreadIx> = self.picks.values().map(|pick| pick.thread).collect();
        let role = |thread: &ThreadIx| {
            self.run
                .threads
                .get(thread.0 as usize)
                .map(|thread| thread.role.clone())
        };
        roles.extend(with_steps.iter().filter_map(role));
        for creation in self.statements() {
            let creates = self.catalogue.statements.get(creation.0 as usize);
            let Some(because) = self
                .because(creation)
                .filter(|_| creates.is_some_and(|info| info.creates))
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
            let others = self.picks.values().map(|pick| pick.thread);
            let others: Vec<ThreadIx> = others.filter(|&thread| thread != creator).collect();
            let created = self
                .created_by(because.of, &others)
                .or_else(|| self.only_kind(&others));
            let Some(created) = created else {
                let unknown = || !expected.is_empty() && self.created_by(because.of, &[creator]).is_some();
                if self.leads_to(because.of, expected) || unknown() {
                    self.take(creator, creation, self.next_in_code(creator, creation));
                }
                continue;
            };
            self.take_creation(creator, creation, created);
            if self.is_passed(creation, because.of) {
                self.argument(because.of, created);
            }
            arguments
                .iter()
                .for_each(|&taking| self.argument(taking, created));
            let (in_slice, joined): (Vec<_>, Vec<_>) = self
                .statements()
                .filter(|&statement| self.is_taken_by(created, statement))
                .partition(|&statement| self.distance(statement).is_some());
            // What a write depends on that runs have shown begins with what the thread was given.
            let line = |at: &StatementId| {
                self.catalogue
                    .statements
                    .get(at.0 as usize)
                    .and_then(|info| info.line)
            };
            let first = joined.into_iter().min_by_key(line);
            for taking in in_slice.into_iter().chain(first) {
                self.argument(taking, created);
            }
        }
    }

    /// Whether a statement of a thread's start routine makes what a step of the thread uses.
    fn is_taken_by(&self, thread: ThreadIx, statement: StatementId) -> bool {
        let because = self.because(statement);
        let used = because.is_some_and(|because| because.why == Why::Data && self.has(thread, because.of));
        used && self.is_in_routine(thread, statement)
    }

    fn is_in_routine(&self, thread: ThreadIx, statement: StatementId) -> bool {
        let thread = self.run.threads.get(thread.0 as usize);
        thread.is_some_and(|thread| self.function(statement) == Some(&*thread.role))
    }

    /// Takes the creation of a thread: where it was seen last before the thread did anything. The same statement may create others later.
    fn take_creation(&mut self, creator: ThreadIx, creation: StatementId, created: ThreadIx) {
        if self.has(creator, creation) {
            return;
        }
        let events = &self.run.events;
        let begins = events.iter().position(|event| event.thread == created);
        let seen = events[..begins.unwrap_or(events.len())]
            .iter()
            .rposition(|event| (event.thread, event.statement) == (creator, creation));
        match seen {
            Some(event) => self.take_event(event, None),
            None => self.insert(creator, creation, None),
        }
        self.at_start(creator, creation, created);
    }

    /// Whether a creation is in the slice for what it passes to a statement. (Without data it is there for the thread's running
    /// at all, and one step farther.)
    fn is_passed(&self, creation: StatementId, to: StatementId) -> bool {
        match (self.distance(creation), self.distance(to)) {
            (Some(creation), Some(to)) => creation <= to + 1,
            _ => false,
        }
    }

    /// Where a created thread takes what it was given: in its start routine.
    fn argument(&mut self, taking: StatementId, created: ThreadIx) {
        if self.is_in_routine(created, taking) && !self.has_line(taking) {
            self.take(created, taking, self.because(taking).map(|because| because.of));
            self.at_start(created, taking, created);
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

    /// The first of some threads if all of them are of one kind. A creation may be in the slice for the status that it returns, which
    /// does not lead to whom it created.
    fn only_kind(&self, threads: &[ThreadIx]) -> Option<ThreadIx> {
        let role = |thread: &ThreadIx| self.run.threads.get(thread.0 as usize).map(|thread| &thread.role);
        let first = threads.first()?;
        threads
            .iter()
            .all(|thread| role(thread) == role(first))
            .then_some(*first)
    }

    /// Whether a statement is there for a function that threads of some roles begin with.
    fn leads_to(&self, statement: StatementId, roles: &BTreeSet<Role>) -> bool {
        let chain = std::iter::successors(Some(statement), |&at| Some(self.because(at)?.of));
        let mut chain = chain.take(self.catalogue.statements.len());
        chain.any(|at| {
            let function = self.function(at);
            roles.iter().any(|role| Some(&**role) == function)
        })
    }

    /// Where a thread was, at its end, in the function of a statement and behind it.
    fn next_in_code(&self, thread: ThreadIx, statement: StatementId) -> Option<StatementId> {
        let info = |at: StatementId| self.catalogue.statements.get(at.0 as usize);
        let line = info(statement)?.line?;
        let stack = &self.run.threads.get(thread.0 as usize)?.stack;
        let behind = |at: &&StatementId| {
            self.function(**at) == self.function(statement)
                && info(**at).is_some_and(|info| info.line.is_some_and(|other| other > line))
        };
        stack.iter().find(behind).copied()
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

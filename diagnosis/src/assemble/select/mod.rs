//! Which statements belong into a sketch.
//!
//! As few as show how the failure came about. A statement is there because it is
//!
//! 1. the failing one; of a hang, every thread's of the cycle,
//! 2. an access of the best predictor, in its last instance before the failure,
//! 3. the write whose value the predictor's first access read or replaced, or that the failing thread's reads of its
//!    location returned: what was true before it was changed; where no other thread is to blame, also the write whose value the failing
//!    statement read: a program that fails in every run has no predictors, and this is what a person asks first,
//! 4. the failing thread's access to the same memory after the race: how it learns of it,
//! 5. what connects these with the failing statement in the slice: decisions that depend on watched memory, and calls.
//!    Statements that only hand a value on (`return length;`) do not, but what made the value that the best predictor's branch
//!    tests does: `end = strchr(…); if (!end)`,
//! 6. a call that led to one of these: the nearest few on the stack that the thread had there, and
//!    those further out that pass what the failure depends on or whose function has steps of its own,
//! 7. the creation of a thread by one that has steps, and where the created one takes its argument: that is where the two
//!    became concurrent; also where the created one came too late for the step that was expected of it,
//! 8. where a function with steps got the pointer from behind which the memory of the best predictor is; of a race, in a thread
//!    that takes part.
//!
//! Of each statement a thread's last instance that matters is shown, not every turn of a loop.

mod accesses;
mod calls;
mod creations;
#[cfg(test)]
mod tests;
mod waits;

pub(super) use accesses::{shows_who_left_it, true_before, unseen_writes};

use std::collections::{BTreeMap, BTreeSet};

use crate::assemble::Giving;
use crate::evidence::Evidence;
use crate::predictor::extract::locate;
use crate::predictor::{Predictor, Role};
use crate::rank::{Ranked, expected_writes};
use crate::run::{Access, Because, Catalogue, Event, Run, RunThread, Shape, StatementId, ThreadIx, What};

/// A step before it has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pick {
    pub thread: ThreadIx,
    pub statement: StatementId,
    /// Its event; `None` for one that follows from the code.
    pub event: Option<usize>,
    /// The statement before which it stands, where it has no event.
    pub before: Option<StatementId>,
    /// The thread at whose start it stands, where it creates one or takes what a thread was given.
    pub starts: Option<ThreadIx>,
    /// The rank of the best predictor that it is part of.
    pub rank: Option<u32>,
    pub failing: bool,
}

pub(super) struct Selection<'a> {
    catalogue: &'a Catalogue,
    run: &'a Run,
    picks: BTreeMap<(ThreadIx, StatementId, Option<usize>), Pick>,
}

/// Where comes from what the best predictor is about, as far as the code tells.
#[derive(Clone, Copy)]
pub(super) struct Origins<'a> {
    /// What gave out the pointers behind which its memory is.
    pub givers: &'a [Giving],
    /// Where threads take these as their arguments, without code.
    pub arguments: &'a [StatementId],
    /// What made the value that its branch tests.
    pub tested: &'a [StatementId],
}

/// Chooses the steps of a failing run.
pub(super) fn select(
    catalogue: &Catalogue,
    evidence: &Evidence,
    ranked: &[Ranked],
    origins: Origins<'_>,
    run: &Run,
) -> Vec<Pick> {
    let mut selection = Selection {
        catalogue,
        run,
        picks: BTreeMap::new(),
    };
    let best = ranked.first();
    let instance = best
        .and_then(|best| locate(catalogue, run, &best.predictor))
        .unwrap_or_default();
    for &event in &instance {
        selection.take_event(event, Some(1));
    }
    let failing = selection.failing_thread();
    let across = best
        .is_some_and(|best| !matches!(best.predictor, Predictor::Value { .. } | Predictor::Branch { .. }));
    let locks = best.is_some_and(|best| matches!(best.predictor, Predictor::Deadlock { .. }));
    selection.waits(best.map(|best| &best.predictor));
    if across && !locks {
        selection.what_was_true_before(&instance);
    }
    selection.how_the_failing_thread_learns(failing, &instance);
    selection.connections(failing, across);
    if let Some(Predictor::Branch { branch, .. }) = best.map(|best| &best.predictor) {
        selection.what_is_tested(*branch, failing, origins.tested);
    }
    if !across {
        selection.origins(failing);
        selection.connections(failing, across);
    }
    let expected = best.map(|best| expected_roles(evidence, &best.predictor));
    let expected = expected.unwrap_or_default();
    let mut roles = best.map(|best| roles(&best.predictor)).unwrap_or_default();
    roles.extend(expected.iter().cloned());
    selection.creations(roles.clone(), &expected, origins.arguments);
    selection.calls(failing);
    selection.where_it_came_from(origins.givers, across.then_some(&roles));
    selection.fail(failing);
    selection.picks.into_values().collect()
}

/// The roles that a predictor is about.
fn roles(predictor: &Predictor) -> BTreeSet<Role> {
    let accesses = predictor.accesses().into_iter();
    accesses.map(|(actor, _, _)| actor.role.clone()).collect()
}

/// The roles of the writes that did not come.
fn expected_roles(evidence: &Evidence, predictor: &Predictor) -> BTreeSet<Role> {
    let Predictor::Unwritten { location, read } = predictor else {
        return BTreeSet::new();
    };
    let writes = expected_writes(evidence, *location, read).into_iter();
    writes.map(|actor| actor.role).collect()
}

impl Selection<'_> {
    fn access(&self, event: usize) -> Option<(ThreadIx, StatementId, Access)> {
        let happened = self.run.events.get(event)?;
        match happened.what {
            What::Access(access) => Some((happened.thread, happened.statement, access)),
            _ => None,
        }
    }

    fn because(&self, statement: StatementId) -> Option<Because> {
        self.catalogue.statements.get(statement.0 as usize)?.because
    }

    fn distance(&self, statement: StatementId) -> Option<u32> {
        Some(
            self.catalogue
                .statements
                .get(statement.0 as usize)?
                .slice?
                .distance,
        )
    }

    fn function(&self, statement: StatementId) -> Option<&str> {
        Some(&*self.catalogue.statements.get(statement.0 as usize)?.function)
    }

    fn has(&self, thread: ThreadIx, statement: StatementId) -> bool {
        let from = (thread, statement, None);
        self.picks
            .range(from..)
            .next()
            .is_some_and(|((t, s, _), _)| (*t, *s) == (thread, statement))
    }

    fn has_line(&self, statement: StatementId) -> bool {
        let line = |statement: StatementId| {
            let info = self.catalogue.statements.get(statement.0 as usize)?;
            Some((info.file.clone()?, info.line?))
        };
        let wanted = line(statement);
        wanted.is_some() && self.picks.values().any(|pick| line(pick.statement) == wanted)
    }

    /// The thread that failed. Of a hang, the one that is at the failing statement: whichever thread was looked at first
    /// may only wait for it.
    fn failing_thread(&self) -> Option<ThreadIx> {
        let failed = self.run.failed?;
        let there = |thread: &RunThread| thread.stack.first() == Some(&failed.statement);
        let stuck = self.run.threads.iter().position(there).filter(|_| failed.hang);
        stuck
            .and_then(|at| u32::try_from(at).ok())
            .map(ThreadIx)
            .or(failed.thread)
    }

    fn take_ranked(
        &mut self,
        thread: ThreadIx,
        statement: StatementId,
        before: Option<StatementId>,
        rank: Option<u32>,
    ) {
        self.take(thread, statement, before);
        let own = |pick: &&mut Pick| (pick.thread, pick.statement) == (thread, statement);
        for pick in self.picks.values_mut().filter(own) {
            pick.rank = pick.rank.or(rank);
        }
    }

    fn take_event(&mut self, event: usize, rank: Option<u32>) {
        let Some(happened) = self.run.events.get(event) else {
            return;
        };
        let key = (happened.thread, happened.statement, Some(event));
        let pick = self.picks.entry(key).or_insert(Pick {
            thread: happened.thread,
            statement: happened.statement,
            event: Some(event),
            before: None,
            starts: None,
            rank,
            failing: false,
        });
        pick.rank = pick.rank.or(rank);
    }

    /// Takes a statement for what the code says: its last access by the thread, or its last execution if that was seen, else as
    /// one that must have run before `before`.
    fn take(&mut self, thread: ThreadIx, statement: StatementId, before: Option<StatementId>) {
        if self.has(thread, statement) {
            return;
        }
        let last = |wanted: &dyn Fn(&What) -> bool| {
            let is_it =
                |event: &Event| (event.thread, event.statement) == (thread, statement) && wanted(&event.what);
            self.run.events.iter().rposition(is_it)
        };
        let access = last(&|what| matches!(what, What::Access(_)));
        let seen = || last(&|what| !matches!(what, What::Branch(..)) || before.is_none());
        match access.or_else(seen) {
            Some(event) => self.take_event(event, None),
            None => self.insert(thread, statement, before),
        }
    }

    /// Takes a statement that was not seen.
    fn insert(&mut self, thread: ThreadIx, statement: StatementId, before: Option<StatementId>) {
        let pick = Pick {
            thread,
            statement,
            event: None,
            before,
            starts: None,
            rank: None,
            failing: false,
        };
        self.picks.insert((thread, statement, None), pick);
    }

    fn statements(&self) -> impl Iterator<Item = StatementId> + use<> {
        (0..u32::try_from(self.catalogue.statements.len()).unwrap_or(u32::MAX)).map(StatementId)
    }

    /// The failure's own event: an access of the failing statement after which the thread did nothing else that was seen. It may
    /// have made several: one that the best predictor is about, one that met a null, else the last.
    fn of_the_failure(&self, thread: ThreadIx, statement: StatementId) -> Option<usize> {
        let own = self.run.events.iter().enumerate().rev();
        let own = own.filter(|(_, event)| event.thread == thread);
        let last: Vec<usize> = own
            .take_while(|(_, event)| event.statement == statement)
            .map(|(at, _)| at)
            .collect();
        let ranked = |at: &&usize| {
            let key = (thread, statement, Some(**at));
            self.picks.get(&key).is_some_and(|pick| pick.rank.is_some())
        };
        let met_null = |at: &&usize| {
            self.access(**at).is_some_and(|(_, _, access)| {
                let location = self.catalogue.locations.get(access.location.0 as usize);
                let pointer = location.is_some_and(|location| location.shape == Shape::Pointer);
                pointer && access.kind.reads() && access.value == Some(0)
            })
        };
        let found = last.iter().find(ranked).or_else(|| last.iter().find(met_null));
        found.or(last.first()).copied()
    }

    /// Rule 1: the failing step, last.
    fn fail(&mut self, failing: Option<ThreadIx>) {
        let (Some(failed), Some(thread)) = (self.run.failed, failing) else {
            return;
        };
        let event = self.of_the_failure(thread, failed.statement);
        let key = (thread, failed.statement, event);
        let known = self.picks.remove(&(thread, failed.statement, None));
        self.picks.entry(key).or_insert(Pick {
            thread,
            statement: failed.statement,
            event,
            before: None,
            starts: None,
            rank: known.and_then(|pick| pick.rank),
            failing: true,
        });
        if let Some(pick) = self.picks.get_mut(&key) {
            pick.failing = true;
        }
    }
}

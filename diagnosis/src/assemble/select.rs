//! Which statements belong into a sketch.
//!
//! As few as show how the failure came about. A statement is there because it is
//!
//! 1. the failing one; of a hang, every thread's of the cycle,
//! 2. an access of the best predictor, in its last instance before the failure,
//! 3. the write whose value the predictor's first access or the failing thread's reads of its location returned:
//!    what was true before it was changed,
//! 4. the failing thread's access to the same memory after the race: how it learns of it,
//! 5. what connects these with the failing statement in the slice: decisions that depend on watched memory, and calls.
//!    Statements that only hand a value on (`return length;`) do not,
//! 6. a call on the failing thread's stack that passed the function something that the failure depends on, or whose
//!    caller has steps of its own; the call of the function of another thread's racing access,
//! 7. the creation of a thread by one that has steps, and where the created one takes its argument: that is where the two
//!    became concurrent.
//!
//! Of each statement a thread's last instance that matters is shown, not every turn of a loop.

use std::collections::{BTreeMap, BTreeSet};

use crate::evidence::Evidence;
use crate::predictor::Predictor;
use crate::predictor::cycle::{Blocked, blocked};
use crate::predictor::extract::locate;
use crate::rank::{Ranked, expected_writes};
use crate::run::{Access, Because, Catalogue, Run, RunThread, StatementId, ThreadIx, What};
use crate::sketch::Why;

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

/// Chooses the steps of a failing run.
pub(super) fn select(catalogue: &Catalogue, evidence: &Evidence, ranked: &[Ranked], run: &Run) -> Vec<Pick> {
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
    selection.waits();
    selection.what_was_true_before(&instance, across);
    selection.how_the_failing_thread_learns(failing, &instance);
    selection.connections(failing);
    if !across {
        selection.origins(failing);
        selection.connections(failing);
    }
    selection.calls(failing);
    selection.creations(
        best.map(|best| roles(evidence, &best.predictor))
            .unwrap_or_default(),
    );
    selection.fail(failing);
    selection.picks.into_values().collect()
}

/// The roles that a predictor is about, among them that of a write that did not come.
fn roles(evidence: &Evidence, predictor: &Predictor) -> BTreeSet<crate::predictor::Role> {
    let actors = predictor
        .accesses()
        .into_iter()
        .map(|(actor, _, _)| actor.role.clone());
    let mut roles: BTreeSet<_> = actors.collect();
    if let Predictor::Unwritten { location, read } = predictor {
        roles.extend(
            expected_writes(evidence, *location, read)
                .into_iter()
                .map(|actor| actor.role),
        );
    }
    roles
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

    /// Of a hang: where the threads that wait for one another do, and what each of them has that another wants.
    fn waits(&mut self) {
        if !self.run.failed.is_some_and(|failed| failed.hang) {
            return;
        }
        for Blocked {
            thread,
            wants,
            holder,
            held_since,
        } in blocked(self.catalogue, self.run)
        {
            self.take(thread, wants, None);
            let there = self
                .run
                .threads
                .get(holder.0 as usize)
                .and_then(|holder| holder.stack.first());
            self.take(holder, held_since, there.copied());
        }
        let picks = self.picks.values_mut().filter(|pick| pick.event.is_none());
        picks.for_each(|pick| pick.rank = Some(1));
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

    /// Takes a statement for what the code says: its last execution by the thread if one was seen, else as one that must
    /// have run before `before`.
    fn take(&mut self, thread: ThreadIx, statement: StatementId, before: Option<StatementId>) {
        if self.has(thread, statement) {
            return;
        }
        let seen = self
            .run
            .events
            .iter()
            .rposition(|event| (event.thread, event.statement) == (thread, statement));
        let event =
            seen.filter(|&at| !matches!(self.run.events[at].what, What::Branch(..)) || before.is_none());
        match event {
            Some(event) => self.take_event(event, None),
            None => {
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
        }
    }

    /// Rule 3, for the first access of the predictor.
    fn what_was_true_before(&mut self, instance: &[usize], across: bool) {
        let Some((_, _, access)) = instance.iter().min().and_then(|&first| self.access(first)) else {
            return;
        };
        if across
            && access.kind.reads()
            && let Some(&first) = instance.iter().min()
            && let Some(write) = self.last_write(&access, first)
        {
            self.take_event(write, None);
        }
    }

    /// The last write to an access's memory before an event.
    fn last_write(&self, access: &Access, before: usize) -> Option<usize> {
        (0..before).rev().find(|&event| {
            self.access(event).is_some_and(|(_, _, other)| {
                (other.location, other.addr) == (access.location, access.addr) && other.kind.writes()
            })
        })
    }

    /// Rule 4: the failing thread's last access, by each statement, to what the race was about; while the race was not over,
    /// by those of the slice.
    fn how_the_failing_thread_learns(&mut self, failing: Option<ThreadIx>, instance: &[usize]) {
        let (Some(failing), Some(&first)) = (failing, instance.iter().min()) else {
            return;
        };
        let end = instance.iter().max().copied().unwrap_or(first);
        let places: BTreeSet<_> = instance
            .iter()
            .filter_map(|&event| self.access(event))
            .map(|(_, _, access)| (access.location, access.addr))
            .collect();
        let mut last: BTreeMap<StatementId, usize> = BTreeMap::new();
        for event in first + 1..self.run.events.len() {
            if let Some((thread, statement, access)) = self.access(event)
                && thread == failing
                && places.contains(&(access.location, access.addr))
                && (event > end || self.distance(statement).is_some())
            {
                last.insert(statement, event);
            }
        }
        for (statement, event) in last {
            if !self.has(failing, statement) {
                self.take_event(event, None);
            }
        }
    }

    /// Rule 5: the statements of the slice between those of the failing thread and the failure, and the decisions on
    /// watched memory that they depend on.
    fn connections(&mut self, failing: Option<ThreadIx>) {
        let (Some(thread), Some(failed)) = (failing, self.run.failed) else {
            return;
        };
        let taken: Vec<StatementId> = self
            .picks
            .values()
            .filter(|pick| pick.thread == thread)
            .map(|pick| pick.statement)
            .collect();
        let mut connected: BTreeSet<StatementId> = taken.iter().copied().collect();
        connected.insert(failed.statement);
        for mut statement in taken {
            let mut steps = 0;
            while let Some(because) = self.because(statement)
                && because.of != failed.statement
                && steps < self.catalogue.statements.len()
            {
                let inner = statement;
                statement = because.of;
                steps += 1;
                // What a call returned is used where it was called.
                let call = self.function(inner) != self.function(statement);
                let hands_on = self
                    .because(statement)
                    .is_none_or(|because| because.why == Why::Data);
                let watched = self.accesses_in_run(thread, statement);
                if !hands_on || watched || call {
                    connected.insert(statement);
                    self.take(
                        thread,
                        statement,
                        self.because(statement).map(|because| because.of),
                    );
                }
            }
        }
        for statement in self.statements() {
            let decides = self
                .because(statement)
                .is_some_and(|because| because.why == Why::Control && connected.contains(&because.of));
            if decides && self.accesses_in_run(thread, statement) {
                self.take(
                    thread,
                    statement,
                    self.because(statement).map(|because| because.of),
                );
            }
        }
    }

    fn accesses_in_run(&self, thread: ThreadIx, statement: StatementId) -> bool {
        self.run.events.iter().any(|event| {
            event.thread == thread && event.statement == statement && matches!(event.what, What::Access(_))
        })
    }

    /// Rule 3 where no other thread is to blame: what every read of the failing thread returned.
    fn origins(&mut self, failing: Option<ThreadIx>) {
        let reads: Vec<(usize, Access)> = self
            .picks
            .values()
            .filter(|pick| Some(pick.thread) == failing)
            .filter_map(|pick| pick.event)
            .filter_map(|event| Some((event, self.access(event)?.2)))
            .collect();
        for (event, access) in reads {
            if access.kind.reads()
                && let Some(write) = self.last_write(&access, event)
            {
                self.take_event(write, None);
            }
        }
    }

    /// Rule 6.
    fn calls(&mut self, failing: Option<ThreadIx>) {
        let Some(failed) = self.run.failed else {
            return;
        };
        for at in 0..self.run.threads.len() {
            let Ok(at) = u32::try_from(at) else {
                return;
            };
            let thread = ThreadIx(at);
            let has_steps = self.picks.values().any(|pick| pick.thread == thread);
            if Some(thread) == failing || failed.hang && has_steps {
                self.calls_on_stack(thread, failed.hang);
            } else if has_steps {
                self.calls_of_accesses(thread);
            }
        }
    }

    fn calls_on_stack(&mut self, thread: ThreadIx, hang: bool) {
        let Some(stack) = self
            .run
            .threads
            .get(thread.0 as usize)
            .map(|thread| thread.stack.clone())
        else {
            return;
        };
        // The outermost frame that has a step of its own, not counting the call itself.
        let stepped = |function: Option<&str>| {
            self.picks.values().any(|pick| {
                pick.thread == thread
                    && self.function(pick.statement) == function
                    && !stack.contains(&pick.statement)
            })
        };
        let frames = stack.iter().map(|statement| self.function(*statement));
        let outermost = frames
            .enumerate()
            .skip(1)
            .filter(|(_, function)| stepped(*function))
            .map(|(at, _)| at)
            .max();
        let mut follows_data = true;
        let mut callee = stack.first().copied();
        for (depth, &call) in stack.iter().enumerate().skip(1) {
            follows_data &= self.passes_data(call) || hang && depth == 1;
            if !follows_data && outermost.is_none_or(|outermost| depth > outermost) {
                break;
            }
            self.take(thread, call, callee);
            callee = Some(call);
        }
    }

    /// Whether a call is in the slice for what it passes: going to a caller without data is farther by one.
    fn passes_data(&self, call: StatementId) -> bool {
        let Some(because) = self.because(call) else {
            return false;
        };
        match (because.why, self.distance(call), self.distance(because.of)) {
            (Why::Call, Some(call), Some(callee)) => call <= callee + 1,
            (Why::Data | Why::Control, _, _) => true,
            _ => false,
        }
    }

    /// The call in the thread's start routine that led to its accesses, where the slice of one of them found it.
    fn calls_of_accesses(&mut self, thread: ThreadIx) {
        let Some(role) = self
            .run
            .threads
            .get(thread.0 as usize)
            .map(|thread| thread.role.clone())
        else {
            return;
        };
        let own: BTreeSet<StatementId> = self
            .picks
            .values()
            .filter(|pick| pick.thread == thread)
            .map(|pick| pick.statement)
            .collect();
        for call in self.statements() {
            if self.function(call) != Some(&*role) || own.contains(&call) {
                continue;
            }
            let mut at = call;
            let mut steps = 0;
            while let Some(because) = self.because(at).filter(|because| because.why == Why::Call)
                && steps < self.catalogue.statements.len()
            {
                at = because.of;
                steps += 1;
                if own.contains(&at) {
                    self.take(thread, call, Some(at));
                    break;
                }
            }
        }
    }

    fn statements(&self) -> impl Iterator<Item = StatementId> + use<> {
        (0..u32::try_from(self.catalogue.statements.len()).unwrap_or(u32::MAX)).map(StatementId)
    }

    /// Rule 7.
    fn creations(&mut self, mut roles: BTreeSet<crate::predictor::Role>) {
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

    /// Rule 1: the failing step, last.
    fn fail(&mut self, failing: Option<ThreadIx>) {
        let (Some(failed), Some(thread)) = (self.run.failed, failing) else {
            return;
        };
        // An event is the failure's own if the thread did nothing that was seen after it.
        let last = self.run.events.iter().rposition(|event| event.thread == thread);
        let event = last.filter(|&at| self.run.events[at].statement == failed.statement);
        let key = (thread, failed.statement, event);
        self.picks.remove(&(thread, failed.statement, None));
        self.picks.entry(key).or_insert(Pick {
            thread,
            statement: failed.statement,
            event,
            before: None,
            starts: None,
            rank: None,
            failing: true,
        });
        if let Some(pick) = self.picks.get_mut(&key) {
            pick.failing = true;
        }
    }
}

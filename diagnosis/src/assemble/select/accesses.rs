//! What a step is there for that memory connects with the failure: rules 3, 4 and 5.

use std::collections::{BTreeMap, BTreeSet};

use super::Selection;
use crate::run::{Access, AccessKind, BranchId, Run, StatementId, ThreadIx, What};
use crate::sketch::Why;

impl Selection<'_> {
    /// Rule 3, for the first access of the predictor: what was true before. That matters if it was the work of one of the threads,
    /// or is what the failure is made of: a count goes on from it, a read that came too early returned it. Otherwise what others left
    /// there before these began is where everything starts.
    pub(super) fn what_was_true_before(&mut self, instance: &[usize]) {
        if let Some((write, _)) = true_before(self.run, instance) {
            self.take_event(write, None);
        }
    }

    /// The last write to an access's memory before an event, unless what the access found there shows that somebody wrote who
    /// was not seen: memory that was given back and handed out again has a new content.
    fn last_write(&self, access: &Access, before: usize) -> Option<usize> {
        last_write(self.run, access, before)
    }

    /// Rule 4: the failing thread's last access, by each statement, to what the race was about; while the race was not over,
    /// by those of the slice. What the race itself consists of is the next turn of a loop when it is done again.
    pub(super) fn how_the_failing_thread_learns(&mut self, failing: Option<ThreadIx>, instance: &[usize]) {
        let (Some(failing), Some(&first)) = (failing, instance.iter().min()) else {
            return;
        };
        let end = instance.iter().max().copied().unwrap_or(first);
        let places: BTreeSet<_> = instance
            .iter()
            .filter_map(|&event| self.access(event))
            .map(|(_, _, access)| (access.location, access.addr))
            .collect();
        let statement = |&event: &usize| self.run.events.get(event).map(|event| event.statement);
        let raced: BTreeSet<StatementId> = instance.iter().filter_map(statement).collect();
        let mut last: BTreeMap<StatementId, usize> = BTreeMap::new();
        for event in first + 1..self.run.events.len() {
            if let Some((thread, statement, access)) = self.access(event)
                && thread == failing
                && places.contains(&(access.location, access.addr))
                && (self.distance(statement).is_some() || event > end && !raced.contains(&statement))
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
    /// watched memory that they depend on. Of a race, not the test of what one of its accesses returned: the value is seen there.
    pub(super) fn connections(&mut self, failing: Option<ThreadIx>, across: bool) {
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
                && !self.is_others(thread, because.of)
                && steps < self.catalogue.statements.len()
            {
                let inner = statement;
                statement = because.of;
                steps += 1;
                // What a call returned is used where it was called, and what one function left for another where that finds it.
                let handed = self
                    .because(inner)
                    .is_some_and(|because| because.why != Why::Control);
                let call = handed && self.function(inner) != self.function(statement);
                let hands_on = self
                    .because(statement)
                    .is_none_or(|because| because.why == Why::Data);
                let watched = self.accesses_in_run(thread, statement);
                let is_control = self.because(statement).is_some_and(|at| at.why == Why::Control);
                let tests = across && is_control && !watched && self.is_ranked(thread, inner);
                if !tests && (!hands_on || watched || call) {
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

    /// Rule 5 for the best predictor's branch: what made the value that it tests.
    pub(super) fn what_is_tested(
        &mut self,
        branch: BranchId,
        failing: Option<ThreadIx>,
        tested: &[StatementId],
    ) {
        let (Some(thread), Some(info)) = (failing, self.catalogue.branches.get(branch.0 as usize)) else {
            return;
        };
        let test = info.statement;
        if self.has(thread, test) {
            tested
                .iter()
                .for_each(|&made| self.take(thread, made, Some(test)));
        }
    }

    /// Whether a statement is an access of the best predictor.
    fn is_ranked(&self, thread: ThreadIx, statement: StatementId) -> bool {
        let mut picks = self.picks.values();
        picks.any(|pick| (pick.thread, pick.statement) == (thread, statement) && pick.rank.is_some())
    }

    /// Whether another thread was seen at a statement, and this one was not: what one thread writes another one may wait for.
    fn is_others(&self, thread: ThreadIx, statement: StatementId) -> bool {
        let events = self
            .run
            .events
            .iter()
            .filter(|event| event.statement == statement);
        let threads = (0..).map(ThreadIx).zip(&self.run.threads);
        let stacks = threads.filter(|(_, other)| other.stack.contains(&statement));
        let mut at_it = events
            .map(|event| event.thread)
            .chain(stacks.map(|(at, _)| at))
            .peekable();
        at_it.peek().is_some() && at_it.all(|other| other != thread)
    }

    fn accesses_in_run(&self, thread: ThreadIx, statement: StatementId) -> bool {
        self.run.events.iter().any(|event| {
            event.thread == thread && event.statement == statement && matches!(event.what, What::Access(_))
        })
    }

    /// Rule 3 where no other thread is to blame: what every read of the failing thread returned, the failing one among them.
    pub(super) fn origins(&mut self, failing: Option<ThreadIx>) {
        let taken = self
            .picks
            .values()
            .filter(|pick| Some(pick.thread) == failing)
            .filter_map(|pick| pick.event);
        let reads: Vec<(usize, Access)> = taken
            .chain(at_the_end(self.run))
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
}

/// The write whose value the first of some accesses read or replaced, if it matters, and whether one of their threads made it.
pub(in crate::assemble) fn true_before(run: &Run, instance: &[usize]) -> Option<(usize, bool)> {
    let thread = |&event: &usize| run.events.get(event).map(|event| event.thread);
    let threads: BTreeSet<ThreadIx> = instance.iter().filter_map(thread).collect();
    let &first = instance.iter().min()?;
    let What::Access(access) = run.events.get(first)?.what else {
        return None;
    };
    let write = last_write(run, &access, first)?;
    let own = thread(&write).is_some_and(|writer| threads.contains(&writer));
    let goes_on = access.kind == AccessKind::ReadWrite || access.kind.reads() && instance.len() == 1;
    (goes_on || own).then_some((write, own))
}

/// The last accesses that the failing thread was seen to make, those by the failing statement: of each location the last.
fn at_the_end(run: &Run) -> Vec<usize> {
    let Some((failed, failing)) = run.failed.and_then(|failed| Some((failed, failed.thread?))) else {
        return Vec::new();
    };
    let own = run.events.iter().enumerate().rev();
    let own = own.filter(|(_, event)| event.thread == failing);
    let last = own.take_while(|(_, event)| event.statement == failed.statement);
    let mut seen = BTreeSet::new();
    let last = last.filter(|(_, event)| match event.what {
        What::Access(access) => seen.insert(access.location),
        _ => false,
    });
    last.map(|(at, _)| at).collect()
}

/// Whether a run shows who wrote what the failing statement read at last.
pub(in crate::assemble) fn shows_who_left_it(run: &Run) -> bool {
    at_the_end(run).into_iter().any(|read| {
        let event = run.events.get(read);
        event.is_some_and(|event| match event.what {
            What::Access(access) => access.kind.reads() && last_write(run, &access, read).is_some(),
            _ => false,
        })
    })
}

/// How many accesses found what nobody was seen to write since the write before.
pub(in crate::assemble) fn unseen_writes(run: &Run) -> usize {
    let mut last: BTreeMap<_, Option<u64>> = BTreeMap::new();
    let mut unseen = 0;
    for event in &run.events {
        let What::Access(access) = event.what else {
            continue;
        };
        let content = last.entry((access.location, access.addr)).or_default();
        unseen += usize::from(differ(*content, found(&access)));
        *content = access.value;
    }
    unseen
}

fn last_write(run: &Run, access: &Access, before: usize) -> Option<usize> {
    let at = run.events.get(..before)?.iter().rposition(|event| {
        matches!(event.what, What::Access(other)
            if (other.location, other.addr) == (access.location, access.addr) && other.kind.writes())
    })?;
    let What::Access(write) = run.events.get(at)?.what else {
        return None;
    };
    (!differ(write.value, found(access))).then_some(at)
}

/// What an access found, as far as that is known.
fn found(access: &Access) -> Option<u64> {
    match access.kind {
        AccessKind::Read => access.value,
        AccessKind::Write | AccessKind::ReadWrite => access.before,
    }
}

fn differ(written: Option<u64>, found: Option<u64>) -> bool {
    written
        .zip(found)
        .is_some_and(|(written, found)| written != found)
}

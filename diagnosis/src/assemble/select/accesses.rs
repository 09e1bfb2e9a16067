//! What a step is there for that memory connects with the failure: rules 3, 4 and 5.

use std::collections::{BTreeMap, BTreeSet};

use super::Selection;
use crate::run::{Access, StatementId, ThreadIx, What};
use crate::sketch::Why;

impl Selection<'_> {
    /// Rule 3, for the first access of the predictor: it read what was true before, or ended it. What it only ended matters
    /// if it was the work of one of the threads: what others left there before these began is where everything starts.
    pub(super) fn what_was_true_before(&mut self, instance: &[usize]) {
        let thread = |&event: &usize| self.run.events.get(event).map(|event| event.thread);
        let threads: BTreeSet<ThreadIx> = instance.iter().filter_map(thread).collect();
        if let Some(&first) = instance.iter().min()
            && let Some((_, _, access)) = self.access(first)
            && let Some(write) = self.last_write(&access, first)
            && (access.kind.reads() || thread(&write).is_some_and(|writer| threads.contains(&writer)))
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
    pub(super) fn connections(&mut self, failing: Option<ThreadIx>) {
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

    /// Rule 3 where no other thread is to blame: what every read of the failing thread returned.
    pub(super) fn origins(&mut self, failing: Option<ThreadIx>) {
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
}

//! Hangs that need no time limit: every thread waits for another one.
//!
//! Nobody can go on if at one moment each thread waits, without a time limit, for a word of memory that only threads of the
//! process write, or for a child that is stuck as well. Threads are looked at one after the other, so a second look has to
//! find that none of them ran in between: then all of them waited at once. A thread that sleeps, has a time limit, or
//! waits for input proves nothing, and neither does a process whose timers may send it a signal that it handles.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::ids::{Pid, Tid};
use crate::process::{Process, Wait};

/// How long nothing may have happened before the threads are looked at, and between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// What a look found: what each thread waits for, and how long it has run.
pub(super) type Look = BTreeMap<(Pid, Tid), (Wait, Duration)>;

/// Looks whether a program can go on at all.
#[derive(Debug)]
pub(super) struct Stuck {
    next: Instant,
    last: Option<Look>,
}

impl Stuck {
    /// From now on.
    pub(super) fn new() -> Self {
        Self {
            next: Instant::now() + BETWEEN_LOOKS,
            last: None,
        }
    }

    /// A thread stopped: something happens.
    pub(super) fn moved(&mut self) {
        self.last = None;
        self.next = Instant::now() + BETWEEN_LOOKS;
    }

    /// Whether these threads wait for one another, and did when they were looked at before. `all_children` says that every
    /// child process is among them.
    pub(super) fn is_stuck(&mut self, threads: &[(Pid, Tid)], all_children: bool) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = now + BETWEEN_LOOKS;
        let found = look(threads);
        let same = found.is_some() && found == self.last;
        self.last = found;
        same && self
            .last
            .as_ref()
            .is_some_and(|look| is_closed(look, all_children))
    }
}

/// What all threads wait for; `None` if there is one that may go on by itself.
fn look(threads: &[(Pid, Tid)]) -> Option<Look> {
    let mut found = Look::new();
    for &(pid, tid) in threads {
        let process = Process::new(pid);
        // One that is over, of a process whose other threads are not.
        if process.thread_status(tid).is_ok_and(|status| status.is_over()) {
            continue;
        }
        found.insert((pid, tid), (process.wait_of(tid)?, process.run_time(tid)?));
    }
    (!found.is_empty()).then_some(found)
}

/// Whether nobody else can end what the threads wait for.
pub(super) fn is_closed(look: &Look, all_children: bool) -> bool {
    let waits_inside = |(&(pid, _), (wait, _)): (&(Pid, Tid), &(Wait, Duration))| match *wait {
        Wait::Futex { at, shared } => !shared || Process::new(pid).is_private(at),
        Wait::Child => all_children,
    };
    let processes: BTreeSet<Pid> = look.keys().map(|(pid, _)| *pid).collect();
    let has_others = |(pid, tid): &(Pid, Tid)| Process::new(*pid).has_children(*tid);
    look.iter().all(waits_inside)
        && !processes.iter().any(|pid| Process::new(*pid).may_be_signalled())
        && (all_children || !look.keys().any(has_others))
}

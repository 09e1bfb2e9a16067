//! Threads that will never go on, of a process that was there before us.
//!
//! Nobody is stopped to find out: what a thread waits for, and since when it has not run, the kernel tells. That all threads of a service
//! wait is no hang, for they may wait for work. There are three kinds of hangs that are:
//!
//! - a circle: each thread of some waits for a lock, or for the end of a thread, that another one of them has, whatever the others
//!   do;
//! - everybody: each thread waits for what only another one could do, and nobody can come from outside, not even a signal;
//! - too long: a thread waits longer than somebody said that it may for a lock that another thread has. Only if somebody did.
//!
//! Who has a lock is guessed here from the memory around it. Whether it is so, the stacks say ([`Blocked::is_borne_out`]): these are taken
//! by whoever may stop threads, of those threads alone, for the kernel begins their waits again without their noticing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use failure::report::{Report, Thread, Wanted};

use super::stuck::is_closed;
use crate::ids::{Pid, Tid};
use crate::process::{Memory, Process, ThreadState, Wait};

/// Between two looks. A thread has to be found twice at the same place.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Looks take at most one part in so many of the time.
const SHARE: u32 = 1000;

/// What was found.
#[derive(Debug)]
pub enum Progress {
    /// Nothing that speaks against its going on.
    GoesOn,
    /// It looks like a hang; the next look will tell.
    Doubtful,
    /// These threads do not go on.
    Stuck(Blocked),
}

/// Threads that do not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    threads: BTreeMap<Tid, Still>,
    why: Why,
}

/// A thread that waits: for what, and how long it had run when it began to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Still {
    wait: Wait,
    run_time: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Circle,
    Everybody,
    TooLong(Duration),
}

/// Looks whether a process gets on.
#[derive(Debug)]
pub struct Standstill {
    process: Process,
    /// How long a thread may wait for a lock.
    longest: Option<Duration>,
    next: Instant,
    doubtful: bool,
    /// The threads that waited at the last look, and since when.
    last: BTreeMap<Tid, (Still, Instant)>,
    /// What turned out to be something else.
    dismissed: Option<Blocked>,
}

impl Standstill {
    /// From now on.
    #[must_use]
    pub fn new(pid: Pid, longest: Option<Duration>) -> Self {
        Self {
            process: Process::new(pid),
            longest,
            next: Instant::now() + BETWEEN_LOOKS,
            doubtful: false,
            last: BTreeMap::new(),
            dismissed: None,
        }
    }

    /// Looks, if it is time to.
    pub fn look(&mut self) -> Option<Progress> {
        (Instant::now() >= self.next).then(|| self.look_now())
    }

    /// Looks at once, unless the last look left a doubt: then it takes time until there is a better answer.
    pub fn look_soon(&mut self) -> Progress {
        if self.doubtful {
            return self.look().unwrap_or(Progress::Doubtful);
        }
        self.look_now()
    }

    /// These threads were looked at, and it is no hang.
    pub fn dismiss(&mut self, blocked: Blocked) {
        self.dismissed = Some(blocked);
    }

    fn look_now(&mut self) -> Progress {
        let began = Instant::now();
        let progress = self.progress(began);
        self.doubtful = matches!(progress, Progress::Doubtful);
        self.next = Instant::now() + BETWEEN_LOOKS.max(began.elapsed() * SHARE);
        progress
    }

    fn progress(&mut self, now: Instant) -> Progress {
        let (waiting, all) = self.waiting();
        let before = std::mem::take(&mut self.last);
        let since = |tid: &Tid, still: &Still| {
            let known = before.get(tid).filter(|(before, _)| before == still);
            known.map(|&(_, since)| since)
        };
        let with_time = waiting.iter();
        self.last = with_time
            .map(|(tid, still)| (*tid, (*still, since(tid, still).unwrap_or(now))))
            .collect();
        let unmoved: BTreeMap<Tid, Still> = waiting
            .iter()
            .filter(|(tid, still)| since(tid, still).is_some())
            .map(|(tid, still)| (*tid, *still))
            .collect();
        let names = self.names(&all);
        let found = self
            .blocked(&unmoved, &all, &names)
            .or_else(|| self.too_long(now, &names));
        if let Some(found) = found.filter(|found| self.dismissed.as_ref() != Some(found)) {
            return Progress::Stuck(found);
        }
        match self.blocked(&waiting, &all, &names) {
            Some(found) if self.dismissed.as_ref() != Some(&found) => Progress::Doubtful,
            _ => Progress::GoesOn,
        }
    }

    /// The threads that wait, and all that are there.
    fn waiting(&self) -> (BTreeMap<Tid, Still>, BTreeSet<Tid>) {
        let all: BTreeSet<Tid> = self.process.threads().unwrap_or_default().into_iter().collect();
        let waiting = all.iter().filter_map(|&tid| {
            let wait = self.process.wait_of(tid)?;
            let run_time = self.process.run_time(tid)?;
            Some((tid, Still { wait, run_time }))
        });
        (waiting.collect(), all)
    }

    /// The threads by the numbers that their program knows them by: in a container these are others.
    fn names(&self, all: &BTreeSet<Tid>) -> BTreeMap<u32, Tid> {
        let nested = self.process.status();
        let is_nested = nested.is_ok_and(|status| status.namespaced.len() > 1);
        let name = |tid: Tid| {
            let status = is_nested.then(|| self.process.thread_status(tid).ok());
            status
                .flatten()
                .and_then(|status| status.namespaced.last().copied())
        };
        all.iter().map(|&tid| (name(tid).unwrap_or(tid.0), tid)).collect()
    }

    /// Those of the threads that wait for one another.
    fn blocked(
        &self,
        waiting: &BTreeMap<Tid, Still>,
        all: &BTreeSet<Tid>,
        names: &BTreeMap<u32, Tid>,
    ) -> Option<Blocked> {
        let holders = self.holders(waiting, names);
        let circle = circle(&holders);
        let (tids, why) = match circle.is_empty() {
            false => (circle, Why::Circle),
            true if self.is_everybody(waiting, all) => (waiting.keys().copied().collect(), Why::Everybody),
            true => return None,
        };
        let threads = waiting.iter().filter(|(tid, _)| tids.contains(tid));
        let threads = threads.map(|(tid, still)| (*tid, *still));
        self.asleep(threads.collect(), why)
    }

    fn is_everybody(&self, waiting: &BTreeMap<Tid, Still>, all: &BTreeSet<Tid>) -> bool {
        let goes_on = |tid: &&Tid| {
            let status = self.process.thread_status(**tid);
            !waiting.contains_key(tid) && !status.is_ok_and(|status| status.is_over())
        };
        let pid = self.process.pid();
        let look = waiting
            .iter()
            .map(|(tid, still)| ((pid, *tid), (still.wait, still.run_time)));
        !waiting.is_empty()
            && !all.iter().any(|tid| goes_on(&tid))
            && !self.process.handles_signals()
            && is_closed(&look.collect(), false)
    }

    /// A thread that has waited for a lock for too long, and whoever has it if that can be looked at.
    fn too_long(&self, now: Instant, names: &BTreeMap<u32, Tid>) -> Option<Blocked> {
        let longest = self.longest?;
        let late = self
            .last
            .iter()
            .filter(|(_, (_, since))| now.duration_since(*since) >= longest);
        let late: BTreeMap<Tid, Still> = late.map(|(tid, (still, _))| (*tid, *still)).collect();
        let holders = self.holders(&late, names);
        let mut threads = BTreeMap::new();
        for (tid, holders) in holders.iter().filter(|(_, holders)| !holders.is_empty()) {
            threads.extend(late.get_key_value(tid).map(|(tid, still)| (*tid, *still)));
            let known = holders
                .iter()
                .filter_map(|holder| self.last.get_key_value(holder));
            threads.extend(known.map(|(tid, (still, _))| (*tid, *still)));
        }
        self.asleep(threads, Why::TooLong(longest))
    }

    /// Who may have what each of the threads waits for.
    fn holders(
        &self,
        waiting: &BTreeMap<Tid, Still>,
        names: &BTreeMap<u32, Tid>,
    ) -> BTreeMap<Tid, BTreeSet<Tid>> {
        let memory = Memory::of(self.process.pid());
        let holders = |still: &Still| match still.wait {
            Wait::Futex { at, .. } => Wait::may_have(&memory, at)
                .into_iter()
                .filter_map(|name| names.get(&name).copied())
                .collect(),
            Wait::Child => BTreeSet::new(),
        };
        waiting
            .iter()
            .map(|(tid, still)| (*tid, holders(still)))
            .collect()
    }

    /// A thread that job control has stopped may have got what it waited for.
    fn asleep(&self, threads: BTreeMap<Tid, Still>, why: Why) -> Option<Blocked> {
        let sleeps = |tid: &Tid| {
            let status = self.process.thread_status(*tid);
            status.is_ok_and(|status| status.state == ThreadState::Sleeping)
        };
        (!threads.is_empty() && threads.keys().all(sleeps)).then_some(Blocked { threads, why })
    }
}

impl Blocked {
    pub(super) fn threads(&self) -> impl Iterator<Item = Tid> {
        self.threads.keys().copied()
    }

    /// Whether they have been where they were found all the time.
    pub(super) fn is_unmoved(&self, process: Process) -> bool {
        self.threads.iter().all(|(&tid, still)| {
            process.run_time(tid) == Some(still.run_time) && process.wait_of(tid) == Some(still.wait)
        })
    }

    /// Whether their stacks say the same.
    pub(super) fn is_borne_out(&self, report: &Report) -> bool {
        let id = |thread: &Thread| Some(Tid(u32::try_from(thread.id?).ok()?));
        let wants = |thread: &Thread| {
            let name = match thread.wants? {
                Wanted::Lock { holder, .. } => holder?,
                Wanted::End { of } => of,
                Wanted::Word { .. } => return None,
            };
            Some(Tid(u32::try_from(name).ok()?))
        };
        let holders = report.threads.iter().filter_map(|thread| {
            let holders = wants(thread).into_iter().collect();
            Some((id(thread)?, holders))
        });
        let holders: BTreeMap<Tid, BTreeSet<Tid>> = holders.collect();
        match self.why {
            Why::Circle => !circle(&holders).is_empty(),
            Why::Everybody => holders.len() == self.threads.len(),
            Why::TooLong(_) => {
                let locks = report.threads.iter();
                let mut locks = locks.filter(|thread| matches!(thread.wants, Some(Wanted::Lock { .. })));
                locks.any(|thread| wants(thread).is_some())
            }
        }
    }

    /// What it is, in words.
    pub(super) fn why(&self) -> String {
        match self.why {
            Why::Circle => "some threads cannot go on: each waits for what another of them has; only these \
                            were looked at"
                .to_owned(),
            Why::Everybody => "no thread can go on: each waits for what only another could do".to_owned(),
            Why::TooLong(longest) => format!(
                "a thread has waited for a lock for more than {} s; only it and whoever has the lock were \
                 looked at",
                longest.as_secs_f64()
            ),
        }
    }
}

/// Those that never get what they wait for: somebody has it who is one of them. Whoever waits for nobody, or for
/// somebody who gets on, is taken away until nobody is.
fn circle(holders: &BTreeMap<Tid, BTreeSet<Tid>>) -> BTreeSet<Tid> {
    let mut left: BTreeSet<Tid> = holders.keys().copied().collect();
    loop {
        let stays = |tid: &Tid| holders.get(tid).is_some_and(|of| !of.is_disjoint(&left));
        let next: BTreeSet<Tid> = left.iter().copied().filter(stays).collect();
        if next.len() == left.len() {
            return left;
        }
        left = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle_of(waits: &[(u32, &[u32])]) -> Vec<u32> {
        let holders = waits
            .iter()
            .map(|(tid, holders)| (Tid(*tid), holders.iter().map(|tid| Tid(*tid)).collect()));
        circle(&holders.collect()).into_iter().map(|tid| tid.0).collect()
    }

    #[test]
    fn only_those_are_stuck_who_wait_for_one_another() {
        assert_eq!(circle_of(&[]), [0; 0]);
        assert_eq!(circle_of(&[(1, &[2]), (2, &[1]), (3, &[]), (4, &[3])]), [1, 2]);
        assert_eq!(circle_of(&[(1, &[1])]), [1], "a lock that its holder wants again");
        assert_eq!(
            circle_of(&[(1, &[2]), (2, &[1]), (3, &[2])]),
            [1, 2, 3],
            "behind it"
        );
        assert_eq!(circle_of(&[(1, &[2]), (2, &[3]), (3, &[4])]), [0; 0], "4 gets on");
    }
}

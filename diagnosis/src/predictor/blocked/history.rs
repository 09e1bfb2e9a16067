//! What happened to one lock, and who has it therefore.

use std::collections::BTreeSet;

use super::super::accesses::Touch;
use super::wanted;
use crate::run::{Run, StatementId, ThreadIx, Wanted};

/// What happened to a lock.
pub(super) struct History<'r> {
    pub(super) run: &'r Run,
    pub(super) addr: u64,
    pub(super) list: &'r [Touch],
}

impl History<'_> {
    /// A thread's last access to it.
    pub(super) fn last(&self, thread: ThreadIx) -> Option<&Touch> {
        self.list.iter().rfind(|touch| touch.thread == thread)
    }

    /// Where the thread that holds the lock got it: `waiter` wants it at `wants`, and may be the same.
    pub(super) fn got(&self, holder: ThreadIx, waiter: ThreadIx, wants: StatementId) -> Option<&Touch> {
        let own = |touch: &&Touch| touch.thread == holder && touch.kind.writes();
        let taking = |touch: &&Touch| own(touch) && takes(touch);
        let waiting = |touch: &Touch| holder == waiter && touch.statement == wants;
        let last = || self.list.iter().rfind(|touch| own(touch) && !waiting(touch));
        self.list.iter().rfind(taking).or_else(last)
    }

    /// Where a lock that does not say who holds it was taken by whoever does: the waiting thread itself, if it has not undone what it
    /// did to the lock before, or else whoever has not. Where that does not tell, who does not wait for it and wrote to it
    /// last has it: several may, to read. Where nobody has since it was found free, it is the one that found it so, though he may
    /// wait for it once more.
    pub(super) fn taken(&self, waiter: ThreadIx) -> Option<&Touch> {
        let threads: BTreeSet<ThreadIx> = self.list.iter().map(|touch| touch.thread).collect();
        let held = |&thread: &ThreadIx| self.not_undone(thread);
        let others = threads.iter().filter(|thread| **thread != waiter);
        self.not_undone(waiter)
            .or_else(|| others.filter_map(held).max_by_key(|touch| touch.event))
            .or_else(|| self.written_last(waiter))
    }

    /// What a thread did to a lock and has not undone. Taking a lock makes its word larger, be it by a bit or by one more reader, and giving
    /// it back makes it as much smaller, or nearly: glibc leaves a bit behind, by which readers and writers take turns. How a thread
    /// waits may show in the word as well, and is not what it has.
    fn not_undone(&self, thread: ThreadIx) -> Option<&Touch> {
        let mut open: Vec<(&Touch, u64)> = Vec::new();
        for touch in self.list.iter().filter(|touch| touch.thread == thread) {
            let (true, Some(before), Some(after)) = (touch.kind.writes(), touch.before, touch.value) else {
                continue;
            };
            if after > before {
                open.push((touch, after - before));
            }
            // Taking one may be several steps, and giving it back one.
            let mut undone = before.saturating_sub(after);
            while let Some((_, by)) = open
                .last()
                .filter(|(_, by)| undone > 0 && undone >= by.div_ceil(2))
            {
                undone = undone.saturating_sub(*by);
                open.pop();
            }
        }
        let wants = super::stack(self.run, thread).first();
        if self.waits(thread)
            && open
                .last()
                .is_some_and(|(touch, _)| Some(&touch.statement) == wants)
        {
            open.pop();
        }
        open.last().map(|(touch, _)| *touch)
    }

    fn waits(&self, thread: ThreadIx) -> bool {
        let same = |wanted| matches!(wanted, Wanted::Lock { addr, .. } if addr == self.addr);
        wanted(self.run, thread).is_some_and(same)
    }

    fn written_last(&self, waiter: ThreadIx) -> Option<&Touch> {
        let writes = || self.list.iter().filter(|touch| touch.kind.writes());
        let waits = |thread: ThreadIx| thread == waiter || self.waits(thread);
        let found_free = writes().rfind(|touch| takes(touch));
        let others = writes().rfind(|touch| !waits(touch.thread));
        let took = match (found_free, others) {
            (Some(free), Some(other)) if other.event < free.event => free,
            (_, Some(other)) => other,
            (free, None) => free?,
        };
        let mut later = writes().filter(|touch| touch.event >= took.event);
        let given_back = took
            .value
            .zip(took.before)
            .is_some_and(|(after, before)| after < before);
        (!given_back && !later.any(|touch| touch.value == Some(0))).then_some(took)
    }
}

/// Whether an access found a lock free and left it taken.
fn takes(touch: &Touch) -> bool {
    touch.kind.writes() && touch.before == Some(0) && touch.value.is_some_and(|value| value != 0)
}

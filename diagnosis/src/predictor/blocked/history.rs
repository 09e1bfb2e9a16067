//! What happened to one lock, and who has it therefore.

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

    /// Where a lock that does not say who holds it was taken by whoever does. Who does not wait for it and wrote to it last has it:
    /// several may, to read. Where nobody has since it was found free, it is the one that found it so, though he may
    /// wait for it once more.
    pub(super) fn taken(&self, waiter: ThreadIx) -> Option<&Touch> {
        let writes = || self.list.iter().filter(|touch| touch.kind.writes());
        let waits = |thread: ThreadIx| {
            let same = |wanted| matches!(wanted, Wanted::Lock { addr, .. } if addr == self.addr);
            thread == waiter || wanted(self.run, thread).is_some_and(same)
        };
        let found_free = writes().rfind(|touch| takes(touch));
        let others = writes().rfind(|touch| !waits(touch.thread));
        let took = match (found_free, others) {
            (Some(free), Some(other)) if other.event < free.event => free,
            (_, Some(other)) => other,
            (free, None) => free?,
        };
        let mut later = writes().filter(|touch| touch.event >= took.event);
        (!later.any(|touch| touch.value == Some(0))).then_some(took)
    }
}

/// Whether an access found a lock free and left it taken.
fn takes(touch: &Touch) -> bool {
    touch.kind.writes() && touch.before == Some(0) && touch.value.is_some_and(|value| value != 0)
}

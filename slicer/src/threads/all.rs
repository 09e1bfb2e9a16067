//! Examining every creating call of a program, in parallel: each takes debug information of its own.

use std::sync::atomic::{AtomicUsize, Ordering};

use program::{Pc, Program};

use super::model::{Creating, CreationSite, ThreadModel};
use super::names::CreationKind;

/// Neighbours are often in one unit of debug information.
const BATCH: usize = 4;

/// What every call creates, in no particular order.
pub(super) fn examine(model: &ThreadModel<'_, '_>, calls: &[Creating]) -> Vec<CreationSite> {
    let program = model.look.program;
    if calls.is_empty() {
        return Vec::new();
    }
    let own = program.modules().filter(|(_, module)| !module.is_library());
    own.for_each(|(_, module)| module.code().expect_many());
    let calls: Vec<(Pc, CreationKind)> = calls.iter().map(|call| (call.call, call.kind)).collect();
    let queue = Queue {
        calls: &calls,
        next: AtomicUsize::new(0),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let others = threads.min(calls.len().div_ceil(BATCH)).saturating_sub(1);
    // Threads of their own rather than a pool's: what they ask for is itself found by the pool, and a worker
    // that waits for that must not begin another call meanwhile, which may need what it is just working out.
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..others)
            .map(|_| scope.spawn(|| queue.work_for(program)))
            .collect();
        let mut sites = queue.work(model);
        for other in others {
            match other.join() {
                Ok(found) => sites.extend(found),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        sites
    })
}

struct Queue<'c> {
    calls: &'c [(Pc, CreationKind)],
    next: AtomicUsize,
}

impl Queue<'_> {
    fn work_for(&self, program: &Program<'_>) -> Vec<CreationSite> {
        self.work(&ThreadModel::new(program))
    }

    fn work(&self, model: &ThreadModel<'_, '_>) -> Vec<CreationSite> {
        let mut sites = Vec::new();
        loop {
            let from = self.next.fetch_add(BATCH, Ordering::Relaxed);
            let Some(calls) = self.calls.get(from..).filter(|calls| !calls.is_empty()) else {
                return sites;
            };
            for &(call, kind) in calls.iter().take(BATCH) {
                sites.extend(model.examine(call, kind, &|id| model.look.program.callers_of(id)));
            }
        }
    }
}

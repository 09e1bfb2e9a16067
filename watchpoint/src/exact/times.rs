//! When the accesses happened whose stops are taken: the events that stop leave a sample too, made inside the exception.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tracee::Tid;
use tracee::perf::{Record, Rings};

/// Room for the samples of more threads than are mostly on the way to a stop, for each processor. Whoever finds none has
/// no time, and stops all the same.
const RING_BYTES: usize = 1 << 17;

/// The times of the accesses on whose stops nobody has looked yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    rings: Option<Rings>,
    /// The last access of each thread.
    last: BTreeMap<Tid, u64>,
}

impl Times {
    /// Has times noted, if the kernel has memory for it.
    pub(crate) fn noted() -> Self {
        Self(Arc::new(Mutex::new(Noted {
            rings: Rings::open(RING_BYTES).ok(),
            last: BTreeMap::new(),
        })))
    }

    /// Does something that needs what the times are written to, if there is any.
    pub(super) fn with<T>(&self, act: impl FnOnce(Option<&Rings>) -> T) -> T {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(noted.rings.as_ref())
    }

    /// When a thread that has stopped made its access.
    pub(super) fn of(&self, tid: Tid) -> Option<u64> {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Noted { rings, last } = &mut *noted;
        // The sample was written before its thread could stop.
        for stamped in rings.as_mut()?.read_to_end() {
            if matches!(stamped.record, Record::Sample(_)) {
                last.insert(stamped.origin.tid, stamped.origin.time);
            }
        }
        last.remove(&tid)
    }

    /// A thread is gone.
    pub(super) fn forget(&self, tid: Tid) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.last.remove(&tid);
    }
}

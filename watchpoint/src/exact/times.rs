//! When the accesses happened whose stops are taken, where the kernel lets a program note it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tracee::Tid;
use tracee::bpf::{HitProgram, Moments};

/// The times of the accesses on whose stops nobody has looked yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    moments: Option<Moments>,
    /// The last access of each thread.
    last: BTreeMap<Tid, u64>,
}

impl Times {
    /// Has times noted, if that is permitted.
    pub(crate) fn noted() -> Self {
        Self(Arc::new(Mutex::new(Noted {
            moments: Moments::new().ok(),
            last: BTreeMap::new(),
        })))
    }

    /// Does something that needs what notes the times, if there is any.
    pub(super) fn with<T>(&self, act: impl FnOnce(Option<&HitProgram>) -> T) -> T {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(noted.moments.as_ref().map(Moments::program))
    }

    /// When a thread that has stopped made its access.
    pub(super) fn of(&self, tid: Tid) -> Option<u64> {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Noted { moments, last } = &mut *noted;
        moments.as_mut()?.read(|moment| {
            last.insert(moment.tid, moment.time_ns);
        });
        last.remove(&tid)
    }

    /// A thread is gone.
    pub(super) fn forget(&self, tid: Tid) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.last.remove(&tid);
    }
}

//! Waits for the failure of a process, in a thread of its own: tracing belongs to the thread that attached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use failure::image::Limits;
use tracee::Pid;
use tracee::ptrace::TraceError;
use tracee::run::{Guard, Look, Seen};

use super::Agent;

/// How long a guard may be deaf to its being called off.
const ATTENTION: Duration = Duration::from_millis(50);
/// How long leaving may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A guard at work. Dropping it has the process left alone.
pub(super) struct Watch<'scope> {
    pub(super) seen: Receiver<Seen>,
    shared: Arc<Shared>,
    thread: Option<ScopedJoinHandle<'scope, ()>>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    stops: AtomicU64,
}

impl<'scope> Watch<'scope> {
    /// Attaches to a process.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        agent: &'env Agent,
        pid: Pid,
    ) -> Result<Self, TraceError> {
        let shared = Arc::new(Shared::default());
        let (tell, seen) = mpsc::channel();
        let (attached, begun) = mpsc::channel();
        let theirs = Arc::clone(&shared);
        let thread = scope.spawn(move || match Guard::attach(pid) {
            Ok(guard) => {
                let _waits = attached.send(Ok(()));
                keep(agent, pid, guard, &theirs, &tell);
            }
            Err(error) => {
                let _waits = attached.send(Err(error));
            }
        });
        match begun.recv() {
            Ok(Err(error)) => Err(error),
            _ => Ok(Self {
                seen,
                shared,
                thread: Some(thread),
            }),
        }
    }

    /// How often threads were stopped so far.
    pub(super) fn stops(&self) -> u64 {
        self.shared.stops.load(Ordering::Relaxed)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // With the end of its thread the process is free.
            let _panicked = thread.join();
        }
    }
}

fn keep(agent: &Agent, pid: Pid, mut guard: Guard, shared: &Shared, tell: &Sender<Seen>) {
    let look = Look {
        fail_on: &agent.config.fail_on,
        modules: &agent.modules,
        limits: Limits::default(),
    };
    while !shared.over.load(Ordering::Acquire) {
        let seen = guard.wait(ATTENTION, &look);
        shared.stops.store(guard.stops(), Ordering::Relaxed);
        match seen {
            Ok(None) => (),
            Ok(Some(seen)) => {
                let ended = matches!(seen, Seen::Ended(_));
                if tell.send(seen).is_err() || ended {
                    break;
                }
            }
            Err(error) => {
                let error = crate::causes(&error);
                tracing::warn!(%pid, error, "its failures are not seen any more");
                break;
            }
        }
    }
    if let Err(error) = guard.leave(PATIENCE) {
        let error = crate::causes(&error);
        tracing::error!(%pid, error, "it could not be left as it was found");
    }
}

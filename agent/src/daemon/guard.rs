//! Waits for the failure of a process, in a thread of its own: tracing belongs to the thread that attached.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use failure::image::Limits;
use tracee::Pid;
use tracee::ptrace::TraceError;
use tracee::run::{Blocked, Guard, Look, Seen};

use super::Agent;

/// How long a guard may be deaf to its being called off.
const ATTENTION: Duration = Duration::from_millis(50);
/// How long leaving may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a guard has to say.
pub(super) enum Word {
    /// Something happened.
    Seen(Seen),
    /// It was asked to look at threads that do not go on, and they do.
    GoOn(Blocked),
}

/// A guard at work. Dropping it has the process left alone.
pub(super) struct Watch<'scope> {
    pub(super) words: Receiver<Word>,
    shared: Arc<Shared>,
    thread: Option<ScopedJoinHandle<'scope, ()>>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    stops: AtomicU64,
    /// Threads to be looked at.
    question: Mutex<Option<Blocked>>,
}

impl<'scope> Watch<'scope> {
    /// Attaches to a process.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        agent: &'env Agent,
        pid: Pid,
    ) -> Result<Self, TraceError> {
        let shared = Arc::new(Shared::default());
        let (tell, words) = mpsc::channel();
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
                words,
                shared,
                thread: Some(thread),
            }),
        }
    }

    /// Has threads looked at that do not go on.
    pub(super) fn ask(&self, blocked: Blocked) {
        *self.shared.question() = Some(blocked);
    }

    /// How often threads were stopped so far.
    pub(super) fn stops(&self) -> u64 {
        self.shared.stops.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn question(&self) -> std::sync::MutexGuard<'_, Option<Blocked>> {
        self.question.lock().unwrap_or_else(PoisonError::into_inner)
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

fn keep(agent: &Agent, pid: Pid, mut guard: Guard, shared: &Shared, tell: &Sender<Word>) {
    let look = Look {
        fail_on: &agent.config.fail_on,
        modules: &agent.modules,
        limits: Limits::default(),
    };
    while !shared.over.load(Ordering::Acquire) {
        let question = shared.question().take();
        let word = match question {
            None => guard.wait(ATTENTION, &look).map(|seen| seen.map(Word::Seen)),
            Some(blocked) => guard.look_at(&blocked, &look).map(|report| {
                let failed = |report| Word::Seen(Seen::Failed(Box::new(report)));
                Some(report.map_or(Word::GoOn(blocked), failed))
            }),
        };
        shared.stops.store(guard.stops(), Ordering::Relaxed);
        match word {
            Ok(None) => (),
            Ok(Some(word)) => {
                let ended = matches!(word, Word::Seen(Seen::Ended(_)));
                if tell.send(word).is_err() || ended {
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

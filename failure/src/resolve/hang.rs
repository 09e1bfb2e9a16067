//! Who hangs: what each thread waits for.

use super::ResolvedThread;
use crate::frames::RuntimeRole;

/// What a thread is doing while the program does not get on, the most telling first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waiting {
    /// For a lock that somebody holds.
    Lock,
    /// For nothing: it runs, perhaps round and round.
    Running,
    /// For somebody to signal: a condition, a semaphore, a future.
    Signal,
    /// For another thread's end: that one is to blame, not this.
    Join,
    /// For input, time or something else outside the program.
    Outside,
}

/// What a thread waits for, by the functions between its own innermost frame and the kernel.
#[must_use]
pub fn waiting(thread: &ResolvedThread) -> Waiting {
    let library = thread.frames.iter().take_while(|frame| !frame.own);
    let mut waits = false;
    let mut names: Vec<String> = Vec::new();
    for frame in library {
        waits |= frame.role == Some(RuntimeRole::Wait);
        names.extend(
            frame
                .sources
                .iter()
                .filter_map(|source| source.function.as_deref())
                .map(str::to_lowercase),
        );
    }
    let any = |parts: &[&str]| {
        names
            .iter()
            .any(|name| parts.iter().any(|part| name.contains(part)))
    };
    // `clock_nanosleep` and `pthread_clockjoin` are no locks.
    let lock = names
        .iter()
        .any(|name| name.replace("clock", "").contains("lock"));
    if any(&["join"]) {
        Waiting::Join
    } else if any(&["cond", "sem_", "future", "barrier", "condvar", "park"]) {
        Waiting::Signal
    } else if lock {
        Waiting::Lock
    } else if waits {
        Waiting::Outside
    } else {
        Waiting::Running
    }
}

/// The thread to look at first: one that waits for a lock before one that waits for it.
pub(super) fn most_telling(threads: &[ResolvedThread]) -> usize {
    let own = threads
        .iter()
        .enumerate()
        .filter(|(_, thread)| thread.frames.iter().any(|frame| frame.own));
    own.min_by_key(|(index, thread)| (waiting(thread), *index))
        .map_or(0, |(index, _)| index)
}

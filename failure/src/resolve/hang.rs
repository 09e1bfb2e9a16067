//! Who hangs: what each thread waits for.

use super::ResolvedThread;
use crate::frames::RuntimeRole;

/// What a thread is doing while the program does not get on, the most telling first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waiting {
    /// For a lock that somebody holds.
    Lock,
    /// For nothing: it runs, perhaps round and round. A `main` that rests in between does, too: it keeps the program from ending.
    Running,
    /// For somebody to signal: a condition, a semaphore, a future.
    Signal,
    /// For time to pass, before it looks again. Many a thread is meant to do that for ever, beside those that hang.
    Sleeping,
    /// For another thread's end: that one is to blame, not this.
    Join,
    /// For input or something else outside the program.
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
    } else if any(&["sched_yield", "thrd_yield", "yield_now"]) {
        Waiting::Running
    } else if any(&["sleep"]) {
        match is_first(thread) {
            true => Waiting::Running,
            false => Waiting::Sleeping,
        }
    } else if waits {
        Waiting::Outside
    } else {
        Waiting::Running
    }
}

/// Whether a thread is the one that runs `main`.
fn is_first(thread: &ResolvedThread) -> bool {
    let sources = thread.frames.iter().flat_map(|frame| &frame.sources);
    let mut functions = sources.filter_map(|source| source.function.as_deref());
    functions.any(|function| function.starts_with("__libc_start_") || function == "main")
}

/// The thread to look at first: one that waits for a lock before one that waits for it, and of those that wait for the same kind of thing one
/// whose end another one waits for (`awaited`): services wait for ever, and nobody minds.
pub(super) fn most_telling(threads: &[ResolvedThread], awaited: &[u64]) -> usize {
    let own = threads
        .iter()
        .enumerate()
        .filter(|(_, thread)| thread.frames.iter().any(|frame| frame.own));
    let is_awaited = |thread: &ResolvedThread| thread.id.is_some_and(|id| awaited.contains(&id));
    own.min_by_key(|(index, thread)| (waiting(thread), !is_awaited(thread), *index))
        .map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{FrameOrigin, Position};
    use crate::resolve::ResolvedFrame;
    use program::source::SourceFrame;

    fn frame(function: &str, own: bool) -> ResolvedFrame {
        let source = SourceFrame {
            function: Some(function.into()),
            ..SourceFrame::default()
        };
        ResolvedFrame {
            pc: None,
            position: Position::Return,
            line_only: false,
            sources: vec![source],
            module: None,
            address: None,
            role: (!own).then_some(RuntimeRole::Wait),
            own,
            origin: FrameOrigin::Cfi,
        }
    }

    /// A thread in library functions that the program's `function` called, in a thread or in `main`.
    fn thread(library: &[&str], function: &str, start: &str) -> ResolvedThread {
        let inner = library.iter().map(|name| frame(name, false));
        ResolvedThread {
            id: None,
            name: None,
            frames: inner
                .chain([frame(function, true), frame(start, false)])
                .collect(),
        }
    }

    #[test]
    fn what_a_thread_waits_for_shows_in_the_calls() {
        for (library, start, expected) in [
            (
                &["__lll_lock_wait", "pthread_mutex_lock"][..],
                "start_thread",
                Waiting::Lock,
            ),
            (
                &["futex_wait", "pthread_cond_wait"],
                "start_thread",
                Waiting::Signal,
            ),
            (&["__pthread_clockjoin_ex"], "__libc_start_main", Waiting::Join),
            (&["clock_nanosleep", "usleep"], "start_thread", Waiting::Sleeping),
            (
                &["clock_nanosleep", "usleep"],
                "__libc_start_main",
                Waiting::Running,
            ),
            (&["sched_yield"], "start_thread", Waiting::Running),
            (&[], "start_thread", Waiting::Running),
            (&["read"], "start_thread", Waiting::Outside),
        ] {
            assert_eq!(
                waiting(&thread(library, "own", start)),
                expected,
                "{library:?}, {start}"
            );
        }
    }

    #[test]
    fn whoever_polls_is_to_blame_and_not_who_waits_for_him() {
        let join = || thread(&["pthread_join"], "main", "__libc_start_main");
        let poll = || thread(&["nanosleep"], "poll", "start_thread");
        let wait = || thread(&["pthread_cond_wait"], "get", "start_thread");
        assert_eq!(most_telling(&[join(), poll()], &[]), 1);
        // One that only looks after something now and then is not.
        assert_eq!(most_telling(&[join(), poll(), wait()], &[]), 2);
        let polling = thread(&["nanosleep"], "main", "__libc_start_main");
        let service = |id| ResolvedThread {
            id: Some(id),
            ..wait()
        };
        assert_eq!(most_telling(&[join(), service(7), service(8)], &[8]), 2);
        assert_eq!(most_telling(&[wait(), polling], &[]), 1);
    }
}

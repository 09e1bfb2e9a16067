//! Where threads that hang may have taken what others of them wait for.
//!
//! Who waits for a lock is in a library function that takes locks. Whoever has what he wants, and waits himself, has mostly taken it in
//! a function that it is still in: by a call that leads to such a library function, too. Which lock a call takes only a run can
//! tell; which calls to look at, the code does.

use std::collections::{BTreeMap, BTreeSet};

use failure::resolve::{Waiting, waiting};
use failure::{Failure, ResolvedThread};
use program::code::Target;
use program::{FunctionRef, Module, Pc, Program};

use crate::dependence::summary::Summary;

/// Library functions inside one another: `Mutex::lock` is four of them deep.
const DEEPEST: usize = 6;

/// The calls by which the program's functions on the stacks of threads that wait for locks may take some, in address order.
#[must_use]
pub fn taking(program: &Program<'_>, failure: &Failure) -> BTreeSet<Pc> {
    let blocked = || {
        let threads = failure.threads.iter();
        threads.filter(|thread| waiting(thread) == Waiting::Lock)
    };
    let mut search = Search {
        program,
        names: blocked().flat_map(names_waited_in).collect(),
        known: blocked().flat_map(|thread| waited_in(program, thread)).collect(),
    };
    let frames = blocked().flat_map(|thread| thread.frames.iter().filter(|frame| frame.own));
    let own: BTreeSet<FunctionRef> = frames
        .filter_map(|frame| program.function_at(frame.executing()?))
        .collect();
    own.into_iter()
        .flat_map(|function| search.calls(function))
        .collect()
}

/// The library functions that a thread waits in.
fn waited_in(program: &Program<'_>, thread: &ResolvedThread) -> Vec<(FunctionRef, bool)> {
    let frames = thread.frames.iter().take_while(|frame| !frame.own);
    let locking = frames.filter(|frame| {
        let mut names = frame
            .sources
            .iter()
            .filter_map(|source| source.function.as_deref());
        names.any(is_locking)
    });
    locking
        .filter_map(|frame| Some((program.function_at(frame.executing()?)?, true)))
        .collect()
}

fn names_waited_in(thread: &ResolvedThread) -> Vec<String> {
    let frames = thread.frames.iter().take_while(|frame| !frame.own);
    let sources = frames.flat_map(|frame| &frame.sources);
    let names = sources.filter_map(|source| source.function.as_deref());
    names.filter(|name| is_locking(name)).map(plain).collect()
}

fn is_locking(name: &str) -> bool {
    let name = name.to_lowercase().replace("clock", "");
    name.contains("lock") && !name.contains("unlock")
}

/// A function of the C library has several names.
fn plain(name: &str) -> String {
    name.trim_start_matches('_').to_owned()
}

struct Search<'p, 'a> {
    program: &'p Program<'a>,
    /// Functions of other files that threads wait in.
    names: BTreeSet<String>,
    /// Whether a library function takes a lock.
    known: BTreeMap<FunctionRef, bool>,
}

impl Search<'_, '_> {
    fn calls(&mut self, function: FunctionRef) -> Vec<Pc> {
        let Some(module) = self.program.module(function.module) else {
            return Vec::new();
        };
        let flow = module.code().flow(function.function);
        let calls = flow.calls().filter_map(|(ix, target, _)| {
            let addr = flow.addr(ix)?;
            self.takes(module, function, target, DEEPEST).then_some(Pc {
                module: function.module,
                addr,
            })
        });
        calls.collect()
    }

    fn takes(&mut self, module: &Module<'_>, from: FunctionRef, target: Target, depth: usize) -> bool {
        match target {
            Target::Import(import) => module.elf().import_name(import).is_some_and(|name| {
                self.names.contains(&plain(name)) || Summary::of(name).locks && is_locking(name)
            }),
            Target::Function(function) => {
                let module = from.module;
                self.function_takes(FunctionRef { module, function }, depth)
            }
            Target::Unknown(_) | Target::Indirect => false,
        }
    }

    fn function_takes(&mut self, function: FunctionRef, depth: usize) -> bool {
        if let Some(&known) = self.known.get(&function) {
            return known;
        }
        let Some((module, depth)) = self.program.module(function.module).zip(depth.checked_sub(1)) else {
            return false;
        };
        // One that calls itself does not take more by that; the program's own functions have calls of their own.
        self.known.insert(function, false);
        if self.program.is_own(function) {
            return false;
        }
        let flow = module.code().flow(function.function);
        let mut calls = flow.calls();
        let takes = calls.any(|(_, target, _)| self.takes(module, function, target, depth));
        self.known.insert(function, takes);
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_told_by_the_names_of_what_takes_them() {
        for name in [
            "pthread_mutex_lock",
            "std::sys::sync::rwlock::futex::RwLock::read_contended",
            "__lll_lock_wait",
        ] {
            assert!(is_locking(name), "{name}");
        }
        for name in ["pthread_mutex_unlock", "clock_nanosleep", "pthread_cond_wait"] {
            assert!(!is_locking(name), "{name}");
        }
        assert_eq!(plain("___pthread_mutex_lock"), "pthread_mutex_lock");
    }
}

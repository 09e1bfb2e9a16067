//! All functions of a file at once.
//!
//! Asked one by one, a function is read again for every depth at which somebody comes upon it. Level by level,
//! each is read once: what calls are on its way to a return is kept, and it is read again only when one of them
//! turns out not to come back.

use std::sync::atomic::{AtomicU8, Ordering};

use rayon::prelude::*;

use super::super::context::{CALLEE_DEPTH, Context};
use super::super::functions::{FunctionId, Functions};
use super::{NoReturn, names, search};

/// Functions that one thread takes at a time.
const BATCH: usize = 256;

/// A call that a function has to come back from before it can return.
struct Passed {
    callee: FunctionId,
    caller: FunctionId,
}

impl NoReturn {
    /// Finds out about every function.
    pub(in super::super) fn settle(&self, context: Context<'_, '_>) {
        if self.settled.load(Ordering::Relaxed) {
            return;
        }
        let functions = context.functions;
        let all: Vec<FunctionId> = functions.ids().collect();
        // What was found out one by one is found out again, with the same result.
        self.all
            .get_or_init(|| all.iter().map(|_| AtomicU8::new(0)).collect());
        let named = |id: &FunctionId| {
            let function = context.functions.get(*id);
            function.is_some_and(|function| function.symbol.is_some_and(names::is_known))
        };
        all.par_iter()
            .with_min_len(BATCH)
            .filter(|id| named(id))
            .for_each(|id| self.note(functions, *id, 0, true));
        let mut passed: Vec<Vec<Passed>> = Vec::new();
        let mut next = all.clone();
        for depth in 1..=CALLEE_DEPTH {
            let (never, calls) = self.read(context, &next, depth);
            if never.is_empty() {
                break;
            }
            passed.extend(calls);
            never.iter().for_each(|id| self.note(functions, *id, depth, true));
            next = self.waiting_for(functions, &passed, depth);
        }
        for id in all {
            if self.known(functions, id).at(CALLEE_DEPTH).is_none() {
                self.note(functions, id, CALLEE_DEPTH, false);
            }
        }
        // Whoever reads this before the answers finds them out again, with the same result.
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Reads functions, knowing which never return at the depth before this one. Gives those that have no way
    /// out, and the calls on the ways out of the others.
    fn read(
        &self,
        context: Context<'_, '_>,
        functions: &[FunctionId],
        depth: u8,
    ) -> (Vec<FunctionId>, Vec<Vec<Passed>>) {
        let batches = functions.par_chunks(BATCH).map(|batch| {
            let (mut never, mut passed) = (Vec::new(), Vec::new());
            for &caller in batch {
                if self.known(context.functions, caller).at(depth) == Some(true) {
                    continue;
                }
                let before = passed.len();
                let has_no_way_out = search::has_no_way_out(context, caller, |callee| {
                    let never = self.known(context.functions, callee).at(depth - 1) == Some(true);
                    if !never {
                        passed.push(Passed { callee, caller });
                    }
                    never
                });
                if has_no_way_out {
                    passed.truncate(before);
                    never.push(caller);
                }
            }
            (never, passed)
        });
        let (never, passed): (Vec<_>, Vec<_>) = batches.unzip();
        (never.into_iter().flatten().collect(), passed)
    }

    /// The functions whose way out leads past a call that, as of this depth, does not come back.
    fn waiting_for(&self, functions: &Functions<'_>, passed: &[Vec<Passed>], depth: u8) -> Vec<FunctionId> {
        let calls = passed.par_iter().flatten_iter();
        let stuck = calls.filter(|call| self.known(functions, call.callee).at(depth) == Some(true));
        let mut callers: Vec<FunctionId> = stuck.map(|call| call.caller).collect();
        callers.sort_unstable();
        callers.dedup();
        callers
    }
}

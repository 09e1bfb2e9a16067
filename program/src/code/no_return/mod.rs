//! Calls that do not come back.
//!
//! Known by name (`names`), or because no path of the function leads to a return (`search`). Callees are
//! looked into a fixed number of levels deep, so the answer for a function does not depend on who asked first.
//! One function is asked for callee by callee; `settle` answers for all functions of a file at once.

mod names;
mod search;
mod settle;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use super::context::{CALLEE_DEPTH, Context};
use super::functions::{FunctionId, Functions};
use crate::elf::{Elf, ImportId};

/// What is known so far of each function.
///
/// Looking deeper only ever turns "returns" into "never returns". So one depth down to which a function is
/// known to return, and one from which on it is known not to, say all that was found out.
#[derive(Debug, Default)]
pub(super) struct NoReturn {
    /// Of the functions that were asked for.
    asked: RwLock<HashMap<FunctionId, Known>>,
    /// Of all, by their place in address order, once they are all asked for.
    all: OnceLock<Vec<AtomicU8>>,
    settled: AtomicBool,
}

/// One function's two depths, four bits each; zero while nothing is known.
#[derive(Clone, Copy, Debug, Default)]
struct Known(u8);

impl Known {
    fn at(self, depth: u8) -> Option<bool> {
        let (returns, never) = (self.0 & 0xf, self.0 >> 4);
        if depth < returns {
            Some(false)
        } else if never != 0 && depth + 1 >= never {
            Some(true)
        } else {
            None
        }
    }

    /// The greatest depth at which it is known to return.
    fn returns_to(self) -> Option<u8> {
        (self.0 & 0xf).checked_sub(1)
    }

    fn with(self, depth: u8, is_never: bool) -> Self {
        let (returns, never) = (self.0 & 0xf, self.0 >> 4);
        let depth = depth.min(CALLEE_DEPTH) + 1;
        let (returns, never) = match is_never {
            true if never == 0 => (returns, depth),
            true => (returns, never.min(depth)),
            false => (returns.max(depth), never),
        };
        Self(never << 4 | returns)
    }
}

impl NoReturn {
    pub(super) fn import(&self, elf: &Elf<'_>, import: ImportId) -> bool {
        elf.import_name(import).is_some_and(names::is_known)
    }

    /// Whether a function never returns, as far as `context.depth` levels of callees tell.
    pub(super) fn function(&self, context: Context<'_, '_>, id: FunctionId) -> bool {
        let depth = context.depth;
        if let Some(never) = self.known(context.functions, id).at(depth) {
            return never;
        }
        let is_named = || {
            let function = context.functions.get(id);
            function.is_some_and(|function| function.symbol.is_some_and(names::is_known))
        };
        let (depth, never) = if is_named() {
            (0, true)
        } else if depth == 0 {
            (0, false)
        } else {
            self.look_into(context, id)
        };
        self.note(context.functions, id, depth, never);
        never
    }

    /// Whether a function has no way out, and for which depth that is found out: a function that returns
    /// without calling much does so however deep one looks.
    fn look_into(&self, context: Context<'_, '_>, id: FunctionId) -> (u8, bool) {
        let below = Context {
            depth: context.depth - 1,
            ..context
        };
        let mut returns_to = CALLEE_DEPTH;
        let never = search::has_no_way_out(below, id, |callee| {
            let never = self.function(below, callee);
            if !never {
                let callee = self
                    .known(below.functions, callee)
                    .returns_to()
                    .unwrap_or(below.depth);
                returns_to = returns_to.min(callee + 1);
            }
            never
        });
        (if never { context.depth } else { returns_to }, never)
    }

    fn known(&self, functions: &Functions<'_>, id: FunctionId) -> Known {
        match self.all.get() {
            Some(all) => {
                let known = functions.place_of(id).and_then(|place| all.get(place));
                // A function of another file: nobody knows better than that it returns.
                known.map_or(Known(0xf), |known| Known(known.load(Ordering::Relaxed)))
            }
            None => {
                let asked = self.asked.read().unwrap_or_else(PoisonError::into_inner);
                asked.get(&id).copied().unwrap_or_default()
            }
        }
    }

    fn note(&self, functions: &Functions<'_>, id: FunctionId, depth: u8, never: bool) {
        let Some(all) = self.all.get() else {
            let mut asked = self.asked.write().unwrap_or_else(PoisonError::into_inner);
            let known = asked.entry(id).or_default();
            *known = known.with(depth, never);
            return;
        };
        if let Some(known) = functions.place_of(id).and_then(|place| all.get(place)) {
            let _ = known.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
                Some(Known(before).with(depth, never).0)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_told_apart() {
        let known = Known(0).with(2, false).with(5, true);
        assert_eq!(
            [0, 2, 3, 4, 5, 7].map(|depth| known.at(depth)),
            [Some(false), Some(false), None, None, Some(true), Some(true)]
        );
    }
}

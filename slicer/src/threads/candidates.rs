//! Which creating calls may have to do with a function, told from the code alone.
//!
//! To examine a creating call takes debug information of every function on the way, and a large program has
//! hundreds of such calls in as many units. Nearly all can be ruled out by who calls whom.

use std::collections::BTreeSet;

use program::code::{AddressTaken, Target};
use program::{FunctionRef, Pc};

use super::look::Look;
use super::names;

/// Beyond so many functions nothing is ruled out.
const MAX_FUNCTIONS: usize = 1024;

/// The functions through which a thread can come to a routine.
pub(super) struct Ways {
    /// The routine, and library code that calls it or passes its address on, at any distance.
    entries: BTreeSet<FunctionRef>,
    /// Functions that make the address of one of those, and library code that they call, at any distance.
    passed_through: BTreeSet<FunctionRef>,
    complete: bool,
}

impl Ways {
    /// The ways to a routine.
    pub(super) fn to(look: &Look<'_, '_>, routine: FunctionRef) -> Self {
        let mut entries = BTreeSet::from([routine]);
        let mut makers = BTreeSet::new();
        let mut queue = vec![routine];
        while let Some(function) = queue.pop() {
            let takers = takers(look, function);
            let callers = callers(look, function);
            makers.extend(takers.iter().copied());
            for before in callers.into_iter().chain(takers) {
                if is_library(look, before) && entries.insert(before) {
                    queue.push(before);
                }
            }
            if entries.len() > MAX_FUNCTIONS {
                break;
            }
        }
        let passed_through = library_below(look, makers);
        Self {
            complete: entries.len() <= MAX_FUNCTIONS && passed_through.len() <= MAX_FUNCTIONS,
            entries,
            passed_through,
        }
    }

    /// Whether a thread that begins with `entry` and is created in `creator` may run the routine.
    pub(super) fn may_start(&self, entry: Option<FunctionRef>, creator: FunctionRef) -> bool {
        let begins = entry.is_some_and(|entry| self.entries.contains(&entry));
        !self.complete || begins || self.passed_through.contains(&creator)
    }
}

/// Some functions and the library code below them.
fn library_below(look: &Look<'_, '_>, functions: BTreeSet<FunctionRef>) -> BTreeSet<FunctionRef> {
    let mut queue: Vec<FunctionRef> = functions.iter().copied().collect();
    let mut found = functions;
    while let Some(function) = queue.pop() {
        if found.len() > MAX_FUNCTIONS {
            break;
        }
        let Some(module) = look.program.module(function.module) else {
            continue;
        };
        let flow = module.code().flow(function.function);
        for (_, target, _) in flow.calls() {
            let Target::Function(callee) = target else {
                continue;
            };
            let callee = FunctionRef {
                function: callee,
                ..function
            };
            if is_library(look, callee) && found.insert(callee) {
                queue.push(callee);
            }
        }
    }
    found
}

/// The function of a call, and what it can be called from through library code, the first functions of the
/// program included. `None` when there are too many to tell.
pub(super) fn around(look: &Look<'_, '_>, call: Pc) -> Option<BTreeSet<FunctionRef>> {
    let first = look.program.function_at(call)?;
    let mut found = BTreeSet::from([first]);
    let mut queue = vec![first];
    while let Some(function) = queue.pop() {
        if !is_library(look, function) {
            continue;
        }
        for caller in callers(look, function) {
            if found.insert(caller) {
                queue.push(caller);
            }
        }
        if found.len() > MAX_FUNCTIONS {
            return None;
        }
    }
    Some(found)
}

fn is_library(look: &Look<'_, '_>, function: FunctionRef) -> bool {
    look.symbol(function).is_some_and(names::is_library)
}

fn callers(look: &Look<'_, '_>, function: FunctionRef) -> BTreeSet<FunctionRef> {
    let calls = look.program.callers_of(function).into_iter();
    calls.filter_map(|call| look.program.function_at(call)).collect()
}

/// The functions that make a function's address, or load it from where it is stored for good.
fn takers(look: &Look<'_, '_>, function: FunctionRef) -> BTreeSet<FunctionRef> {
    let Some(module) = look.program.module(function.module) else {
        return BTreeSet::new();
    };
    let code = module.code();
    let Some(entry) = code.functions().get(function.function).map(|known| known.entry) else {
        return BTreeSet::new();
    };
    let mut takers = BTreeSet::new();
    for taken in code.address_taken(entry) {
        match taken {
            AddressTaken::Code { function, .. } => {
                takers.insert(function);
            }
            AddressTaken::Data(slot) => {
                let loads = code.references_to(&(slot..slot.offset(8)));
                takers.extend(loads.into_iter().map(|load| load.function));
            }
        }
    }
    let here = takers.into_iter().map(|taker| FunctionRef {
        module: function.module,
        function: taker,
    });
    here.collect()
}

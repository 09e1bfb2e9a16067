//! Which creating calls may have to do with a function, told from the code alone.
//!
//! To examine a creating call takes debug information of every function on the way, and a large program has
//! hundreds of such calls in as many units. Nearly all can be ruled out by who calls whom. Mostly they need not
//! even be found: whoever starts a thread with a function takes the function's address, and what happens to it
//! from there is a matter of a few calls of library code ([`Below`]).

use std::collections::{BTreeMap, BTreeSet};

use program::code::{AddressTaken, Target};
use program::{FunctionRef, Pc};

use super::look::Look;
use super::names::{self, CreationKind};

/// Beyond so many functions nothing is ruled out.
const MAX_FUNCTIONS: usize = 1024;

/// The functions through which a thread can come to a routine.
pub(super) struct Ways {
    /// The routine, and library code that calls it or passes its address on, at any distance.
    entries: BTreeSet<FunctionRef>,
    /// Functions that make the address of one of those.
    makers: BTreeSet<FunctionRef>,
    /// The same, and library code that they call, at any distance.
    passed_through: BTreeSet<FunctionRef>,
    complete: bool,
}

impl Ways {
    /// The ways to a routine.
    pub(super) fn to(look: &Look<'_, '_>, routine: FunctionRef) -> Self {
        let mut entries = BTreeSet::from([routine]);
        let mut makers = BTreeSet::new();
        let mut complete = true;
        let mut queue = vec![routine];
        while let Some(function) = queue.pop() {
            let (takers, known) = takers(look, function);
            complete &= known;
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
        let below = Below::new(look, makers.iter().copied());
        Self {
            complete: complete && entries.len() <= MAX_FUNCTIONS && below.is_some(),
            entries,
            passed_through: below.map_or_else(BTreeSet::new, |below| below.functions),
            makers,
        }
    }

    /// Whether a thread that begins with `entry` and is created in `creator` may run the routine.
    pub(super) fn may_start(&self, entry: Option<FunctionRef>, creator: FunctionRef) -> bool {
        let begins = entry.is_some_and(|entry| self.entries.contains(&entry));
        !self.complete || begins || self.passed_through.contains(&creator)
    }

    /// The functions in which a creating call can be that runs the routine; `None` when any can.
    pub(super) fn functions(&self) -> Option<BTreeSet<FunctionRef>> {
        self.complete
            .then(|| self.entries.union(&self.passed_through).copied().collect())
    }

    /// The program's own functions that make the routine's address.
    pub(super) fn own_makers(&self, look: &Look<'_, '_>) -> BTreeSet<FunctionRef> {
        let own = self.makers.iter().filter(|&&maker| !is_library(look, maker));
        own.copied().collect()
    }

    /// Whether somebody makes an address through which the routine can be run.
    pub(super) fn is_made(&self) -> bool {
        !self.makers.is_empty() || !self.complete
    }
}

/// Some functions and the library code below them.
#[derive(Default)]
pub(super) struct Below {
    pub functions: BTreeSet<FunctionRef>,
    /// The calls among them, by callee.
    calls: BTreeMap<FunctionRef, Vec<Pc>>,
}

impl Below {
    /// `None` when there is too much.
    pub(super) fn new(look: &Look<'_, '_>, tops: impl Iterator<Item = FunctionRef>) -> Option<Self> {
        let mut below = Self {
            functions: tops.collect(),
            ..Self::default()
        };
        let mut queue: Vec<FunctionRef> = below.functions.iter().copied().collect();
        while let Some(function) = queue.pop() {
            for (call, callee) in direct_calls(look, function) {
                if !is_library(look, callee) {
                    continue;
                }
                below.calls.entry(callee).or_default().push(call);
                if below.functions.insert(callee) {
                    queue.push(callee);
                }
            }
            if below.functions.len() > MAX_FUNCTIONS {
                return None;
            }
        }
        below.calls.values_mut().for_each(|calls| {
            calls.sort_unstable();
            calls.dedup();
        });
        Some(below)
    }

    /// The calls of a function that is below others.
    pub(super) fn callers_of(&self, function: FunctionRef) -> Option<&[Pc]> {
        self.calls.get(&function).map(Vec::as_slice)
    }
}

/// Calls in some functions that create threads, by address.
pub(super) fn creating_calls(
    look: &Look<'_, '_>,
    functions: &BTreeSet<FunctionRef>,
) -> BTreeSet<(Pc, CreationKind)> {
    let mut found = BTreeSet::new();
    for &function in functions {
        // A library's own creating function calls the system's: one creation, not two.
        if look.symbol(function).and_then(names::creation).is_some() {
            continue;
        }
        let Some(module) = look.program.module(function.module) else {
            continue;
        };
        let flow = module.code().flow(function.function);
        for (ix, target, _) in flow.calls() {
            let name = match target {
                Target::Indirect => look
                    .through_register(function, ix)
                    .and_then(|callee| look.symbol(callee)),
                target => module.code().target_name(target),
            };
            let pc = flow.addr(ix).map(|addr| Pc {
                module: function.module,
                addr,
            });
            found.extend(pc.zip(name.and_then(names::creation)));
        }
    }
    found
}

fn direct_calls(look: &Look<'_, '_>, function: FunctionRef) -> Vec<(Pc, FunctionRef)> {
    let Some(module) = look.program.module(function.module) else {
        return Vec::new();
    };
    let flow = module.code().flow(function.function);
    let calls = flow.calls().filter_map(|(ix, target, _)| {
        let callee = match target {
            Target::Function(callee) => FunctionRef {
                function: callee,
                ..function
            },
            Target::Indirect => look.through_register(function, ix)?,
            Target::Import(_) | Target::Unknown(_) => return None,
        };
        let call = Pc {
            module: function.module,
            addr: flow.addr(ix)?,
        };
        Some((call, callee))
    });
    calls.collect()
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

/// The functions that make a function's address, or load it from where it is stored for good, and whether
/// that is all.
fn takers(look: &Look<'_, '_>, function: FunctionRef) -> (BTreeSet<FunctionRef>, bool) {
    let Some(module) = look.program.module(function.module) else {
        return (BTreeSet::new(), true);
    };
    let mut takers = BTreeSet::new();
    let mut complete = true;
    for taken in module.address_taken(function.function) {
        match taken {
            AddressTaken::Code { function, .. } => {
                takers.insert(function);
            }
            AddressTaken::Data(slot) => {
                let table = module.object_at(slot).unwrap_or_else(|| slot..slot.offset(8));
                let loads = module.references_to_table(&table, function.function);
                complete &= !loads.is_empty();
                takers.extend(loads.into_iter().map(|load| load.function));
            }
        }
    }
    let here = takers.into_iter().map(|taker| FunctionRef {
        module: function.module,
        function: taker,
    });
    (here.collect(), complete)
}

//! The name that a callee has for what it is passed.
//!
//! What a call returned is in no variable of the caller, and has no name there: `book.lock().unwrap().open.len()`. The library function
//! that makes the access calls it `self.len`, which is less than a programmer would say and more than nothing.

use super::{AccessName, Namer};
use crate::code::{FunctionId, InstrIx, Target};
use crate::module::Module;
use crate::values::{Base, Gpr, Value, Values};

/// Functions inside one another that are looked into.
const DEEPEST: usize = 6;
/// Instructions of one that is.
const MOST_INSTRUCTIONS: usize = 600;

/// The name of the bytes at an offset behind an argument of a function, by the first access that it, or whoever it passes the
/// argument on to, makes there.
#[must_use]
pub fn name_in_callee(
    module: &Module<'_>,
    function: FunctionId,
    argument: Gpr,
    offset: i64,
    width: u32,
) -> Option<AccessName> {
    look(module, function, argument, offset, width, DEEPEST)
}

fn look(
    module: &Module<'_>,
    function: FunctionId,
    argument: Gpr,
    offset: i64,
    width: u32,
    depth: usize,
) -> Option<AccessName> {
    let depth = depth.checked_sub(1)?;
    let flow = module.code().flow(function);
    if flow.instructions.len() > MOST_INSTRUCTIONS {
        return None;
    }
    let constants = |slot| module.constant_pointer(slot);
    let values = Values::analyse(&flow, &constants);
    let namer = Namer::new(module, &flow, &values);
    let wanted = Value::Sum(Base::Entry(argument), offset);
    let count = u32::try_from(flow.instructions.len()).ok()?;
    let own = (0..count).map(InstrIx).find_map(|ix| {
        let mut accesses = values.accesses(ix).iter();
        let access = accesses.find(|access| {
            let whole = access.place.index.is_none() && !access.place.thread_local;
            whole && access.place.base == wanted && access.width == Some(width)
        })?;
        namer.name(ix, access)
    });
    own.or_else(|| {
        flow.calls().find_map(|(ix, target, _)| {
            let Target::Function(callee) = target else {
                return None;
            };
            let state = values.before(&flow, ix, &constants)?;
            Gpr::ARGUMENTS.iter().find_map(|&gpr| match state.get(gpr) {
                Value::Sum(Base::Entry(from), added) if from == argument => {
                    look(module, callee, gpr, offset.checked_sub(added)?, width, depth)
                }
                _ => None,
            })
        })
    })
}

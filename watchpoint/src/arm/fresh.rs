//! Where memory whose allocation a run has shown is known first.

use program::{Pc, Program};
use slicer::view::FunctionView;

use super::point::Points;
use crate::watcher::Probe;

/// Of the calls that led to an allocation, that of the allocator first, how many return the address of the block: what wraps
/// the allocator, or makes an object, hands out what it was given.
#[must_use]
pub fn handing_out(calls: &[Pc], program: &Program<'_>) -> usize {
    let handed = |call: &Pc| {
        let look = || {
            let module = program.module(call.module)?;
            let view = FunctionView::new(module, program.function_at(*call)?);
            let constants = |slot| module.constant_pointer(slot);
            let made = view.values.result_makers(&view.flow, &constants);
            Some(made.iter().any(|maker| view.pc(maker.at) == Some(*call)))
        };
        look().unwrap_or(false)
    };
    let outer = calls.iter().take_while(|call| handed(call)).count() + 1;
    outer.min(calls.len())
}

/// The place where a call has returned the address of a block of which an offset is watched. It is late where the call is not
/// the allocator's: whoever made it may have written to the block.
#[must_use]
pub fn after_allocation(call: Pc, offset: i64, late: bool, program: &Program<'_>) -> Option<Probe> {
    let probe = Points::new(program).after_call(call, offset)?;
    Some(Probe { late, ..probe })
}

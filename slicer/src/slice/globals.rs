//! Globals: everybody who writes one, by address, whichever function or thread it is in.

use program::Module;
use program::code::{AccessKind, FunctionId, InstrIx};
use program::values::{Gpr, Place};

use super::context::Context;
use super::queue::{Point, Task};
use super::{Here, Slice, Why};
use crate::dependence::location::{Location, Overlap};
use crate::dependence::uses::Role;
use crate::view::FunctionView;
use program::FunctionRef;

impl<'p, 'a> Slice<'p, 'a> {
    /// Queues every instruction that may have written a global (or thread-local) variable before the failure.
    pub(super) fn find_writers(&mut self, here: Here, reader: FunctionRef, wanted: Location) {
        let Some(module) = self.program.module(reader.module) else {
            return;
        };
        for function in functions_using(module, &wanted, reader.function) {
            let id = FunctionRef {
                module: reader.module,
                function,
            };
            // What a library does with its own data is its business.
            if !self.program.is_own(id) {
                continue;
            }
            let Some(view) = self.view(id) else { continue };
            for ix in writers_in(&view, &wanted) {
                if !view.pc(ix).is_some_and(|pc| self.around.has_run(pc)) {
                    continue;
                }
                let point = Point {
                    function: id,
                    context: Context::ANY,
                    ix,
                };
                let role = if view.is_call(ix) {
                    Role::Everything
                } else {
                    Role::Value
                };
                self.push_found(here, Task::Visit(point, role), Why::Data);
            }
        }
    }
}

/// The functions that name a variable by its address; `reader` is one of them.
fn functions_using(module: &Module<'_>, variable: &Location, reader: FunctionId) -> Vec<FunctionId> {
    let references = match *variable {
        // Read-only data has no writers, and a string constant is not worth a scan.
        Location::Static { addr, width } if module.is_variable(addr) => {
            let object = module.object_around(addr, width);
            let user = module.code().functions().get(reader).map(|reader| reader.entry);
            user.map_or_else(Vec::new, |user| module.references_to(&object, user))
        }
        Location::Thread { offset, .. } => module.code().references_to_thread_local(offset),
        _ => Vec::new(),
    };
    let mut functions: Vec<_> = references
        .into_iter()
        .map(|reference| reference.function)
        .collect();
    functions.sort_unstable();
    functions.dedup();
    functions
}

fn writers_in(view: &FunctionView<'_, '_>, wanted: &Location) -> Vec<InstrIx> {
    let count = u32::try_from(view.flow.instructions.len()).unwrap_or(u32::MAX);
    (0..count)
        .map(InstrIx)
        .filter(|&ix| writes(view, ix, wanted))
        .collect()
}

fn writes(view: &FunctionView<'_, '_>, ix: InstrIx, wanted: &Location) -> bool {
    let stores = view
        .values
        .accesses(ix)
        .iter()
        .filter(|access| access.kind != AccessKind::Read)
        .any(|access| view.overlap(wanted, access) != Overlap::None);
    stores || (view.is_call(ix) && is_lent(view, ix, wanted))
}

/// Whether a library call gets the global's address and writes through it, or takes or releases it as a lock.
fn is_lent(view: &FunctionView<'_, '_>, call: InstrIx, wanted: &Location) -> bool {
    let Some(summary) = view.library_summary(call) else {
        return false;
    };
    if !summary.locks && (summary.writes == 0 || summary.arguments.is_none()) {
        return false;
    }
    let Some(state) = view.state_before(call) else {
        return false;
    };
    Gpr::ARGUMENTS.iter().enumerate().any(|(number, &gpr)| {
        let changes = summary.writes_through(number) || (summary.locks && number == 0);
        changes && wanted.overlap(&Place::at(state.get(gpr)), Some(8)) != Overlap::None
    })
}

//! Globals: everybody who writes one, by address, whichever function or thread it is in.

use program::Module;
use program::code::{AccessKind, FunctionId, InstrIx};
use program::values::{Gpr, Place};

use super::context::Context;
use super::queue::{Point, Task};
use super::{Here, Slice, Why};
use crate::dependence::location::{Location, Overlap};
use crate::dependence::passed::Library;
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
            for ix in writers_in(&view, &self.library, &wanted) {
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

fn writers_in<'p, 'a>(
    view: &FunctionView<'p, 'a>,
    library: &Library<'p, 'a>,
    wanted: &Location,
) -> Vec<InstrIx> {
    let count = u32::try_from(view.flow.instructions.len()).unwrap_or(u32::MAX);
    (0..count)
        .map(InstrIx)
        .filter(|&ix| writes(view, library, ix, wanted))
        .collect()
}

fn writes<'p, 'a>(
    view: &FunctionView<'p, 'a>,
    library: &Library<'p, 'a>,
    ix: InstrIx,
    wanted: &Location,
) -> bool {
    let stores = view
        .values
        .accesses(ix)
        .iter()
        .filter(|access| access.kind != AccessKind::Read)
        .any(|access| view.overlap(wanted, access) != Overlap::None);
    stores || (view.is_call(ix) && is_lent(view, library, ix, wanted))
}

/// Whether a library call gets the global's address and writes through it, or takes or releases it as a lock.
fn is_lent<'p, 'a>(
    view: &FunctionView<'p, 'a>,
    library: &Library<'p, 'a>,
    call: InstrIx,
    wanted: &Location,
) -> bool {
    let Some(state) = view.state_before(call) else {
        return false;
    };
    let meets = |gpr: Gpr, offset: i64, width: u32| {
        let place = Place::at(state.get(gpr).plus(offset));
        wanted.overlap(&place, Some(width)) != Overlap::None
    };
    let passed = library.accesses(view, call);
    if passed
        .iter()
        .any(|passed| passed.writes() && meets(passed.argument, passed.offset, passed.width))
    {
        return true;
    }
    let described = view
        .library_summary(call)
        .filter(|summary| summary.writes != 0 && summary.arguments.is_some());
    described.is_some_and(|summary| {
        let arguments = Gpr::ARGUMENTS.iter().enumerate();
        arguments
            .filter(|(number, _)| summary.writes_through(*number))
            .any(|(_, &gpr)| meets(gpr, 0, 8))
    })
}

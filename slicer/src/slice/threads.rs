//! What the slice asks about threads.

use program::code::InstrIx;
use program::elf::Linkage;
use program::values::{Base, Gpr, Place, Value};
use program::{FunctionRef, Pc, Program};

use crate::dependence::effects::RegisterSet;
use crate::dependence::location::Location;
use crate::view::FunctionView;

/// Who creates threads.
pub(super) struct ThreadModel<'p, 'a> {
    program: &'p Program<'a>,
}

impl<'p, 'a> ThreadModel<'p, 'a> {
    pub(super) fn new(program: &'p Program<'a>) -> Self {
        Self { program }
    }

    /// The calls that create a thread which starts in a function.
    pub(super) fn creators_of(&self, routine: FunctionRef) -> Vec<Pc> {
        let Some(module) = self.program.module(routine.module) else {
            return Vec::new();
        };
        let Some(function) = module.code().functions().get(routine.function) else {
            return Vec::new();
        };
        let creating = module
            .elf()
            .stubs()
            .iter()
            .filter_map(|(_, linkage)| match linkage {
                Linkage::Import(import) if module.elf().import_name(*import) == Some("pthread_create") => {
                    Some(*import)
                }
                _ => None,
            });
        creating
            .flat_map(|import| module.code().callers_of_import(import))
            .filter(|site| {
                let id = FunctionRef {
                    module: routine.module,
                    function: site.caller,
                };
                let view = FunctionView::new(module, id);
                let state = view.flow.at(site.at).and_then(|ix| view.state_before(ix));
                state.is_some_and(|state| state.get(Gpr::RDX) == Value::Const(function.entry.0))
            })
            .map(|site| Pc {
                module: routine.module,
                addr: site.at,
            })
            .collect()
    }

    /// Whether a function can have run before the failure.
    pub(super) fn may_precede(&self, _function: FunctionRef) -> bool {
        true
    }

    /// A start routine's location at its entry, as its creator names it before the creating call.
    pub(super) fn passed_to(
        &self,
        view: &FunctionView<'p, 'a>,
        call: InstrIx,
        location: Location,
    ) -> Option<Location> {
        match location {
            Location::Register(register) if register.as_gpr() == Some(Gpr::RDI) => {
                Some(Location::Register(RegisterSet::gpr(Gpr::RCX)))
            }
            Location::Object {
                base: Base::Entry(Gpr::RDI),
                offset,
                width,
            } => {
                let passed = view.state_before(call)?.get(Gpr::RCX).plus(offset);
                Location::of(&Place::at(passed), Some(width))
            }
            _ => None,
        }
    }
}

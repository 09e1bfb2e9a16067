//! Where a thread takes its argument.

use program::code::InstrIx;
use program::values::{Base, Gpr, Value};
use program::{FunctionRef, Statement};

use super::ThreadModel;
use crate::view::FunctionView;

impl ThreadModel<'_, '_> {
    /// The statement by which a start routine takes its argument, where the compiler made no code of it: the declaration of a
    /// variable that lives in the register of the argument, or where that was moved to. Of a closure or an object of a library's
    /// there is none.
    #[must_use]
    pub fn argument_of(&self, routine: FunctionRef) -> Option<Statement> {
        let creators = self.creators_of(routine);
        let passed =
            |creation: &super::CreationSite| creation.entry == Some(routine) && creation.argument.is_some();
        if !creators.iter().any(passed) {
            return None;
        }
        let module = self.look.program.module(routine.module)?;
        let view = FunctionView::new(module, routine);
        let entry = view.flow.block(view.flow.entry?)?;
        entry.instrs.clone().map(InstrIx).find_map(|ix| {
            let (state, pc) = (view.state_before(ix)?, view.pc(ix)?);
            let locals = module.sources().locals_in_registers(pc.addr);
            let is_argument = |register: u16| {
                let held = Gpr::from_dwarf(register).map(|gpr| state.get(gpr));
                held == Some(Value::Sum(Base::Entry(Gpr::RDI), 0))
            };
            let (_, line) = locals.into_iter().find(|(register, _)| is_argument(*register))?;
            let frame = module.sources().frames_at(pc.addr).pop()?;
            Some(Statement {
                function: frame.function?,
                file: frame.file,
                line: Some(line),
                pc,
            })
        })
    }
}

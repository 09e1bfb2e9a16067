//! What a statement puts into memory of the value that it is tracked for.
//!
//! Optimised code that has just stored a value uses it from its register: `h->width = …; x / h->width` divides by a register, and
//! the only access to `h->width` is a store that nothing seems to depend on. It is where the value is seen.

use std::sync::Arc;

use iced_x86::{Mnemonic, OpKind};
use program::code::InstrIx;
use program::values::{Gpr, Value};

use crate::view::FunctionView;

/// How far from the instruction that makes a value its store is looked for.
const NEAR: usize = 8;

/// The stores near an instruction, of its own source line, of the value that it makes.
pub(super) fn stores_of(view: &FunctionView<'_, '_>, made: InstrIx) -> Vec<InstrIx> {
    let Some(value) = made_by(view, made) else {
        return Vec::new();
    };
    let block = view.flow.block_of(made).and_then(|block| view.flow.block(block));
    let near = block.into_iter().flat_map(|block| block.indices());
    let near = near.filter(|ix| ix.0.abs_diff(made.0) as usize <= NEAR && *ix != made);
    let stores = near.filter(|&ix| stored_by(view, ix) == Some(value));
    let line = line_of(view, made);
    stores
        .filter(|&ix| line.is_some() && line_of(view, ix) == line)
        .collect()
}

/// What an instruction leaves in the register that it writes.
fn made_by(view: &FunctionView<'_, '_>, ix: InstrIx) -> Option<Value> {
    let instruction = view
        .instruction(ix)
        .filter(|it| it.op0_kind() == OpKind::Register)?;
    let register = Gpr::of(instruction.op0_register())?;
    let next = InstrIx(ix.0.checked_add(1)?);
    let same_block = view.flow.block_of(next) == view.flow.block_of(ix);
    let value = view.state_before(next).filter(|_| same_block)?.get(register);
    (value != Value::Unknown).then_some(value)
}

fn stored_by(view: &FunctionView<'_, '_>, ix: InstrIx) -> Option<Value> {
    let instruction = view.instruction(ix)?;
    let stores = instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_kind() == OpKind::Memory
        && instruction.op1_kind() == OpKind::Register;
    let register = Gpr::of(instruction.op1_register()).filter(|_| stores)?;
    Some(view.state_before(ix)?.get(register))
}

/// The innermost function, its file, and the line.
type Line = (Option<Arc<str>>, Option<Arc<str>>, u32);

fn line_of(view: &FunctionView<'_, '_>, ix: InstrIx) -> Option<Line> {
    let frames = view.module().sources().frames_at(view.pc(ix)?.addr);
    let frame = frames.into_iter().next().filter(|frame| frame.line > 0)?;
    Some((frame.function, frame.file, frame.line))
}

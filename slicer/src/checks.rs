//! Reads that decide whether a later one is made: a check and its use.

use std::collections::BTreeSet;

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};
use program::code::{BlockId, InstrIx};
use program::values::{Base, Gpr, Value};
use program::{Pc, Program};

use crate::view::FunctionView;

/// Instructions between a value and the branch that it decides, which turn it into a truth value: `sete al; xor eax, 1`.
const DEPTH: usize = 6;

/// Whether a thread that reads something at `first` gets to `second` only because it was zero, or because it was not. Where the second is in
/// another function, that the first decides anything is enough.
#[must_use]
pub fn guards(first: Pc, second: Pc, program: &Program<'_>) -> bool {
    let view = |pc: Pc| {
        let module = program.module(pc.module)?;
        Some(FunctionView::new(module, program.function_at(pc)?))
    };
    let Some(view) = view(first) else { return false };
    let Some(read) = view.flow.containing(first.addr) else {
        return false;
    };
    let check = Check { view: &view, read };
    let deciding = check.deciding();
    let here = (first.module == second.module).then(|| view.flow.containing(second.addr));
    match here.flatten().and_then(|at| view.flow.block_of(at)) {
        Some(block) => depends_on_any(&view, block, &deciding),
        None => !deciding.is_empty(),
    }
}

/// Whether a block runs because of one of these decisions, or because of one that was made because of it.
fn depends_on_any(view: &FunctionView<'_, '_>, block: BlockId, deciding: &BTreeSet<InstrIx>) -> bool {
    let mut seen = BTreeSet::from([block]);
    let mut open = vec![block];
    while let Some(block) = open.pop() {
        for branch in view.deciding_branches(block) {
            if deciding.contains(&branch) {
                return true;
            }
            open.extend(view.flow.block_of(branch).filter(|&block| seen.insert(block)));
        }
    }
    false
}

/// What was read, on its way to the branches that it decides.
struct Check<'v, 'p, 'a> {
    view: &'v FunctionView<'p, 'a>,
    read: InstrIx,
}

impl Check<'_, '_, '_> {
    /// The branches that ask whether it was zero.
    fn deciding(&self) -> BTreeSet<InstrIx> {
        let branches = self.view.flow.ids().filter_map(|id| self.view.flow.block(id));
        let branches = branches.map(program::code::Block::last);
        branches
            .filter(|&branch| {
                let instruction = self.view.instruction(branch);
                let conditional = |branch: &Instruction| {
                    branch.flow_control() == FlowControl::ConditionalBranch && asks_for_zero(branch)
                };
                instruction.is_some_and(conditional) && self.flags_tell(branch, DEPTH)
            })
            .collect()
    }

    /// Whether the flags before an instruction tell if what was read was zero.
    fn flags_tell(&self, before: InstrIx, depth: usize) -> bool {
        let Some(block) = self.view.flow.block_of(before) else {
            return false;
        };
        let block = self.view.flow.block(block);
        let mut earlier = block.into_iter().flat_map(|block| block.indices().rev());
        let setter = earlier.find(|&ix| {
            let instruction = self.view.instruction(ix);
            ix < before && instruction.is_some_and(|instruction| instruction.rflags_modified() != 0)
        });
        setter.is_some_and(|ix| self.compares(ix, depth))
    }

    /// Whether an instruction compares what was read with zero.
    fn compares(&self, ix: InstrIx, depth: usize) -> bool {
        let Some(instruction) = self.view.instruction(ix) else {
            return false;
        };
        let zero = match instruction.mnemonic() {
            Mnemonic::Test | Mnemonic::And | Mnemonic::Or => {
                let same = instruction.op0_register() == instruction.op1_register();
                instruction.op1_kind() != OpKind::Register || same
            }
            Mnemonic::Cmp => is_immediate(instruction) && instruction.immediate(1) == 0,
            _ => false,
        };
        let is_it = match instruction.op0_kind() {
            OpKind::Register => self.register_holds(ix, instruction.op0_register(), depth),
            OpKind::Memory => ix == self.read || self.slot_holds(ix, depth),
            _ => false,
        };
        zero && is_it
    }

    fn register_holds(&self, before: InstrIx, register: Register, depth: usize) -> bool {
        let state = self.view.state_before(before);
        let value = state.zip(Gpr::of(register)).map(|(state, gpr)| state.get(gpr));
        value.is_some_and(|value| self.is_it(value, depth))
    }

    /// Whether an instruction reads a slot of the frame that holds it.
    fn slot_holds(&self, ix: InstrIx, depth: usize) -> bool {
        let access = self.view.values.accesses(ix).first();
        let slot = access.and_then(|access| access.place.stack_offset().zip(access.width));
        let state = self.view.state_before(ix);
        let value = slot
            .zip(state)
            .and_then(|((offset, width), state)| state.slot(offset, width));
        value.is_some_and(|value| self.is_it(value, depth))
    }

    /// Whether a value is what was read, or tells whether that was zero.
    fn is_it(&self, value: Value, depth: usize) -> bool {
        let (Value::Sum(Base::Made(made, _), 0), Some(depth)) = (value, depth.checked_sub(1)) else {
            return false;
        };
        if made == self.read {
            return true;
        }
        let Some(instruction) = self.view.instruction(made) else {
            return false;
        };
        match instruction.mnemonic() {
            Mnemonic::Sete | Mnemonic::Setne => self.flags_tell(made, depth),
            Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd | Mnemonic::Mov => {
                match instruction.op1_kind() {
                    OpKind::Register => self.register_holds(made, instruction.op1_register(), depth),
                    OpKind::Memory => self.slot_holds(made, depth),
                    _ => false,
                }
            }
            Mnemonic::Xor | Mnemonic::And => {
                is_immediate(instruction) && self.register_holds(made, instruction.op0_register(), depth)
            }
            _ => false,
        }
    }
}

/// Whether a branch goes by whether something was zero, and not by its sign.
fn asks_for_zero(branch: &Instruction) -> bool {
    use iced_x86::ConditionCode::{a, be, e, g, le, ne};
    matches!(branch.condition_code(), e | ne | a | be | g | le)
}

fn is_immediate(instruction: &Instruction) -> bool {
    instruction.op_count() > 1 && !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory)
}

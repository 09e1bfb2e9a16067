//! What a failed assertion asked for.

use std::collections::BTreeSet;

use iced_x86::{Instruction, Mnemonic, OpKind, Register, RflagsBits};
use program::code::{AccessKind, BlockId, Exit, FlowGraph, InstrIx};
use program::values::{Base, Gpr, State, Value, Values};

/// Blocks between a branch and the call that it leads to: a message may be put together there.
const MOST_BLOCKS: usize = 8;

/// Instructions between a load and what asks for the value: `movzx`, `and`.
const DEPTH: usize = 4;

/// A function, and what is known of its values.
pub(super) struct Condition<'f> {
    pub(super) flow: &'f FlowGraph,
    pub(super) values: &'f Values,
    /// The state before an instruction.
    pub(super) before: &'f dyn Fn(InstrIx) -> Option<State>,
}

impl Condition<'_> {
    /// The loads of what the branches ask for that lead to a call which does not return; nothing for one that does.
    pub(super) fn of_call(&self, call: InstrIx) -> BTreeSet<InstrIx> {
        let mut loads = BTreeSet::new();
        let Some(block) = self.flow.block_of(call).filter(|&block| self.is_end(block)) else {
            return loads;
        };
        for comparison in self.deciding(block) {
            self.loaded_for(comparison, DEPTH, &mut loads);
        }
        loads
    }

    fn is_end(&self, block: BlockId) -> bool {
        let block = self.flow.block(block);
        block.is_some_and(|block| block.succs.is_empty() && !matches!(block.exit, Exit::Return))
    }

    /// What set the flags for the branches through which a block is reached.
    fn deciding(&self, block: BlockId) -> Vec<InstrIx> {
        let mut seen = vec![block];
        let mut found = Vec::new();
        let mut next = 0;
        while let Some(&block) = seen.get(next) {
            next += 1;
            let before = self.flow.block(block).map(|block| &*block.preds);
            for &before in before.unwrap_or_default() {
                let Some(leading) = self.flow.block(before) else {
                    continue;
                };
                if self.flow.branch(leading).is_some() {
                    let sets = |ix: &InstrIx| {
                        let instruction = self.flow.instruction(*ix);
                        instruction.is_some_and(|it| it.rflags_modified() != RflagsBits::NONE)
                    };
                    found.extend(leading.indices().rev().skip(1).find(sets));
                } else if seen.len() < MOST_BLOCKS && !seen.contains(&before) {
                    seen.push(before);
                }
            }
        }
        found
    }

    /// The loads that an instruction's operands are made of.
    fn loaded_for(&self, at: InstrIx, depth: usize, loads: &mut BTreeSet<InstrIx>) {
        let Some(instruction) = self.flow.instruction(at) else {
            return;
        };
        let mut accesses = self.values.accesses(at).iter();
        if accesses.any(|access| !access.implicit && access.kind != AccessKind::Write) {
            loads.insert(at);
            if instruction.mnemonic() == Mnemonic::Mov || depth == 0 {
                return;
            }
        }
        let Some(state) = (self.before)(at).filter(|_| depth > 0) else {
            return;
        };
        for register in operands(instruction) {
            if let Some(Value::Sum(Base::Made(made, _), _)) = Gpr::of(register).map(|gpr| state.get(gpr))
                && made != at
            {
                self.loaded_for(made, depth - 1, loads);
            }
        }
    }
}

/// The registers that an instruction computes with, or compares. A call computes with none of them.
fn operands(instruction: &Instruction) -> impl Iterator<Item = Register> {
    let computes = !matches!(instruction.mnemonic(), Mnemonic::Call | Mnemonic::Lea);
    let all = (0..instruction.op_count()).filter(move |_| computes);
    all.filter(|&at| instruction.op_kind(at) == OpKind::Register)
        .map(|at| instruction.op_register(at))
}

//! Which instructions make what a function returns, or what a register holds, one for each way through the function.

use std::collections::BTreeSet;

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};

use super::transfer::Stepper;
use super::{Base, Constants, Gpr, Spot, State, Value, Values};
use crate::code::{BlockId, Exit, FlowGraph, InstrIx};

/// An instruction that makes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Maker {
    /// The instruction.
    pub at: InstrIx,
    /// What it makes.
    pub value: Value,
}

impl Maker {
    /// The value, if it is always the same.
    #[must_use]
    pub fn constant(&self) -> Option<u64> {
        match self.value {
            Value::Const(constant) => Some(constant),
            Value::Sum(..) | Value::Unknown => None,
        }
    }
}

impl Values {
    /// The makers of what a function returns in `rax`, in the order of the code. What a function that is left by a jump
    /// returns is not among it.
    #[must_use]
    pub fn result_makers(&self, flow: &FlowGraph, constants: Constants<'_>) -> Vec<Maker> {
        let mut search = Search::new(self, flow, constants);
        for (id, block) in flow.ids().zip(&flow.blocks) {
            if block.exit == Exit::Return {
                search.ask((id, None), Spot::Register(Gpr::RAX));
            }
        }
        search.all()
    }

    /// The makers of what a register holds before an instruction, as if no callee wrote to the frame of this function: a
    /// variable next to an array that is passed on has most likely what was last put into it.
    #[must_use]
    pub fn likely_makers(
        &self,
        flow: &FlowGraph,
        before: InstrIx,
        register: Gpr,
        constants: Constants<'_>,
    ) -> Vec<Maker> {
        let mut search = Search::new(self, flow, constants);
        search.past_calls = true;
        if let Some(block) = flow.block_of(before) {
            search.ask((block, Some(before)), Spot::Register(register));
        }
        search.all()
    }
}

/// The end of a block, or the place before one of its instructions.
type Point = (BlockId, Option<InstrIx>);

struct Search<'s> {
    values: &'s Values,
    flow: &'s FlowGraph,
    stepper: Stepper<'s>,
    /// Calls are taken to leave slots as they were.
    past_calls: bool,
    /// Where somebody wants to know who made what is in a spot.
    waiting: Vec<(Point, Spot)>,
    seen: BTreeSet<(Point, Spot)>,
    found: BTreeSet<Maker>,
}

impl<'s> Search<'s> {
    fn new(values: &'s Values, flow: &'s FlowGraph, constants: Constants<'s>) -> Self {
        Self {
            values,
            flow,
            stepper: Stepper::new(constants),
            past_calls: false,
            waiting: Vec::new(),
            seen: BTreeSet::new(),
            found: BTreeSet::new(),
        }
    }

    fn all(mut self) -> Vec<Maker> {
        while let Some((point, spot)) = self.waiting.pop() {
            self.look(point, spot);
        }
        self.found.into_iter().collect()
    }

    fn ask(&mut self, point: Point, spot: Spot) {
        if self.seen.insert((point, spot)) {
            self.waiting.push((point, spot));
        }
    }

    fn ask_before(&mut self, block: BlockId, spot: Spot) {
        let preds = self.flow.block(block).map(|block| block.preds.to_vec());
        let preds = preds.into_iter().flatten();
        preds.for_each(|pred| self.ask((pred, None), spot));
    }

    /// Finds the last instruction of a block, up to a point, that changes what is in a spot, or asks the blocks before.
    fn look(&mut self, (id, before): Point, spot: Spot) {
        let start = self.values.starts.get(id.0 as usize).cloned().flatten();
        let Some((block, mut state)) = self.flow.block(id).zip(start) else {
            return;
        };
        let mut known = held(&state, spot);
        let mut changed = None;
        for ix in block
            .indices()
            .take_while(|&ix| before.is_none_or(|before| ix < before))
        {
            let Some(instr) = self.flow.instruction(ix) else {
                break;
            };
            self.stepper.step(instr, ix, &mut state);
            let now = held(&state, spot);
            let by_callee = self.past_calls && is_call(instr) && matches!(spot, Spot::Slot(_));
            if now != known && !by_callee {
                changed = Some((ix, now));
            }
            known = now;
        }
        let Some((at, value)) = changed else {
            return self.ask_before(id, spot);
        };
        match value {
            // A copy of what different ways left elsewhere.
            Value::Sum(Base::Joined(joined, other), 0) => self.ask_before(BlockId(joined), other),
            Value::Sum(Base::Made(at, _), 0) => match self.copied_by(at).zip(self.flow.block_of(at)) {
                Some((from, block)) => self.ask((block, Some(at)), from),
                None => self.add(at, value),
            },
            _ => self.add(at, value),
        }
    }

    /// What an instruction copies, if that is all it does. Value numbers do not follow copies of half a register.
    fn copied_by(&self, at: InstrIx) -> Option<Spot> {
        let instr = self.flow.instruction(at)?;
        match (instr.mnemonic(), instr.op1_kind()) {
            (Mnemonic::Mov, OpKind::Register) => Gpr::of(instr.op1_register()).map(Spot::Register),
            (Mnemonic::Mov, OpKind::Memory) => {
                let place = self.values.place(at)?;
                let offset = place.stack_offset().filter(|_| place.index.is_none());
                offset.map(Spot::Slot)
            }
            _ => None,
        }
    }

    fn add(&mut self, at: InstrIx, value: Value) {
        self.found.insert(Maker { at, value });
    }
}

fn is_call(instr: &Instruction) -> bool {
    matches!(
        instr.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    )
}

fn held(state: &State, spot: Spot) -> Value {
    match spot {
        Spot::Register(gpr) => state.get(gpr),
        Spot::Slot(offset) => [4, 8, 1, 2]
            .into_iter()
            .find_map(|width| state.slot(offset, width))
            .unwrap_or(Value::Unknown),
    }
}

//! What registers and stack slots hold, symbolically, at each instruction of a function.
//!
//! A forward pass gives every register at every point a *value number*: the value that a register had at
//! function entry, that an instruction produced, or that paths brought together, plus a constant. Two equal
//! values are equal at run time; nothing is claimed of values that differ. That is enough to tell a stack
//! slot from a global from the heap, to see that `[rax+0x18]` is the variable `f` plus 24 bytes, and which
//! constant reaches the start-routine argument of `pthread_create`.
//!
//! Memory is followed only through the function's own stack frame. A slot whose address left the function
//! is forgotten at each call and at each store through a pointer.

mod makers;
mod state;
mod transfer;

use std::collections::VecDeque;

use crate::addr::LinkAddr;
use crate::code::access::AccessReader;
use crate::code::{Access, AccessKind, BlockId, Exit, FlowGraph, InstrIx};
pub use makers::Maker;
pub use state::{Base, Gpr, Spot, State, Value};
use transfer::Stepper;

/// The memory that an explicit operand refers to, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The part of the address that does not vary with `index`.
    pub base: Value,
    /// Register and scale of a varying part.
    pub index: Option<(Value, u8)>,
    /// Relative to the thread pointer.
    pub thread_local: bool,
}

impl Place {
    /// The offset from the stack pointer at function entry, for memory in this function's own frame.
    #[must_use]
    pub fn stack_offset(&self) -> Option<i64> {
        if self.thread_local {
            None
        } else {
            self.base.stack_offset()
        }
    }

    /// The address, for memory at a fixed place in the module. With an index it is where the array starts.
    #[must_use]
    pub fn static_addr(&self) -> Option<LinkAddr> {
        match self.base {
            Value::Const(addr) if !self.thread_local && addr != 0 => Some(LinkAddr(addr)),
            _ => None,
        }
    }

    /// The memory at an address that is a value.
    #[must_use]
    pub fn at(base: Value) -> Self {
        Self {
            base,
            index: None,
            thread_local: false,
        }
    }

    /// The memory of an access made in `state`.
    fn of(access: &Access, state: &State) -> Self {
        let thread_local = access.segment.is_some();
        let register = |register| Gpr::of(register).map_or(Value::Unknown, |gpr| state.get(gpr));
        let base = match access.base {
            None => Value::Const(access.disp.cast_unsigned()),
            Some(base) => register(base).plus(access.disp),
        };
        let Some((index, scale)) = access.index else {
            return Self {
                base,
                index: None,
                thread_local,
            };
        };
        let scale = u8::try_from(scale).unwrap_or(1);
        match register(index) {
            // An index that is a known number is just a displacement.
            Value::Const(number) if number < 1 << 32 => {
                let shift = number.wrapping_mul(u64::from(scale)).cast_signed();
                Self {
                    base: base.plus(shift),
                    index: None,
                    thread_local,
                }
            }
            // `[index + array]`: compilers put the known address into either register.
            address @ Value::Const(_) if scale == 1 => Self {
                base: address.plus(access.disp),
                index: Some((register(access.base.unwrap_or(index)), 1)),
                thread_local,
            },
            varying => Self {
                base,
                index: Some((varying, scale)),
                thread_local,
            },
        }
    }
}

/// A memory access with the place that it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedAccess {
    /// What it does.
    pub kind: AccessKind,
    /// Where.
    pub place: Place,
    /// How many bytes; `None` when only the run tells.
    pub width: Option<u32>,
    /// Made by the stack engine (`push`, `call`) rather than by an operand.
    pub implicit: bool,
}

/// The value numbers of one function.
#[derive(Debug)]
pub struct Values {
    /// State at the start of each block; `None` for blocks that nothing reaches.
    starts: Vec<Option<State>>,
    /// All accesses, in instruction order.
    accesses: Vec<PlacedAccess>,
    /// For each instruction, where its accesses end in `accesses`.
    ends: Vec<u32>,
    /// The stack pointer before each instruction, relative to function entry.
    depths: Vec<Option<i64>>,
}

/// What a slot that never changes after start-up holds: the caller knows the file, this module does not.
pub type Constants<'c> = &'c dyn Fn(LinkAddr) -> Option<LinkAddr>;

/// Passes over one block before its state is given up as unknown; value numbers settle after two or three.
const MAX_VISITS: u16 = 64;

impl Values {
    /// Runs the analysis over one function.
    #[must_use]
    pub fn analyse(flow: &FlowGraph, constants: Constants<'_>) -> Self {
        let mut stepper = Stepper::new(constants);
        let mut values = Self {
            starts: fixpoint(flow, &mut stepper),
            accesses: Vec::new(),
            ends: Vec::with_capacity(flow.instructions.len()),
            depths: vec![None; flow.instructions.len()],
        };
        let mut reader = AccessReader::default();
        for (block, start) in flow.blocks.iter().zip(&values.starts) {
            // Blocks are in address order and cover all instructions, so the ends come out in order too.
            let mut state = start.clone();
            for ix in block.indices() {
                let Some(instr) = flow.instruction(ix) else { break };
                if let Some(state) = &mut state {
                    let placed = reader
                        .read(instr)
                        .iter()
                        .map(|access| PlacedAccess::new(access, state));
                    values.accesses.extend(placed);
                    values.depths[ix.0 as usize] = state.get(Gpr::RSP).stack_offset();
                    stepper.step(instr, ix, state);
                }
                values
                    .ends
                    .push(u32::try_from(values.accesses.len()).unwrap_or(u32::MAX));
            }
        }
        values
    }

    /// An instruction's accesses to memory, with where they go.
    #[must_use]
    pub fn accesses(&self, ix: InstrIx) -> &[PlacedAccess] {
        let index = ix.0 as usize;
        let end = self.ends.get(index).copied().unwrap_or(0) as usize;
        let start = index
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0) as usize;
        self.accesses.get(start..end).unwrap_or_default()
    }

    /// The memory operand that stands in an instruction, if it has one and is reached.
    #[must_use]
    pub fn place(&self, ix: InstrIx) -> Option<Place> {
        self.accesses(ix)
            .iter()
            .find(|access| !access.implicit)
            .map(|access| access.place)
    }

    /// The stack pointer before an instruction, relative to its value at function entry.
    #[must_use]
    pub fn stack_depth(&self, ix: InstrIx) -> Option<i64> {
        self.depths.get(ix.0 as usize).copied().flatten()
    }

    /// The state just before an instruction; `None` when nothing reaches it.
    #[must_use]
    pub fn before(&self, flow: &FlowGraph, ix: InstrIx, constants: Constants<'_>) -> Option<State> {
        let id = flow.block_of(ix)?;
        let mut state = self.starts.get(id.0 as usize)?.clone()?;
        let mut stepper = Stepper::new(constants);
        for earlier in flow.block(id)?.indices().take_while(|&earlier| earlier < ix) {
            stepper.step(flow.instruction(earlier)?, earlier, &mut state);
        }
        Some(state)
    }
}

impl PlacedAccess {
    fn new(access: &Access, state: &State) -> Self {
        Self {
            kind: access.kind,
            place: Place::of(access, state),
            width: (access.width > 0).then_some(access.width),
            implicit: access.stack_engine(),
        }
    }
}

fn fixpoint(flow: &FlowGraph, stepper: &mut Stepper<'_>) -> Vec<Option<State>> {
    let mut starts: Vec<Option<State>> = vec![None; flow.blocks.len()];
    let mut visits = vec![0u16; flow.blocks.len()];
    let mut queue = VecDeque::new();
    if let Some(entry) = flow.entry {
        starts[entry.0 as usize] = Some(State::at_entry());
        queue.push_back(entry);
    }
    let mut pads: Vec<BlockId> = (0..)
        .zip(&flow.blocks)
        .filter(|(_, block)| block.exceptional)
        .map(|(id, _)| BlockId(id))
        .collect();
    pads.reverse();
    loop {
        while let Some(id) = queue.pop_front() {
            visit(flow, id, &mut starts, &mut visits, &mut queue, stepper);
        }
        // Landing pads are entered by the unwinder, with the frame that the function's calls have.
        let Some(pad) = pads.pop() else { break };
        if starts[pad.0 as usize].is_none() {
            starts[pad.0 as usize] = Some(state_at_landing_pad(flow, &starts, pad, stepper));
            queue.push_back(pad);
        }
    }
    starts
}

fn visit(
    flow: &FlowGraph,
    id: BlockId,
    starts: &mut [Option<State>],
    visits: &mut [u16],
    queue: &mut VecDeque<BlockId>,
    stepper: &mut Stepper<'_>,
) {
    let index = id.0 as usize;
    let (Some(mut state), block) = (starts[index].clone(), &flow.blocks[index]) else {
        return;
    };
    for ix in block.indices() {
        let Some(instr) = flow.instruction(ix) else { break };
        stepper.step(instr, ix, &mut state);
    }
    for &next in &block.succs {
        let target = next.0 as usize;
        let changed = match &mut starts[target] {
            empty @ None => {
                *empty = Some(state.clone());
                true
            }
            Some(known) => known.join(&state, next.0),
        };
        if changed && visits[target] < MAX_VISITS {
            visits[target] += 1;
            queue.push_back(next);
        }
    }
}

fn state_at_landing_pad(
    flow: &FlowGraph,
    starts: &[Option<State>],
    pad: BlockId,
    stepper: &mut Stepper<'_>,
) -> State {
    let mut state = State::unknown(pad.0);
    let calling = flow
        .blocks
        .iter()
        .zip(starts)
        .find_map(|(block, start)| match (&block.exit, start) {
            (Exit::Call(_) | Exit::NoReturnCall(_), Some(start)) => Some((block, start)),
            _ => None,
        });
    if let Some((block, start)) = calling {
        let mut at_call = start.clone();
        for ix in block.indices().take_while(|&ix| ix < block.last()) {
            let Some(instr) = flow.instruction(ix) else { break };
            stepper.step(instr, ix, &mut at_call);
        }
        for gpr in [Gpr::RSP, Gpr::RBP] {
            if at_call.get(gpr).stack_offset().is_some() {
                state.set(gpr, at_call.get(gpr));
            }
        }
    }
    state
}

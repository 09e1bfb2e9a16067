//! One function as the dependence analysis sees it: flow graph, values, effects and control dependence,
//! each worked out once and only when asked for.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic};
use program::code::{BlockId, Exit, FlowGraph, InstrIx, Target};
use program::source::VarLocation;
use program::values::{Gpr, PlacedAccess, State, Value, Values};
use program::{FunctionRef, LinkAddr, LinkRange, Module, Pc};

use crate::cfg::{Cfg, of_flow};
use crate::control::ControlDependence;
use crate::dependence::effects::Effects;
use crate::dependence::location::{Location, Overlap};
use crate::dependence::summary::Summary;
use crate::dominance::{DomTree, PostDomTree};

/// A function with everything that is known about it.
pub struct FunctionView<'p, 'a> {
    /// Which function.
    pub id: FunctionRef,
    /// Its blocks and instructions.
    pub flow: Arc<FlowGraph>,
    /// What its registers and slots hold.
    pub values: Values,
    module: &'p Module<'a>,
    effects: Vec<Effects>,
    cfg: OnceCell<Cfg>,
    control: OnceCell<ControlDependence>,
    dominators: OnceCell<DomTree>,
    landings: OnceCell<Vec<(LinkRange, LinkAddr)>>,
}

impl<'p, 'a> FunctionView<'p, 'a> {
    /// Looks at a function.
    #[must_use]
    pub fn new(module: &'p Module<'a>, id: FunctionRef) -> Self {
        let flow = module.code().flow(id.function);
        let values = Values::analyse(&flow, &|slot| module.constant_pointer(slot));
        let mut factory = InstructionInfoFactory::new();
        let effects = flow
            .instructions
            .iter()
            .map(|instr| Effects::of(instr, &mut factory))
            .collect();
        Self {
            id,
            flow,
            values,
            module,
            effects,
            cfg: OnceCell::new(),
            control: OnceCell::new(),
            dominators: OnceCell::new(),
            landings: OnceCell::new(),
        }
    }

    /// The module that the function is in.
    #[must_use]
    pub fn module(&self) -> &'p Module<'a> {
        self.module
    }

    /// An instruction.
    #[must_use]
    pub fn instruction(&self, ix: InstrIx) -> Option<&Instruction> {
        self.flow.instructions.get(ix.0 as usize)
    }

    /// Where an instruction is.
    #[must_use]
    pub fn pc(&self, ix: InstrIx) -> Option<Pc> {
        let addr = LinkAddr(self.instruction(ix)?.ip());
        Some(Pc {
            module: self.id.module,
            addr,
        })
    }

    /// An instruction's effect on registers.
    #[must_use]
    pub fn effects(&self, ix: InstrIx) -> Effects {
        self.effects.get(ix.0 as usize).copied().unwrap_or_default()
    }

    /// Whom an instruction calls, if it is a call (a tail call counts).
    #[must_use]
    pub fn call_target(&self, ix: InstrIx) -> Option<Target> {
        let block = self.flow.block(self.flow.block_of(ix)?)?;
        if block.last() == ix {
            block.exit.target()
        } else {
            None
        }
    }

    /// Whether an instruction is a call that leaves this function for good.
    #[must_use]
    pub fn is_tail_call(&self, ix: InstrIx) -> bool {
        let block = self.flow.block_of(ix).and_then(|id| self.flow.block(id));
        block.is_some_and(|block| {
            block.last() == ix && matches!(block.exit, Exit::TailCall(_) | Exit::ConditionalTailCall(_))
        })
    }

    /// What a library function that an instruction calls does; `None` if it calls no library by name.
    #[must_use]
    pub fn library_summary(&self, ix: InstrIx) -> Option<Summary> {
        match self.call_target(ix)? {
            Target::Import(import) => self.module.elf().import_name(import).map(Summary::of),
            _ => None,
        }
    }

    /// What registers and slots hold just before an instruction.
    #[must_use]
    pub fn state_before(&self, ix: InstrIx) -> Option<State> {
        self.values
            .before(&self.flow, ix, &|slot| self.module.constant_pointer(slot))
    }

    /// What a register most likely holds before an instruction, one value for each way there.
    #[must_use]
    pub fn likely_values(&self, before: InstrIx, register: Gpr) -> Vec<Value> {
        let constants = |slot| self.module.constant_pointer(slot);
        let makers = self
            .values
            .likely_makers(&self.flow, before, register, &constants);
        makers.into_iter().map(|maker| maker.value).collect()
    }

    /// Whether an instruction is a call.
    #[must_use]
    pub fn is_call(&self, ix: InstrIx) -> bool {
        self.call_target(ix).is_some()
    }

    /// Whether an instruction just moves a value between registers and the function's own frame.
    #[must_use]
    pub fn is_move(&self, ix: InstrIx) -> bool {
        let plain = self.instruction(ix).is_some_and(|instr| {
            use Mnemonic::{Mov, Movapd, Movaps, Movd, Movq, Movsd, Movss, Movsx, Movsxd, Movups, Movzx};
            let moves = [
                Mov, Movzx, Movsx, Movsxd, Movd, Movq, Movss, Movsd, Movaps, Movapd, Movups,
            ];
            moves.contains(&instr.mnemonic())
        });
        let outside = |access: &PlacedAccess| access.place.stack_offset().is_none();
        plain && !self.values.accesses(ix).iter().any(outside)
    }

    /// The function's blocks as a graph.
    #[must_use]
    pub fn cfg(&self) -> &Cfg {
        self.cfg.get_or_init(|| of_flow(&self.flow))
    }

    /// Its dominators.
    #[must_use]
    pub fn dominators(&self) -> &DomTree {
        self.dominators.get_or_init(|| DomTree::new(self.cfg()))
    }

    /// Its control dependences.
    #[must_use]
    pub fn control(&self) -> &ControlDependence {
        self.control
            .get_or_init(|| ControlDependence::new(self.cfg(), PostDomTree::new(self.cfg())))
    }

    /// The branches that decide whether a block runs: the last instruction of each deciding block.
    #[must_use]
    pub fn deciding_branches(&self, block: BlockId) -> Vec<InstrIx> {
        let mut branches: Vec<InstrIx> = self
            .control()
            .of(block.0 as usize)
            .into_iter()
            .filter_map(|decision| self.flow.blocks.get(decision.block))
            .map(program::code::Block::last)
            .collect();
        branches.sort_unstable();
        branches.dedup();
        branches
    }

    /// The blocks whose last call may throw to a landing pad.
    #[must_use]
    pub fn throwing_to(&self, pad: BlockId) -> Vec<BlockId> {
        let Some(at) = self.flow.block(pad).map(|block| block.start) else {
            return Vec::new();
        };
        let landings = self
            .landings
            .get_or_init(|| self.module.code().landings(self.id.function));
        let mut calls: Vec<LinkRange> = landings
            .iter()
            .filter(|(_, pad)| *pad == at)
            .map(|(calls, _)| calls.clone())
            .collect();
        calls.sort_unstable_by_key(|range| range.start);
        if calls.is_empty() {
            return Vec::new();
        }
        let throws = |block: &program::code::Block| {
            let at = self.flow.addr(block.last());
            block.exit.target().is_some()
                && at.is_some_and(|at| calls.iter().any(|range| range.contains(&at)))
        };
        (0..)
            .map(BlockId)
            .zip(&self.flow.blocks)
            .filter(|(_, block)| throws(block))
            .map(|(id, _)| id)
            .collect()
    }

    /// The instructions after which the function is left with a result: returns and tail calls.
    #[must_use]
    pub fn leaving(&self) -> Vec<InstrIx> {
        self.flow
            .blocks
            .iter()
            .filter(|block| block.exit.leaves())
            .map(program::code::Block::last)
            .collect()
    }

    /// What an access does to a wanted location. An element of a global array can be any of that array's, and
    /// no neighbour's.
    #[must_use]
    pub fn overlap(&self, wanted: &Location, access: &PlacedAccess) -> Overlap {
        if let (Location::Static { addr, .. }, Some(array), Some(_)) =
            (wanted, access.place.static_addr(), access.place.index)
        {
            let object = self.module.object_around(array, 1);
            return if object.contains(addr) {
                Overlap::Partial
            } else {
                Overlap::None
            };
        }
        wanted.overlap(&access.place, access.width)
    }

    /// The stack offsets of the local variable that one is in, as the debug information has it at `at`.
    #[must_use]
    pub fn frame_object(&self, at: InstrIx, offset: i64) -> Option<Range<i64>> {
        let sources = self.module.sources();
        let variables = sources.variables_at(self.pc(at)?.addr);
        let state = self.state_before(at)?;
        variables.iter().find_map(|variable| {
            let start = match &variable.location {
                // The canonical frame address is what the stack pointer was before the return address.
                VarLocation::Cfa(from_cfa) => from_cfa.checked_add(8)?,
                VarLocation::RegisterOffset { register, offset } => {
                    let base = state.get(Gpr::from_dwarf(*register)?).stack_offset()?;
                    base.checked_add(*offset)?
                }
                _ => return None,
            };
            let size = i64::try_from(sources.ty(variable.ty?).size()?).ok()?;
            let object = start..start.checked_add(size)?;
            object.contains(&offset).then_some(object)
        })
    }
}

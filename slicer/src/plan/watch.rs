//! Which memory to watch for a statement, and from which point on its address is known.

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, Register,
};
use program::code::{Access, AccessKind, BlockId, FlowGraph, InstrIx, Operand, accesses};
use program::values::{Base, Constants, Gpr, Value, Values};
use program::{LinkAddr, ModuleId, Pc};

use crate::cfg::{Cfg, Direction};
use crate::dependence::passed::Passed;
use crate::dominance::DomTree;

/// How to work out the address of an access at the point where its watch is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressExpr {
    /// Always the same place of its module.
    Static(LinkAddr),
    /// `base + index · scale + disp`, of registers as they are at the arming point.
    Registers {
        /// Base register.
        base: Option<Register>,
        /// Index register and scale.
        index: Option<(Register, u32)>,
        /// Displacement.
        disp: i64,
    },
}

/// Where the address is known earlier than in registers at the arming point: arming there loses fewer
/// accesses of other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Early {
    /// From the start: it never changes.
    Start,
    /// When the function is entered: an argument register plus an offset. The caller, or the creator of the
    /// thread, knows it even earlier.
    Argument {
        /// The register.
        register: Gpr,
        /// Added to it.
        offset: i64,
    },
    /// When the function is entered: its frame has a place for what other threads are given. Nobody has it before.
    Frame {
        /// From the stack pointer at the function's entry.
        offset: i64,
    },
    /// When a call returns: its result plus an offset. An allocation, often.
    Result {
        /// The call.
        call: Pc,
        /// Added to `rax`.
        offset: i64,
    },
    /// When a pointer that never moves is written: what it holds plus an offset.
    Pointer {
        /// The pointer's place in the module of the access.
        at: LinkAddr,
        /// Added to what it holds.
        offset: i64,
    },
}

/// Memory behind an argument of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Argument {
    /// The register that it is passed in.
    pub register: Gpr,
    /// From where it points.
    pub offset: i64,
}

/// A memory access to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchSite {
    /// The accessing instruction, or the call that has it made.
    pub access: Pc,
    /// The argument that leads to the memory, for a call whose callee makes the access.
    pub passed: Option<Argument>,
    /// What it does.
    pub kind: AccessKind,
    /// Bytes; at least one.
    pub width: u32,
    /// How far into what is accessed they begin: of an access to several fields at once, each is watched for itself.
    pub within: u32,
    /// Their address.
    pub address: AddressExpr,
    /// The earliest instruction, before the access and on every way to it, at which the address's registers
    /// have the values that the access uses.
    pub arm_at: Pc,
    /// Where it may be armed even earlier.
    pub early: Option<Early>,
}

impl WatchSite {
    /// Whether this watch, of a place that never changes, sees all that the other would.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self.address, other.address) {
            (AddressExpr::Static(mine), AddressExpr::Static(its)) => {
                let end = |addr: LinkAddr, width: u32| addr.0.saturating_add(u64::from(width));
                self.access.module == other.access.module
                    && mine <= its
                    && end(its, other.width) <= end(mine, self.width)
            }
            _ => self.access == other.access && self.address == other.address,
        }
    }
}

/// A function whose accesses are to be watched.
pub(super) struct Function<'f> {
    pub module: ModuleId,
    pub flow: &'f FlowGraph,
    /// Whether other threads may use what is at an offset of the frame.
    pub shared: &'f dyn Fn(i64) -> bool,
    pub values: &'f Values,
    pub constants: Constants<'f>,
    pub cfg: &'f Cfg,
    pub before: &'f DomTree,
}

impl Function<'_> {
    /// The watch sites of one instruction: its accesses to memory that other threads may share. The stack, but for what
    /// the function gives away, and thread-local storage are this thread's own; what a `rep` instruction covers is not
    /// known before.
    pub(super) fn sites(&self, ix: InstrIx) -> Vec<WatchSite> {
        let Some(instruction) = self.flow.instruction(ix) else {
            return Vec::new();
        };
        let shared = accesses(instruction).filter(|access| {
            let own_stack = self
                .base_value(ix, access)
                .is_some_and(|value| self.is_own(access, value));
            access.operand != Operand::Stack && access.segment.is_none() && access.width > 0 && !own_stack
        });
        let pieces = shared.flat_map(|access| pieces(&access));
        pieces
            .filter_map(|(within, piece)| {
                let site = self.site(ix, &piece)?;
                Some(WatchSite { within, ..site })
            })
            .collect()
    }

    /// The watch sites of a call for memory that is accessed behind one of its arguments.
    pub(super) fn passed(&self, call: InstrIx, passed: &Passed) -> Vec<WatchSite> {
        let access = Access {
            kind: passed.kind,
            width: passed.width,
            base: Some(passed.argument.register()),
            index: None,
            disp: passed.offset,
            segment: None,
            conditional: true,
            operand: Operand::Explicit,
        };
        let value = self.base_value(call, &access);
        if value.is_none_or(|value| self.is_own(&access, value)) {
            return Vec::new();
        }
        let sites = pieces(&access).filter_map(|(within, piece)| {
            let argument = Argument {
                register: passed.argument,
                offset: piece.disp,
            };
            let site = self.site(call, &piece)?;
            Some(WatchSite {
                passed: Some(argument),
                within,
                ..site
            })
        });
        sites.collect()
    }

    /// Whether an access is to a part of the frame that nobody else has. An element of an array there is the thread's own
    /// as far as is known: which one it is, nobody can tell when the function is entered.
    fn is_own(&self, access: &Access, address: Value) -> bool {
        let offset = address.stack_offset();
        offset.is_some_and(|offset| access.index.is_some() || !(self.shared)(offset))
    }

    fn site(&self, ix: InstrIx, access: &Access) -> Option<WatchSite> {
        let pc = |addr| Pc {
            module: self.module,
            addr,
        };
        let at = self.flow.addr(ix)?;
        let known = self.base_value(ix, access).filter(|_| access.index.is_none());
        let fixed = access.address().or(match known {
            Some(Value::Const(addr)) => Some(LinkAddr(addr)),
            _ => None,
        });
        if fixed == Some(LinkAddr(0)) {
            return None;
        }
        let early = match known {
            _ if fixed.is_some() => Some(Early::Start),
            Some(Value::Sum(base, offset)) => self.early(base, offset),
            _ => None,
        };
        let address = match fixed {
            Some(addr) => AddressExpr::Static(addr),
            None => AddressExpr::Registers {
                base: access.base,
                index: access.index,
                disp: access.disp,
            },
        };
        let registers: Vec<Register> = access
            .base
            .into_iter()
            .chain(access.index.map(|(register, _)| register))
            .collect();
        let arm_at = match fixed {
            Some(_) => self.flow.addr(InstrIx(self.entry_instruction()?))?,
            None => self.final_from(ix, &registers).unwrap_or(at),
        };
        Some(WatchSite {
            access: pc(at),
            passed: None,
            kind: access.kind,
            width: access.width,
            within: 0,
            address,
            arm_at: pc(arm_at),
            early,
        })
    }

    fn entry_instruction(&self) -> Option<u32> {
        Some(self.flow.block(self.flow.entry?)?.instrs.start)
    }

    /// The part of the address that the index does not change, by value.
    fn base_value(&self, ix: InstrIx, access: &Access) -> Option<Value> {
        let Some(base) = access.base else {
            return Some(Value::Const(access.disp.cast_unsigned()));
        };
        let state = self.values.before(self.flow, ix, self.constants)?;
        Some(state.get(Gpr::of(base)?).plus(access.disp))
    }

    fn early(&self, base: Base, offset: i64) -> Option<Early> {
        match base {
            Base::Entry(Gpr::RSP) => Some(Early::Frame { offset }),
            Base::Entry(gpr) => {
                let early = Early::Argument {
                    register: gpr,
                    offset,
                };
                Gpr::ARGUMENTS.contains(&gpr).then_some(early)
            }
            Base::Made(maker, _) if self.pointer(maker).is_some() => Some(Early::Pointer {
                at: self.pointer(maker)?,
                offset,
            }),
            Base::Made(maker, Gpr::RAX) => {
                let instruction = self.flow.instruction(maker)?;
                let call = Pc {
                    module: self.module,
                    addr: LinkAddr(instruction.ip()),
                };
                is_call(instruction).then_some(Early::Result { call, offset })
            }
            Base::Made(..) | Base::Joined(..) => None,
        }
    }

    /// The place of the module that an instruction loads a pointer from.
    fn pointer(&self, maker: InstrIx) -> Option<LinkAddr> {
        const POINTER: u32 = 8;
        let instruction = self.flow.instruction(maker)?;
        if instruction.mnemonic() != Mnemonic::Mov {
            return None;
        }
        let mut loads = accesses(instruction).filter(|access| {
            access.kind == AccessKind::Read && access.width == POINTER && access.segment.is_none()
        });
        let load = loads.next()?;
        let value = || self.base_value(maker, &load).filter(|_| load.index.is_none());
        let at = load.address().or_else(|| match value() {
            Some(Value::Const(addr)) => Some(LinkAddr(addr)),
            _ => None,
        });
        at.filter(|at| at.0 != 0)
    }

    /// Walks up from the access, block by block along the dominators, while nothing between writes one of
    /// the registers.
    fn final_from(&self, ix: InstrIx, registers: &[Register]) -> Option<LinkAddr> {
        let mut writes = Writes {
            factory: InstructionInfoFactory::new(),
        };
        let mut block_id = self.flow.block_of(ix)?;
        let mut end = ix.0;
        let mut earliest = self.flow.addr(ix)?;
        loop {
            let block = self.flow.block(block_id)?;
            for earlier in (block.instrs.start..end).rev() {
                let instruction = self.flow.instruction(InstrIx(earlier))?;
                if writes.any(instruction, registers) {
                    return Some(earliest);
                }
                earliest = LinkAddr(instruction.ip());
            }
            let Some(dominator) = self.before.idom(block_id.0 as usize) else {
                return Some(earliest);
            };
            if self.changes_between(dominator, block_id.0 as usize, registers, &mut writes) {
                return Some(earliest);
            }
            block_id = BlockId(u32::try_from(dominator).ok()?);
            let Some(dominator) = self.flow.block(block_id) else {
                return Some(earliest);
            };
            end = dominator.instrs.end;
        }
    }

    /// Whether a way from the end of `from` to the start of `to` (not through `from` again) writes one of
    /// the registers.
    fn changes_between(&self, from: usize, to: usize, registers: &[Register], writes: &mut Writes) -> bool {
        let into = self.cfg.predecessors(to).iter().map(|&block| block as usize);
        let between = self.cfg.reach(into, Direction::Backward, |block| block == from);
        let inner = between.iter().enumerate().filter(|(_, inside)| **inside);
        inner
            .filter_map(|(block, _)| self.flow.blocks.get(block))
            .any(|block| {
                self.flow
                    .instructions_of(block)
                    .iter()
                    .any(|instruction| writes.any(instruction, registers))
            })
    }
}

/// What is watched of an access, with how far into it that begins. Compilers make one access of what the source does to
/// fields side by side: two threads that each access one of them have nothing to do with one another.
fn pieces(access: &Access) -> impl Iterator<Item = (u32, Access)> + use<> {
    const REGISTER: u32 = 8;
    // What is wider than all registers together is nobody's field.
    const WIDEST: u32 = 32;
    let whole = *access;
    let step = match whole.width {
        REGISTER..=WIDEST => REGISTER,
        width => width.max(1),
    };
    (0..whole.width.max(1)).step_by(step as usize).map(move |within| {
        let piece = Access {
            width: step.min(whole.width - within),
            disp: whole.disp.wrapping_add(i64::from(within)),
            ..whole
        };
        (within, piece)
    })
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    )
}

/// Which registers instructions write.
struct Writes {
    factory: InstructionInfoFactory,
}

impl Writes {
    fn any(&mut self, instruction: &Instruction, registers: &[Register]) -> bool {
        if is_call(instruction) {
            return registers
                .iter()
                .any(|&register| Gpr::of(register).is_none_or(|gpr| !gpr.survives_calls()));
        }
        let info = self
            .factory
            .info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
        info.used_registers().iter().any(|used| {
            let writes = !matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
            );
            writes && registers.contains(&used.register().full_register())
        })
    }
}

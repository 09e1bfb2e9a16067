//! Places in the code where a probe can stand and an address is known.

use std::path::PathBuf;
use std::sync::Arc;

use iced_x86::{FlowControl, Register};
use program::code::{FlowGraph, InstrIx, Target};
use program::{LinkAddr, ModuleId, Pc, Program};

use crate::access::keeps;
use crate::watcher::{Expression, Probe};

/// Functions that hand out memory which nobody else knows yet.
const ALLOCATIONS: [&str; 12] = [
    "malloc",
    "calloc",
    "aligned_alloc",
    "memalign",
    "strdup",
    "mmap",
    "_Znwm",
    "_Znam",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "__rust_alloc",
    "__rust_alloc_zeroed",
];

/// Finds places in a program.
pub(super) struct Points<'p, 'a> {
    program: &'p Program<'a>,
}

impl<'p, 'a> Points<'p, 'a> {
    pub(super) fn new(program: &'p Program<'a>) -> Self {
        Self { program }
    }

    /// The file of a module; `None` for the executable.
    pub(super) fn path(&self, module: ModuleId) -> Option<PathBuf> {
        let named = self.program.module(module).filter(|_| module != ModuleId(0));
        named.map(|module| PathBuf::from(module.name()))
    }

    /// The flow of the function around a place, and the instruction there.
    pub(super) fn look(&self, at: Pc) -> Option<(Arc<FlowGraph>, InstrIx)> {
        let function = self.program.function_at(at)?;
        let flow = self.program.module(at.module)?.code().flow(function.function);
        let ix = flow.at(at.addr)?;
        Some((flow, ix))
    }

    /// A probe at an instruction, which must leave the registers of the address alone.
    pub(super) fn at(&self, at: Pc, expression: Expression, late: bool) -> Option<Probe> {
        let (flow, ix) = self.look(at)?;
        let instruction = flow.instruction(ix)?;
        let index = expression.index.map(|(register, _)| register);
        let registers = expression.base.into_iter().chain(index);
        // A call changes registers when it returns, not when it is made.
        let is_call = matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        );
        let kept = |register: Register| {
            keeps(instruction, register) || is_call && register.full_register() != Register::RSP
        };
        if !registers.into_iter().all(kept) {
            return None;
        }
        let segments = self.program.module(at.module)?.elf().segments();
        Some(Probe {
            module: self.path(at.module),
            addr: at.addr,
            offset: segments.to_file_offset(at.addr)?,
            expression,
            late,
        })
    }

    /// Where a call returns: its result plus an offset. Only if nothing but the call leads there.
    pub(super) fn after_call(&self, call: Pc, offset: i64) -> Option<Probe> {
        let (flow, ix) = self.look(call)?;
        let next = LinkAddr(flow.instruction(ix)?.next_ip());
        let block = flow.block(flow.block_at(next)?)?;
        let calling = flow.block_of(ix)?;
        if block.preds.iter().any(|&before| before != calling) {
            return None;
        }
        let expression = Expression {
            base: Some(Register::RAX),
            index: None,
            disp: offset,
        };
        let at = Pc { addr: next, ..call };
        self.at(at, expression, !self.is_allocation(call))
    }

    /// Whether a call hands out memory that nobody else knows yet.
    pub(super) fn is_allocation(&self, call: Pc) -> bool {
        let name = || {
            let (flow, ix) = self.look(call)?;
            let (_, target, _) = flow.calls().find(|(at, ..)| *at == ix)?;
            let code = self.program.module(call.module)?.code();
            match target {
                Target::Function(_) | Target::Import(_) => code.target_name(target),
                Target::Unknown(_) | Target::Indirect => None,
            }
        };
        // The symbols of Rust's allocator have a hash around their name.
        name().is_some_and(|name| ALLOCATIONS.contains(&name) || name.contains("___rust_alloc"))
    }
}

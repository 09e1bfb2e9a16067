//! Places in the code where a probe can stand and an address is known.

use std::path::PathBuf;
use std::sync::Arc;

use iced_x86::{FlowControl, Instruction, Register};
use program::code::{FlowGraph, InstrIx, Target};
use program::values::Gpr;
use program::{FunctionRef, LinkAddr, ModuleId, Pc, Program};
use slicer::view::FunctionView;

use crate::access::keeps;
use crate::watcher::{Expression, Probe};

/// Functions that hand out memory which nobody else knows yet.
const ALLOCATIONS: [&str; 22] = [
    "malloc",
    "calloc",
    "aligned_alloc",
    "memalign",
    "valloc",
    "strdup",
    "strndup",
    "mmap",
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "g_malloc",
    "g_malloc0",
    "g_slice_alloc",
    "g_slice_alloc0",
    "__rust_alloc",
    "__rust_alloc_zeroed",
];

/// A function that returns at more places has a probe at the first of them only.
const MAX_RETURNS: usize = 4;

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

    /// Whether the program can change what is at an address.
    pub(super) fn is_variable(&self, module: ModuleId, addr: LinkAddr) -> bool {
        let module = self.program.module(module);
        module.is_some_and(|module| module.is_variable(addr))
    }

    /// The flow of the function around a place, and the instruction there.
    pub(super) fn look(&self, at: Pc) -> Option<(Arc<FlowGraph>, InstrIx)> {
        let function = self.program.function_at(at)?;
        let flow = self.program.module(at.module)?.code().flow(function.function);
        let ix = flow.at(at.addr)?;
        Some((flow, ix))
    }

    /// A probe for an address whose registers have their values before an instruction. The stop comes when the probed
    /// instruction has been executed; one that changes the registers (`mov rax, [rax+24]`) is left alone, as one that
    /// takes no probe, and the one before it probed, after which they have these values.
    pub(super) fn at(&self, at: Pc, expression: Expression, late: bool) -> Option<Probe> {
        let (flow, ix) = self.look(at)?;
        let index = expression.index.map(|(register, _)| register);
        let registers: Vec<Register> = expression.base.into_iter().chain(index).collect();
        let instruction = flow.instruction(ix)?;
        let probed = if leaves(instruction, &registers) && takes_probe(instruction) {
            at.addr
        } else {
            let block = flow.block(flow.block_of(ix)?)?;
            let before =
                ix.0.checked_sub(1)
                    .filter(|before| block.instrs.contains(before))?;
            LinkAddr(flow.instruction(InstrIx(before))?.ip())
        };
        let segments = self.program.module(at.module)?.elf().segments();
        Some(Probe {
            module: self.path(at.module),
            addr: probed,
            offset: segments.to_file_offset(probed)?,
            expression,
            late,
            nth: None,
        })
    }

    /// Where a function has been entered and a place in its frame is known, before anybody can have used it.
    pub(super) fn in_frame(&self, view: &FunctionView<'_, '_>, offset: i64) -> Option<Probe> {
        let entry = view.flow.block(view.flow.entry?)?;
        entry.instrs.clone().map(InstrIx).find_map(|ix| {
            let depth = view.state_before(ix)?.get(Gpr::RSP).stack_offset()?;
            let instruction = view.instruction(ix)?;
            let stays = leaves(instruction, &[Register::RSP]) && takes_probe(instruction);
            let expression = Expression {
                base: Some(Register::RSP),
                index: None,
                disp: offset.checked_sub(depth)?,
            };
            stays.then(|| self.at(view.pc(ix)?, expression, false))?
        })
    }

    /// Where a function of the program returns to whoever called it: its result plus an offset. That is earlier than
    /// the use of one result where several callers are given the same thing.
    pub(super) fn at_returns_of(&self, call: Pc, offset: i64) -> Vec<Probe> {
        let returns = || {
            let callee = self.callee(call).filter(|_| !self.is_allocation(call))?;
            let module = callee.module;
            // What a library returns, and an allocator above all, is everybody's: one register would follow whoever asked last.
            let of_program = self
                .program
                .module(module)
                .filter(|module| !module.is_library())?;
            let flow = of_program.code().flow(callee.function);
            let expression = Expression {
                base: Some(Register::RAX),
                index: None,
                disp: offset,
            };
            let ends = flow.blocks.iter().filter_map(|block| {
                let last = InstrIx(block.instrs.end.checked_sub(1)?);
                let instruction = flow.instruction(last)?;
                (instruction.flow_control() == FlowControl::Return).then(|| LinkAddr(instruction.ip()))
            });
            let probes = ends.filter_map(|addr| self.at(Pc { module, addr }, expression, true));
            Some(probes.take(MAX_RETURNS).collect())
        };
        returns().unwrap_or_default()
    }

    /// The function of the program that is called.
    pub(super) fn callee(&self, call: Pc) -> Option<FunctionRef> {
        let module = self.program.module(call.module)?;
        match self.target(call)? {
            Target::Function(function) => Some(FunctionRef {
                module: call.module,
                function,
            }),
            Target::Import(import) => self.program.exported(module.elf().import_name(import)?),
            Target::Unknown(_) | Target::Indirect => None,
        }
    }

    fn target(&self, call: Pc) -> Option<Target> {
        let (flow, ix) = self.look(call)?;
        let (_, target, _) = flow.calls().find(|(at, ..)| *at == ix)?;
        Some(target)
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
            let target = self.target(call)?;
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

/// Whether registers have the same values after an instruction, as far as it can be told where it ends.
fn leaves(instruction: &Instruction, registers: &[Register]) -> bool {
    // A call changes registers when it returns, not when it is made.
    let is_call = matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    );
    let kept = |&register: &Register| {
        keeps(instruction, register) || is_call && register.full_register() != Register::RSP
    };
    registers.iter().all(kept)
}

/// Whether the kernel sets probes on such an instruction: not where it has a `lock` or an old segment prefix.
fn takes_probe(instruction: &Instruction) -> bool {
    let old_segment = matches!(
        instruction.segment_prefix(),
        Register::ES | Register::CS | Register::SS | Register::DS
    );
    !instruction.has_lock_prefix() && !old_segment
}

//! Frames that tail calls took off the stack.
//!
//! Optimised code ends a function in a jump where the source has `return other();` or a last `free(p);`, and
//! the function leaves no frame behind. But the call in the outer frame says who was called: where the inner
//! frame is another function and just one chain of jumps leads from the first to the second, the functions
//! of that chain were running.

use program::code::{Exit, FunctionId, InstrIx, Target};
use program::{FunctionRef, Pc, Program};

use super::ResolvedFrame;
use super::frame::tail_caller;
use crate::report::{FrameOrigin, Position};

/// Jumps in a chain.
const MAX_CHAIN: usize = 8;
/// Functions looked at for one chain.
const MAX_FUNCTIONS: usize = 64;

/// A jump that leaves a function for another.
type Jump = (FunctionRef, InstrIx);

/// Puts the frames back that tail calls removed.
pub(super) fn restore(program: &Program<'_>, frames: Vec<ResolvedFrame>) -> Vec<ResolvedFrame> {
    let mut restored: Vec<ResolvedFrame> = Vec::with_capacity(frames.len());
    for frame in frames {
        let missing = restored
            .last()
            .map_or_else(Vec::new, |inner| between(program, inner, &frame));
        restored.extend(missing.iter().rev().filter_map(|&jump| jumping(program, jump)));
        restored.push(frame);
    }
    restored
}

/// The jumps between a frame and the one that called, outermost first.
fn between(program: &Program<'_>, inner: &ResolvedFrame, outer: &ResolvedFrame) -> Vec<Jump> {
    let usable = |frame: &ResolvedFrame| {
        !frame.line_only && !matches!(frame.origin, FrameOrigin::Scan | FrameOrigin::SignalFrame)
    };
    if outer.position != Position::Return || !usable(inner) || !usable(outer) {
        return Vec::new();
    }
    let Some(called) = outer.executing().and_then(|pc| called_at(program, pc)) else {
        return Vec::new();
    };
    let reached = inner.executing().and_then(|pc| program.function_at(pc));
    if reached == Some(called) || !program.is_own(called) {
        return Vec::new();
    }
    let mut search = Search {
        program,
        reached,
        looked_at: 0,
        direct: Vec::new(),
        possible: Vec::new(),
    };
    search.follow(called, &mut Vec::new());
    // A jump whose target only the run knew counts where no other jump explains the frame.
    let mut chains = if search.direct.is_empty() {
        search.possible
    } else {
        search.direct
    };
    match chains.pop() {
        Some(chain) if chains.is_empty() && search.looked_at < MAX_FUNCTIONS => chain,
        _ => Vec::new(),
    }
}

fn called_at(program: &Program<'_>, pc: Pc) -> Option<FunctionRef> {
    let caller = program.function_at(pc)?;
    let target = program.module(pc.module)?.code().call_at(pc.addr)?;
    function_of(program, caller, target)
}

fn function_of(program: &Program<'_>, caller: FunctionRef, target: Target) -> Option<FunctionRef> {
    let in_module = |function: FunctionId| FunctionRef { function, ..caller };
    match target {
        Target::Function(function) => Some(in_module(function)),
        Target::Import(import) => {
            let module = program.module(caller.module)?;
            program.exported(module.elf().import_name(import)?)
        }
        Target::Unknown(_) | Target::Indirect => None,
    }
}

struct Search<'s, 'a> {
    program: &'s Program<'a>,
    /// The function of the inner frame; `None` for a jump to where no code is.
    reached: Option<FunctionRef>,
    looked_at: usize,
    direct: Vec<Vec<Jump>>,
    possible: Vec<Vec<Jump>>,
}

impl Search<'_, '_> {
    fn follow(&mut self, function: FunctionRef, chain: &mut Vec<Jump>) {
        let again = chain.iter().any(|(earlier, _)| *earlier == function);
        if again || chain.len() >= MAX_CHAIN || self.looked_at >= MAX_FUNCTIONS {
            return;
        }
        self.looked_at += 1;
        let Some(module) = self.program.module(function.module) else {
            return;
        };
        let flow = module.code().flow(function.function);
        for (ix, target, exit) in flow.calls() {
            if !matches!(exit, Exit::TailCall(_) | Exit::ConditionalTailCall(_)) {
                continue;
            }
            chain.push((function, ix));
            match function_of(self.program, function, target) {
                Some(next) if Some(next) == self.reached => self.direct.push(chain.clone()),
                Some(next) if self.program.is_own(next) => self.follow(next, chain),
                Some(_) => {}
                None => self.possible.push(chain.clone()),
            }
            chain.pop();
        }
    }
}

fn jumping(program: &Program<'_>, (function, ix): Jump) -> Option<ResolvedFrame> {
    let flow = program.module(function.module)?.code().flow(function.function);
    let after = flow.instruction(ix)?.next_ip();
    let pc = Pc {
        module: function.module,
        addr: program::LinkAddr(after),
    };
    Some(tail_caller(program, pc))
}

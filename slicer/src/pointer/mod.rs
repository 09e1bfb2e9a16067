//! The memory that a pointer came from which a crash went through.
//!
//! A thread that follows a pointer to nowhere has it from somewhere: the failing function loaded it, or was passed it by one that did. Who
//! put it there is the first thing to ask, however many other things the failing statement depends on. So it is with a zero that a thread
//! divided by (`divisor`).

mod divisor;

use failure::report::Position;
use failure::resolve::ResolvedFrame;
use failure::{Failure, Signal};
use iced_x86::{Instruction, OpKind};
use program::code::{AccessKind, InstrIx};
use program::expression::Shape;
use program::naming::Namer;
use program::values::{Base, Gpr, PlacedAccess, Value};
use program::{Pc, Program};

use crate::view::FunctionView;

/// SIGBUS and SIGSEGV: an address led nowhere.
const FAULTS: [Signal; 2] = [Signal(7), Signal(11)];
/// SIGFPE: of whole numbers, a division by zero.
const DIVISION: Signal = Signal(8);
/// Instructions and calls that are gone back.
const DEPTH: usize = 8;
/// Arguments of a call of which nobody knows how many it takes.
const USUAL_ARGUMENTS: u8 = 2;

/// What a thread failed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// A pointer that led nowhere.
    Pointer,
    /// A zero that it divided by.
    Divisor,
}

/// What a thread failed of, if it was one of these.
#[must_use]
pub fn bad(failure: &Failure) -> Option<Bad> {
    match failure.signal? {
        signal if FAULTS.contains(&signal) => Some(Bad::Pointer),
        DIVISION => Some(Bad::Divisor),
        _ => None,
    }
}

/// The instructions that loaded the pointers which the address of the failing access is made of, or which the failing call was passed,
/// or what the divisor is computed from; and the calls that returned these.
#[must_use]
pub fn loads(failure: &Failure, program: &Program<'_>) -> Vec<Pc> {
    let thread = failure.threads.get(failure.failing);
    let frames = thread
        .zip(failure.failing_frame)
        .and_then(|(thread, index)| thread.frames.get(index..));
    let (Some([failing, callers @ ..]), Some(bad)) = (frames, bad(failure)) else {
        return Vec::new();
    };
    if bad == Bad::Divisor {
        return divisor::loads(failing, callers, program);
    }
    let mut way = Way {
        program,
        loads: Vec::new(),
    };
    way.begin(failing, callers);
    way.loads
}

/// Where a frame was in its function.
pub(crate) fn located<'p, 'a>(
    program: &'p Program<'a>,
    frame: &ResolvedFrame,
) -> Option<(FunctionView<'p, 'a>, InstrIx)> {
    let pc = frame.executing().filter(|_| !frame.line_only)?;
    let view = FunctionView::new(program.module(pc.module)?, program.function_at(pc)?);
    let at = view.flow.containing(pc.addr)?;
    Some((view, at))
}

/// Those of them that are calls: what each returned, nobody who watches memory sees.
#[must_use]
pub fn results(failure: &Failure, program: &Program<'_>) -> Vec<Pc> {
    let is_call = |pc: &Pc| {
        let view = program.module(pc.module).zip(program.function_at(*pc));
        let view = view.map(|(module, function)| FunctionView::new(module, function));
        view.is_some_and(|view| view.flow.at(pc.addr).is_some_and(|at| view.is_call(at)))
    };
    loads(failure, program).into_iter().filter(is_call).collect()
}

struct Way<'w, 'a> {
    program: &'w Program<'a>,
    loads: Vec<Pc>,
}

impl<'w, 'a> Way<'w, 'a> {
    fn begin(&mut self, failing: &ResolvedFrame, callers: &[ResolvedFrame]) {
        let Some((view, at)) = located(self.program, failing) else {
            return;
        };
        let registers = match failing.position {
            Position::Exact => view.instruction(at).map(Gpr::of_address).unwrap_or_default(),
            Position::Return => {
                let known = view.library_summary(at).and_then(|summary| summary.arguments);
                let count = usize::from(known.unwrap_or(USUAL_ARGUMENTS));
                Gpr::ARGUMENTS.into_iter().take(count).collect()
            }
        };
        for register in registers {
            self.from(&view, at, register, callers, DEPTH);
        }
    }

    /// Goes back from what a register holds before an instruction.
    fn from(
        &mut self,
        view: &FunctionView<'_, '_>,
        at: InstrIx,
        register: Gpr,
        callers: &[ResolvedFrame],
        depth: usize,
    ) {
        let Some(depth) = depth.checked_sub(1) else { return };
        let Some(value) = view.state_before(at).map(|state| state.get(register)) else {
            return;
        };
        // What a loop advances, and what two ways leave in one variable, is made of what it began with; a variable that somebody else could
        // have changed most likely holds what was put there.
        let likely = match value {
            Value::Sum(Base::Joined(..), _) => true,
            Value::Sum(Base::Made(made, _), _) => view.is_move(made),
            _ => false,
        };
        let values = match likely {
            true => view.likely_values(at, register),
            false => vec![value],
        };
        for value in values {
            self.made_of(view, value, callers, depth);
        }
    }

    /// Goes back from a value.
    fn made_of(
        &mut self,
        view: &FunctionView<'_, '_>,
        value: Value,
        callers: &[ResolvedFrame],
        depth: usize,
    ) {
        let Value::Sum(base, _) = value else { return };
        match base {
            Base::Entry(passed) if Gpr::ARGUMENTS.contains(&passed) => {
                if let [caller, callers @ ..] = callers
                    && let Some((view, at)) = located(self.program, caller)
                {
                    self.from(&view, at, passed, callers, depth);
                }
            }
            Base::Made(made, _) if !view.is_call(made) => {
                let mut accesses = view.values.accesses(made).iter();
                let load = accesses.find(|access| !access.implicit && access.kind != AccessKind::Write);
                let load = load.filter(|access| may_be_pointer(view, made, access));
                let load = load.and_then(|_| view.pc(made));
                self.loads.extend(load.filter(|load| !self.loads.contains(load)));
                for part in view.instruction(made).map(operands).unwrap_or_default() {
                    self.from(view, made, part, callers, depth);
                }
            }
            // What a library's accessor returned, such as `unique_ptr::get`, it read behind what it was passed.
            Base::Made(call, Gpr::RAX) => {
                let call = view.pc(call);
                self.loads.extend(call.filter(|call| !self.loads.contains(call)));
            }
            _ => {}
        }
    }
}

/// Whether what is loaded is a pointer, as far as its type is known.
fn may_be_pointer(view: &FunctionView<'_, '_>, load: InstrIx, access: &PlacedAccess) -> bool {
    let namer = Namer::new(view.module(), &view.flow, &view.values);
    let name = namer.name(load, access);
    access.width == Some(8) && name.is_none_or(|name| name.shape == Shape::Pointer)
}

/// The registers that a sum is made of: `lea rdi, [rax+rcx]`, `add rdi, rax`. What a load is loaded from is another question.
fn operands(instruction: &Instruction) -> Vec<Gpr> {
    use iced_x86::Mnemonic::{Add, Lea, Sub};
    match instruction.mnemonic() {
        Lea => Gpr::of_address(instruction),
        Add | Sub => {
            let operands =
                (0..instruction.op_count()).filter(|&op| instruction.op_kind(op) == OpKind::Register);
            operands
                .filter_map(|op| Gpr::of(instruction.op_register(op)))
                .collect()
        }
        _ => Vec::new(),
    }
}

//! Where a slice starts.

mod blocked;

use failure::frames::RuntimeRole;
use failure::{Failure, FrameOrigin, Kind, Position, ResolvedFrame, ResolvedThread, Signal};
use iced_x86::FlowControl;
use program::{Pc, Program};

use crate::dependence::uses::Role;

/// An instruction that a slice starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The instruction.
    pub pc: Pc,
    /// Which of its inputs the failure is about.
    pub role: Role,
    /// The return addresses of its callers, innermost first, as far as a stack told them.
    pub callers: Vec<Pc>,
}

/// Where a slice starts: one failing instruction, all instructions of a line, or what each thread waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Criterion {
    /// The instructions.
    pub starts: Vec<Start>,
    /// Where the other threads were: complete stacks, innermost first, each an address inside the
    /// instruction that was executing. What they had not reached cannot have caused the failure.
    pub others: Vec<Vec<Pc>>,
    /// The program did not get on: what the starts wait for is what the failure is about.
    pub blocked: bool,
}

impl Criterion {
    /// A slice from one instruction, whoever called.
    #[must_use]
    pub fn instruction(pc: Pc) -> Self {
        Self {
            others: Vec::new(),
            blocked: false,
            starts: vec![Start {
                pc,
                role: Role::Everything,
                callers: Vec::new(),
            }],
        }
    }

    /// A slice from every instruction in some address ranges of one module: the code of a source line.
    #[must_use]
    pub fn ranges(program: &Program<'_>, ranges: &[(Pc, Pc)]) -> Self {
        let mut starts = Vec::new();
        for (from, to) in ranges {
            let mut at = *from;
            while at.addr < to.addr {
                let Some(function) = program.function_at(at) else {
                    break;
                };
                let Some(module) = program.module(at.module) else {
                    break;
                };
                let flow = module.code().flow(function.function);
                let Some(ix) = flow.at(at.addr) else {
                    at.addr = at.addr.offset(1);
                    continue;
                };
                starts.push(Start {
                    pc: at,
                    role: Role::Everything,
                    callers: Vec::new(),
                });
                let length = flow.instruction(ix).map_or(1, |instr| instr.len().max(1));
                at.addr = at.addr.offset(i64::try_from(length).unwrap_or(1));
            }
        }
        Self {
            starts,
            others: Vec::new(),
            blocked: false,
        }
    }

    /// A slice from where a program failed; for a hang, from where each thread waits.
    #[must_use]
    pub fn failure(program: &Program<'_>, failure: &Failure) -> Self {
        if failure.kind == Kind::Hang {
            return Self {
                starts: blocked::starts(program, failure),
                others: failure.threads.iter().filter_map(complete_stack).collect(),
                blocked: true,
            };
        }
        let Some(thread) = failure.threads.get(failure.failing) else {
            return Self::default();
        };
        let Some(frame) = failure.failing_frame else {
            return Self::default();
        };
        let role = role(failure.signal, &thread.frames, frame);
        let others = failure
            .threads
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != failure.failing);
        Self {
            starts: starts_in(program, thread, frame, role),
            others: others.filter_map(|(_, thread)| complete_stack(thread)).collect(),
            blocked: false,
        }
    }
}

/// A thread's stack, if it goes all the way to where the thread started.
fn complete_stack(thread: &ResolvedThread) -> Option<Vec<Pc>> {
    let started = thread
        .frames
        .iter()
        .any(|frame| frame.role == Some(RuntimeRole::Start));
    let own = thread.frames.iter().skip_while(|frame| !frame.own);
    let known = own
        .filter(|frame| !frame.line_only)
        .map_while(ResolvedFrame::executing);
    started.then(|| known.collect())
}

fn starts_in(program: &Program<'_>, thread: &ResolvedThread, frame: usize, role: Role) -> Vec<Start> {
    let Some(failing) = thread.frames.get(frame) else {
        return Vec::new();
    };
    let outer = thread.frames.get(frame + 1..).unwrap_or_default();
    // Who called what printed something is not on the stack any more.
    let outer = if failing.origin == FrameOrigin::Printed {
        &[]
    } else {
        outer
    };
    let callers = callers(outer);
    let Some(pc) = failing.executing() else {
        return Vec::new();
    };
    if !failing.line_only || failing.position == Position::Return {
        let role = match role {
            // Whom it led to, nobody wrote down: `__cxa_pure_virtual` runs because of what the table's pointer was.
            Role::Executed if is_indirect_call(program, pc) => Role::Address,
            role => role,
        };
        return vec![Start { pc, role, callers }];
    }
    let starts = Criterion::ranges(program, &line_around(program, pc)).starts;
    starts
        .into_iter()
        .map(|start| Start {
            callers: callers.clone(),
            ..start
        })
        .collect()
}

fn is_indirect_call(program: &Program<'_>, pc: Pc) -> bool {
    let flow = program.module(pc.module).zip(program.function_at(pc));
    let flow = flow.map(|(module, function)| module.code().flow(function.function));
    let instruction = flow.and_then(|flow| flow.instruction(flow.containing(pc.addr)?).copied());
    instruction.is_some_and(|instruction| instruction.flow_control() == FlowControl::IndirectCall)
}

/// The return addresses of frames. One whose place is not known breaks the chain; callers beyond it are anybody.
fn callers(outer: &[ResolvedFrame]) -> Vec<Pc> {
    let known = |frame: &ResolvedFrame| frame.pc.filter(|_| !frame.line_only);
    outer.iter().map_while(known).collect()
}

/// All code of the line that an address is on, inside its function.
fn line_around(program: &Program<'_>, pc: Pc) -> Vec<(Pc, Pc)> {
    let Some(module) = program.module(pc.module) else {
        return Vec::new();
    };
    let functions = module.code().functions();
    let parts = functions
        .at(pc.addr)
        .map(|function| functions.parts(function))
        .unwrap_or_default();
    let rows: Vec<_> = parts
        .iter()
        .flat_map(|part| module.sources().line_rows(part))
        .collect();
    let Some(here) = rows.iter().find(|row| row.range.contains(&pc.addr)) else {
        return Vec::new();
    };
    rows.iter()
        .filter(|row| row.line == here.line && row.file == here.file)
        .map(|row| {
            (
                Pc {
                    addr: row.range.start,
                    ..pc
                },
                Pc {
                    addr: row.range.end,
                    ..pc
                },
            )
        })
        .collect()
}

/// Which inputs of the failing instruction the failure is about.
fn role(signal: Option<Signal>, frames: &[ResolvedFrame], failing: usize) -> Role {
    const SIGILL: i32 = 4;
    const SIGTRAP: i32 = 5;
    const SIGBUS: i32 = 7;
    const SIGSEGV: i32 = 11;
    let inner = frames.get(..failing).unwrap_or_default();
    if inner.is_empty() {
        return match signal {
            Some(Signal(SIGSEGV | SIGBUS)) => Role::Address,
            Some(Signal(SIGILL | SIGTRAP)) => Role::Executed,
            _ => Role::Everything,
        };
    }
    // The outermost runtime function is the one that the program called: `free` complaining about a pointer
    // depends on the pointer; `__assert_fail` depends on nothing but having been called.
    match inner.iter().rev().find_map(|frame| frame.role) {
        Some(
            RuntimeRole::Abort
            | RuntimeRole::Assertion
            | RuntimeRole::Check
            | RuntimeRole::Panic
            | RuntimeRole::Exception,
        ) => Role::Executed,
        _ => Role::Everything,
    }
}

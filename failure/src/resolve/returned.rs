//! The end of a program whose `main` returned: its frame is gone when the process ends, and the status is what it left.

use program::code::{Exit, Target};
use program::values::{Base, Gpr, Value, Values};
use program::{LinkAddr, Pc, Program};

use super::frame::returned_from;
use super::{EXECUTABLE, ResolvedFrame};
use crate::frames::RuntimeRole;
use crate::report::Kind;

/// Functions that are looked at for where they return.
const MOST_FUNCTIONS: usize = 16;

/// Puts the frame of `main` back, if it is by its return that the process ended; says where.
pub(super) fn restore(program: &Program<'_>, kind: Kind, frames: &mut Vec<ResolvedFrame>) -> Option<usize> {
    if !matches!(kind, Kind::ExitStatus | Kind::Oracle) {
        return None;
    }
    let start = frames
        .iter()
        .position(|frame| frame.role == Some(RuntimeRole::Start))
        .unwrap_or(frames.len());
    let frame = returned_from(program, status_made_at(program)?);
    if !frame.own {
        return None;
    }
    frames.insert(start, frame);
    Some(start)
}

/// Where `main` makes what it returns: the instruction that puts the result into its register, in a function that it
/// leaves to for good if it is that one's result.
fn status_made_at(program: &Program<'_>) -> Option<Pc> {
    let module = program.module(EXECUTABLE)?;
    let main = *module.code().functions().named("main").first()?;
    let constants = |slot| module.constant_pointer(slot);
    let (mut functions, mut next, mut makers) = (vec![main], 0, Vec::new());
    while let Some(&function) = functions.get(next).filter(|_| next < MOST_FUNCTIONS) {
        next += 1;
        let flow = module.code().flow(function);
        let values = Values::analyse(&flow, &constants);
        for block in &flow.blocks {
            match block.exit {
                Exit::TailCall(Target::Function(left_to)) if !functions.contains(&left_to) => {
                    functions.push(left_to);
                }
                Exit::Return => {
                    let at = block.last();
                    let state = values.before(&flow, at, &constants);
                    let (maker, is_zero) = match state.map(|state| state.get(Gpr::RAX)) {
                        Some(Value::Sum(Base::Made(maker, _), _)) => (maker, false),
                        // Nothing went wrong where zero is returned, unless there is no other way.
                        Some(Value::Const(0)) => (at, true),
                        _ => (at, false),
                    };
                    let addr = flow.instruction(maker).map(|it| LinkAddr(it.ip()));
                    makers.extend(addr.map(|addr| (is_zero, addr)));
                }
                _ => {}
            }
        }
    }
    let (_, addr) = makers.into_iter().min_by_key(|&(is_zero, _)| is_zero)?;
    Some(Pc {
        module: EXECUTABLE,
        addr,
    })
}

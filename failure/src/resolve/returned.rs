//! The end of a program whose `main` returned: its frame is gone when the process ends, and the status is what it left.

use program::code::{Exit, Target};
use program::values::Values;
use program::{LinkAddr, Pc, Program};

use super::EXECUTABLE;
use crate::report::{Kind, Report, Sign};

/// Functions that are looked at for where they return.
const MOST_FUNCTIONS: usize = 16;

/// Where `main` made what it returned, if it is by its return that the process ended.
pub(super) fn made_at(program: &Program<'_>, report: &Report) -> Option<Pc> {
    if !matches!(report.kind, Kind::ExitStatus | Kind::Oracle) {
        return None;
    }
    let status = match report.sign {
        Some(Sign::Status(status)) => Some(status),
        _ => None,
    };
    let makers = makers(program)?;
    let is =
        |wanted: i32| move |(_, constant): &&(LinkAddr, Option<u64>)| *constant == Some(exit_code(wanted));
    let told = status.and_then(|status| makers.iter().find(is(status)));
    // Nothing went wrong where zero is returned, unless there is no other way.
    let unknown = || makers.iter().find(|(_, constant)| constant.is_none());
    let wrong = || makers.iter().find(|(_, constant)| *constant != Some(0));
    let (addr, _) = told.or_else(unknown).or_else(wrong).or(makers.first())?;
    Some(Pc {
        module: EXECUTABLE,
        addr: *addr,
    })
}

/// The instructions that make what `main` returns, or a function that it leaves to for good; what of it the parent gets
/// to see, if that is always the same.
fn makers(program: &Program<'_>) -> Option<Vec<(LinkAddr, Option<u64>)>> {
    let module = program.module(EXECUTABLE)?;
    let main = *module.code().functions().named("main").first()?;
    let constants = |slot| module.constant_pointer(slot);
    let (mut functions, mut next, mut makers) = (vec![main], 0, Vec::new());
    while let Some(&function) = functions.get(next).filter(|_| next < MOST_FUNCTIONS) {
        next += 1;
        let flow = module.code().flow(function);
        for block in &flow.blocks {
            if let Exit::TailCall(Target::Function(left_to)) = block.exit
                && !functions.contains(&left_to)
            {
                functions.push(left_to);
            }
        }
        let found = Values::analyse(&flow, &constants).result_makers(&flow, &constants);
        makers.extend(found.into_iter().filter_map(|maker| {
            let status = maker.constant.map(|constant| constant & 0xff);
            Some((flow.addr(maker.at)?, status))
        }));
    }
    Some(makers)
}

fn exit_code(status: i32) -> u64 {
    u64::from(status.to_le_bytes()[0])
}

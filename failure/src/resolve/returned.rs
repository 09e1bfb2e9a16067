//! The end of a program whose `main` returned: its frame is gone when the process ends, and the status is what it left.

use program::code::{Exit, Target};
use program::values::Values;
use program::{LinkAddr, Pc, Program};

use super::EXECUTABLE;
use crate::report::{Kind, Report, Sign};

/// Functions that are looked at for where they return.
const MOST_FUNCTIONS: usize = 16;

/// The places where `main` can have made what it returned, if it is by its return that the process ended; the most telling
/// first.
pub(super) fn made_at(program: &Program<'_>, report: &Report) -> Vec<Pc> {
    if !matches!(report.kind, Kind::ExitStatus | Kind::Oracle) {
        return Vec::new();
    }
    let makers = makers(program).unwrap_or_default();
    let status = match report.sign {
        Some(Sign::Status(status)) => Some(exit_code(status)),
        _ => None,
    };
    let possible = candidates(&makers, status).into_iter();
    let pc = |addr| Pc {
        module: EXECUTABLE,
        addr,
    };
    possible.map(pc).collect()
}

/// Who can have made a status: those who always make it, then those who make one thing or another. Where nothing is known
/// of the status, or none can have made it, whoever does not always return zero: nothing went wrong there, unless there is no
/// other way.
fn candidates(makers: &[(LinkAddr, Option<u64>)], status: Option<u64>) -> Vec<LinkAddr> {
    let of = |wanted: &dyn Fn(Option<u64>) -> bool| {
        let found = makers.iter().filter(|(_, constant)| wanted(*constant));
        found.map(|(addr, _)| *addr).collect::<Vec<_>>()
    };
    let unknown = of(&|constant| constant.is_none());
    let always = of(&|constant| constant.is_some() && constant == status);
    let ways = [
        [always, unknown.clone()].concat(),
        of(&|constant| constant != Some(0)),
        of(&|_| true),
    ];
    ways.into_iter().find(|way| !way.is_empty()).unwrap_or_default()
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
            let status = maker.constant().map(|constant| constant & 0xff);
            Some((flow.addr(maker.at)?, status))
        }));
    }
    Some(makers)
}

fn exit_code(status: i32) -> u64 {
    u64::from(status.to_le_bytes()[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_always_makes_another_status_did_not_make_this_one() {
        let makers = [(1, Some(0)), (2, Some(3)), (3, None), (4, Some(3)), (5, Some(4))];
        let makers = makers.map(|(addr, constant)| (LinkAddr(addr), constant));
        let made = |status| {
            let found = candidates(&makers, status).into_iter();
            found.map(|addr| addr.0).collect::<Vec<_>>()
        };
        assert_eq!(made(Some(3)), [2, 4, 3]);
        assert_eq!(made(Some(4)), [5, 3]);
        assert_eq!(made(Some(9)), [3]);
        assert_eq!(made(None), [3]);
        let certain = [(LinkAddr(1), Some(0)), (LinkAddr(2), Some(3))];
        assert_eq!(candidates(&certain, None), [LinkAddr(2)]);
        assert_eq!(candidates(&certain, Some(7)), [LinkAddr(2)]);
        assert_eq!(candidates(&certain[..1], Some(7)), [LinkAddr(1)]);
        assert_eq!(candidates(&[], Some(7)), []);
    }
}

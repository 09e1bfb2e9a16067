//! Values: what accesses met, and which write a read returned.
//!
//! A write that goes too far, or one that should not have been made, leaves a value that is each run's own: an address, a piece of
//! text. What separates the runs then is who wrote what was read. Between threads that is an order, and has predictors of its own.

use std::collections::{BTreeMap, HashMap};

use super::{Actor, Predictor, Test, When};
use crate::run::{AccessKind, Catalogue, LocationId, Run, Shape, StatementId, ThreadIx, What};

use super::interleaving::Found;

/// Different values of one access that are told apart in a run. One that meets more is not about a value.
const DISTINCT: usize = 16;

/// A value, cut to the width of its location.
pub(crate) fn cut(value: u64, width: u32) -> u64 {
    match width {
        0 | 8.. => value,
        width => value & ((1 << (width * 8)) - 1),
    }
}

fn tests(value: u64, width: u32, shape: Shape) -> Option<Test> {
    let value = cut(value, width);
    if value == 0 {
        return Some(Test::Zero);
    }
    let bits = width.clamp(1, 8) * 8;
    match shape {
        // An address and a fraction are each run's own.
        Shape::Pointer | Shape::Float => None,
        Shape::Unknown if can_be_address(value) => None,
        Shape::Signed if value >> (bits - 1) == 1 => Some(Test::Negative),
        // Hashes and flags have such values, too, but seldom where failing runs part from others.
        Shape::Unsigned if width >= 4 && value >> (bits - 1) == 1 => Some(Test::Wrapped),
        _ => Some(Test::Is(value)),
    }
}

/// Whether a number whose type nobody knows is as large as addresses of programs and libraries are.
fn can_be_address(value: u64) -> bool {
    const LOWEST: u64 = 1 << 32;
    const END_OF_USER_SPACE: u64 = 1 << 47;
    (LOWEST..END_OF_USER_SPACE).contains(&value)
}

#[derive(Default)]
struct Met {
    /// Each test's last event.
    ever: BTreeMap<Test, usize>,
    too_many: bool,
    last: Option<(Option<Test>, usize)>,
}

/// Finds the value predictors of a run.
pub(crate) fn find(catalogue: &Catalogue, run: &Run, roles: &[u16], out: &mut impl Found) {
    find_written(run, roles, out);
    let mut all: BTreeMap<(Actor<u16>, LocationId), Met> = BTreeMap::new();
    for (event, happened) in run.events.iter().enumerate() {
        let What::Access(access) = happened.what else {
            continue;
        };
        let (Some(value), Some(info)) = (access.value, catalogue.locations.get(access.location.0 as usize))
        else {
            continue;
        };
        if !run.watched.contains(&access.location) {
            continue;
        }
        let actor = Actor {
            statement: happened.statement,
            role: roles.get(happened.thread.0 as usize).copied().unwrap_or(0),
        };
        let met = all.entry((actor, access.location)).or_default();
        let test = tests(value, info.width, info.shape);
        if let Some(test) = test {
            met.ever.insert(test, event);
            met.too_many |= met.ever.len() > DISTINCT;
            if met.too_many {
                met.ever.retain(|test, _| !matches!(test, Test::Is(_)));
            }
        }
        met.last = Some((test, event));
    }
    for ((at, location), met) in all {
        let last = met
            .last
            .and_then(|(test, event)| Some((test?, event, When::Last)));
        let ever = met
            .ever
            .into_iter()
            .map(|(test, event)| (test, event, When::Ever));
        for (test, event, when) in ever.chain(last) {
            let predictor = Predictor::Value {
                at,
                location,
                test,
                when,
            };
            out.found(predictor, &[event], true);
        }
    }
}

/// A write to an address.
#[derive(Clone, Copy)]
struct Written {
    thread: ThreadIx,
    statement: StatementId,
    event: usize,
    value: Option<u64>,
}

/// Finds the writes whose value the same thread read by another statement. A register may have been elsewhere meanwhile: what was read has
/// to be what was written.
fn find_written(run: &Run, roles: &[u16], out: &mut impl Found) {
    // What another thread than the failing one did for itself is another story.
    let failing = run.failed.as_ref().and_then(|failed| failed.thread);
    let counts = |thread: ThreadIx| failing.is_none_or(|failing| failing == thread);
    let mut last: HashMap<u64, Written> = HashMap::new();
    let mut found: BTreeMap<(Actor<u16>, LocationId, Test), usize> = BTreeMap::new();
    for (event, happened) in run.events.iter().enumerate() {
        let What::Access(access) = happened.what else {
            continue;
        };
        if !run.watched.contains(&access.location) {
            continue;
        }
        let met = match access.kind {
            AccessKind::Read => access.value,
            AccessKind::Write | AccessKind::ReadWrite => access.before,
        };
        if let Some(write) = last.get(&access.addr)
            && access.kind.reads()
            && write.statement != happened.statement
            && write.thread == happened.thread
            && counts(write.thread)
            && write.value.zip(met).is_none_or(|(written, met)| written == met)
        {
            let role = roles.get(write.thread.0 as usize).copied().unwrap_or(0);
            let writer = Actor {
                statement: write.statement,
                role,
            };
            let read = happened.statement;
            found.insert((writer, access.location, Test::ReadBy(read)), write.event);
            if met.or(write.value).is_some_and(|value| value != 0) {
                found.insert((writer, access.location, Test::NonZeroReadBy(read)), write.event);
            }
        }
        if access.kind.writes() {
            let write = Written {
                thread: happened.thread,
                statement: happened.statement,
                event,
                value: access.value,
            };
            last.insert(access.addr, write);
        }
    }
    for ((at, location, test), event) in found {
        let predictor = Predictor::Value {
            at,
            location,
            test,
            when: When::Ever,
        };
        out.found(predictor, &[event], true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_an_address_is_no_number_of_unknown_type() {
        const HEAP: u64 = 0x5620_1122_3340;
        assert_eq!(tests(HEAP, 8, Shape::Unknown), None);
        assert_eq!(tests(HEAP, 8, Shape::Unsigned), Some(Test::Is(HEAP)));
        assert_eq!(tests(7, 8, Shape::Unknown), Some(Test::Is(7)));
        assert_eq!(tests(0, 8, Shape::Unknown), Some(Test::Zero));
    }

    #[test]
    fn what_is_below_zero_is_large_where_there_is_no_sign() {
        let minus_two = |width, shape| tests(0_u64.wrapping_sub(2), width, shape);
        assert_eq!(minus_two(8, Shape::Unsigned), Some(Test::Wrapped));
        assert_eq!(minus_two(4, Shape::Unsigned), Some(Test::Wrapped));
        assert_eq!(minus_two(4, Shape::Signed), Some(Test::Negative));
        assert_eq!(minus_two(1, Shape::Unsigned), Some(Test::Is(0xfe)), "a character");
    }
}

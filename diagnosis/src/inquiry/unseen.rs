//! What a failing run watched in vain: another object than the one it failed over.

use std::collections::BTreeSet;

use failure::Failure;
use program::{Pc, Program};

use crate::reading::{Cataloguer, module_named};
use crate::run::{Access, LocationId, Run, What};

/// Addresses that nothing is at: below it is what a null pointer and a member's offset make.
const NULL: u64 = 1 << 16;
/// The first address that no pointer of a process can have. The processor does not tell one that was followed from null.
const NO_ADDRESS: u64 = 1 << 47;

/// The locations that the failing thread had the pointer from which it failed over, if it was not seen to get it there. It did:
/// whatever the run saw there was of other objects, or before that.
pub(super) fn unseen(
    run: &Run,
    failure: &Failure,
    program: &Program<'_>,
    catalogue: &mut Cataloguer,
) -> BTreeSet<LocationId> {
    let loads = slicer::pointer::loads(failure, program);
    let statements: Vec<_> = loads
        .iter()
        .map(|&load| catalogue.statement_at(load, program))
        .collect();
    let is_at = |location: LocationId, load: &Pc| {
        let mut accesses = catalogue.accesses_of(location).into_iter();
        accesses.any(|(module, addr)| addr == load.addr && module_named(module, program) == Some(load.module))
    };
    let failing = run.failed.and_then(|failed| failed.thread);
    let fault = failure.fault_address.map(|addr| addr.0);
    let is_unseen = |location: LocationId| {
        let here = loads.iter().filter(|load| is_at(location, load)).count();
        // The compiler may have made several loads of one expression, and the object may be gone by now: whoever frees it writes over it.
        let own = run
            .events
            .iter()
            .rev()
            .filter(|event| Some(event.thread) == failing);
        let mut loaded = own.filter(|event| statements.contains(&Some(event.statement)));
        let last = loaded.find_map(|event| match event.what {
            What::Access(access) if access.location == location && access.kind.reads() => Some(access),
            _ => None,
        });
        here > 0 && !led_there(last, here == loads.len(), fault)
    };
    let watched = run.watched.iter().copied();
    watched
        .filter(|&location| failing.is_some() && is_unseen(location))
        .collect()
}

/// Whether a thread that failed at an address can have had it from the last pointer that it was seen to read, where nothing else was
/// part of the address (`alone`).
fn led_there(last: Option<Access>, alone: bool, failed_at: Option<u64>) -> bool {
    let Some(last) = last else { return false };
    let followed_null = failed_at.is_some_and(|addr| addr < NULL);
    let may_be_null = |value: u64| !(NULL..NO_ADDRESS).contains(&value);
    !(alone && followed_null) || last.value.is_none_or(may_be_null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::AccessKind;

    #[test]
    fn who_failed_over_null_had_read_null() {
        let read = |value| Access {
            location: LocationId(0),
            addr: 0x5000_0000,
            kind: AccessKind::Read,
            value,
            before: value,
        };
        let after = |value| led_there(Some(read(value)), true, Some(0x10));
        assert!(after(Some(0)) && after(None));
        assert!(!after(Some(0x5638_a919_eee0)), "that was another time");
        assert!(after(Some(0x4141_4141_4141_4141)), "an address that nobody tells");
        let other = |alone, at| led_there(Some(read(Some(0x5638_a919_eee0))), alone, at);
        assert!(other(false, Some(0x10)), "something else was null");
        assert!(other(true, Some(0x5638_a919_ffff)) && other(true, None));
        assert!(!led_there(None, false, None));
    }
}

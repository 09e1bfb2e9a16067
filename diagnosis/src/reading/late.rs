//! What was watched only from some time on.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::WatchedRecord;
use crate::run::{Event, LocationId, What};

/// The locations that were found late, wherever they were. Who finds one early knows one object from its beginning: of several,
/// a register comes late to all but one. Where the stores that were found have probes, what was written before is taken to be known.
pub(super) fn late(watched: &[(&WatchedRecord, &LocationId)], events: &[Event]) -> BTreeSet<LocationId> {
    let unknown = |watched: &WatchedRecord| watched.late && !watched.stores;
    let (late, early): (Vec<_>, Vec<_>) = watched.iter().partition(|(watched, _)| unknown(watched));
    let early: BTreeSet<LocationId> = early.into_iter().map(|(_, location)| *location).collect();
    let mut addresses: BTreeMap<LocationId, BTreeSet<u64>> = BTreeMap::new();
    for event in events {
        if let What::Access(access) = event.what {
            addresses.entry(access.location).or_default().insert(access.addr);
        }
    }
    let several = |location: &LocationId| addresses.get(location).is_some_and(|all| all.len() > 1);
    let late = late.into_iter().map(|(_, location)| *location);
    let stored: BTreeSet<LocationId> = watched
        .iter()
        .filter(|(watched, _)| watched.stores)
        .map(|(_, location)| **location)
        .collect();
    late.filter(|location| !stored.contains(location))
        .filter(|location| !early.contains(location) || several(location))
        .collect()
}

#[cfg(test)]
mod tests {
    use program::LinkAddr;

    use super::*;
    use crate::run::{Access, AccessKind, StatementId, ThreadIx};

    fn watched(late: bool) -> WatchedRecord {
        WatchedRecord {
            module: None,
            access: LinkAddr(0x1000),
            passed: None,
            width: 8,
            within: 0,
            always_at: None,
            fixed: None,
            late,
            given_up: false,
            stores: false,
            result: false,
            found: 0,
        }
    }

    fn read(addr: u64) -> Event {
        Event {
            thread: ThreadIx(0),
            statement: StatementId(0),
            time_ns: None,
            uncertain: false,
            what: What::Access(Access {
                location: LocationId(0),
                addr,
                kind: AccessKind::Read,
                value: Some(1),
                before: Some(1),
            }),
        }
    }

    #[test]
    fn whoever_finds_it_early_knows_one_object_only() {
        let is_late = |sites: &[bool], events: &[Event]| {
            let sites: Vec<WatchedRecord> = sites.iter().map(|late| watched(*late)).collect();
            let watched: Vec<_> = sites.iter().map(|site| (site, &LocationId(0))).collect();
            late(&watched, events).contains(&LocationId(0))
        };
        let (one, two) = ([read(8), read(8)], [read(8), read(64)]);
        assert!(is_late(&[true], &one) && !is_late(&[false], &two));
        assert!(!is_late(&[true, false], &one));
        assert!(is_late(&[true, false], &two));
    }
}

//! A location that is somewhere else every time, such as a field of an object that lives for one request.

use program::RunAddr;
use program::code::AccessKind;

use super::*;
use crate::hit::{Access, Value};

/// How often it moves.
const TIMES: u64 = 1000;
/// From one hit to the next, with as much doubt about each: every thread's can have been first.
const STEP_NS: u64 = 1_000_000;

fn hit(n: u64, tid: u32, kind: AccessKind, value: u64) -> Pending {
    let value = |from| Some(Value::new(value, from));
    Pending {
        hit: Hit {
            seq: 0,
            time_ns: n * STEP_NS,
            tid,
            pc: Some(RunAddr(n)),
            pc_or: Vec::new(),
            reported_pc: RunAddr(n),
            callers: Vec::new(),
            access: Some(Access { kind, atomic: false }),
            addr: RunAddr(0),
            len: 8,
            location: 0,
            value: value(Provenance::Register),
            before: value(Provenance::Register).filter(|_| kind == AccessKind::Read),
            order_uncertain: false,
            in_frame: None,
        },
        at: RunAddr(0),
        earliest_ns: (n * STEP_NS).saturating_sub(6 * STEP_NS),
        likely_ns: (n * STEP_NS).saturating_sub(6 * STEP_NS),
        is_first: false,
        len: 8,
        update: None,
    }
}

/// What is copied for each order that is followed, and kept, is what is there now: not what was at each of the places.
#[test]
fn what_was_where_it_is_no_longer_is_forgotten() {
    let mut orderer = Orderer::default();
    let mut found = Vec::new();
    let mut most = 0;
    for n in 0..TIMES {
        orderer.arm(0, RunAddr(0), None);
        let tid = |of: u64| u32::try_from((n + of) % 3).unwrap();
        orderer.push(hit(2 * n, tid(0), AccessKind::Write, n));
        orderer.push(hit(2 * n + 1, tid(1), AccessKind::Read, n));
        found.extend(orderer.ready((2 * n).saturating_sub(6) * STEP_NS));
        most = most.max(orderer.chain.len());
    }
    assert!(most < 200, "{most} places are remembered");
    found.extend(orderer.flush());
    assert_eq!(orderer.chain.len(), 1);
    let places: Vec<u64> = found.iter().filter_map(|hit| hit.pc).map(|pc| pc.0).collect();
    assert_eq!(places, (0..2 * TIMES).collect::<Vec<u64>>());
}

/// A look at every place where the location is.
fn look(orderer: &mut Orderer, n: u64, tid: u32, contents: [(RunAddr, u64); 2]) {
    for (at, content) in contents {
        orderer.see(
            tid,
            Seen {
                location: 0,
                at,
                content: content.into(),
                from_ns: n * STEP_NS,
                until_ns: n * STEP_NS,
            },
        );
    }
}

/// What is at one of them says nothing about the other: a write that was reported late finds its place all the same.
#[test]
fn a_location_may_be_at_two_addresses_at_once() {
    let (here, there) = (RunAddr(0x10), RunAddr(0x20));
    let at = |at: RunAddr, pending: Pending| Pending { at, ..pending };
    let mut orderer = Orderer::default();
    orderer.arm(0, here, Some(1.into()));
    orderer.arm(0, there, Some(2.into()));
    orderer.push(at(here, hit(10, 1, AccessKind::Read, 1)));
    look(&mut orderer, 10, 1, [(here, 1), (there, 2)]);
    orderer.push(at(there, hit(11, 1, AccessKind::Read, 2)));
    look(&mut orderer, 11, 1, [(here, 1), (there, 2)]);
    orderer.push(at(here, hit(12, 2, AccessKind::Write, 3)));
    orderer.push(at(here, hit(13, 1, AccessKind::Read, 3)));
    look(&mut orderer, 13, 1, [(here, 3), (there, 2)]);
    let hits = orderer.flush();
    let places: Vec<u64> = hits.iter().filter_map(|hit| hit.pc).map(|pc| pc.0).collect();
    assert_eq!(places, [10, 11, 12, 13]);
    assert!(hits.iter().all(|hit| !hit.order_uncertain), "{hits:#?}");
}

//! Threads that really interleave, and reports of them that come late: is the order found again?

use proptest::prelude::*;

use super::*;
use crate::hit::{Access, Provenance, Value};
use program::RunAddr;
use program::code::AccessKind;

#[derive(Clone, Copy, Debug)]
enum Op {
    Load,
    Store(u8),
    FetchAdd(u8),
    CompareExchange(u8, u8),
    AtomicIncrement,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::Load),
        2 => any::<u8>().prop_map(Op::Store),
        2 => any::<u8>().prop_map(Op::FetchAdd),
        2 => (0u8..4, 0u8..4).prop_map(|(from, to)| Op::CompareExchange(from, to)),
        1 => Just(Op::AtomicIncrement),
    ]
}

/// What really happened: thread, location, operation, when it was reported.
type Event = (u32, usize, Op, u64);

const STEP: u64 = 10;
const WINDOW: u64 = 35;

/// A run: events in their true order, each reported up to `jitter` late, a thread's reports in their order.
fn run(jitter: u64) -> impl Strategy<Value = Vec<Event>> {
    let event = (0u32..3, 0usize..2, op(), 0..=jitter);
    prop::collection::vec(event, 1..40).prop_map(|events| {
        let mut last = [0; 3];
        let events = events.into_iter().zip(0u64..);
        let late = events.map(|((tid, location, op, late), n)| {
            let time = (n * STEP + late).max(last[tid as usize] + 1);
            last[tid as usize] = time;
            (tid, location, op, time)
        });
        late.collect()
    })
}

fn exact(bits: u64) -> Option<Value> {
    Some(Value::new(bits, Provenance::Register))
}

/// The hits that the operations would give, in their true order; `seq` says which one it is.
fn hits(events: &[Event]) -> Vec<Pending> {
    let mut memory = [0u64; 2];
    let one = |(n, &(tid, location, op, time_ns)): (u64, &Event)| {
        let before = memory[location];
        let (kind, atomic) = match op {
            Op::Load => (AccessKind::Read, false),
            Op::Store(_) => (AccessKind::Write, false),
            Op::CompareExchange(from, _) if before != u64::from(from) => (AccessKind::Read, true),
            _ => (AccessKind::ReadWrite, true),
        };
        let after = match op {
            Op::Load => before,
            Op::Store(value) => u64::from(value),
            Op::FetchAdd(added) => before.wrapping_add(u64::from(added)) & 0xff,
            Op::CompareExchange(from, to) if before == u64::from(from) => u64::from(to),
            Op::CompareExchange(..) => before,
            Op::AtomicIncrement => (before + 1) & 0xff,
        };
        memory[location] = after;
        let found = !matches!(op, Op::Store(_) | Op::AtomicIncrement);
        Pending {
            hit: Hit {
                seq: n,
                time_ns,
                tid,
                pc: Some(RunAddr(n)),
                pc_or: Vec::new(),
                reported_pc: RunAddr(n),
                returns_to: None,
                access: Some(Access { kind, atomic }),
                addr: RunAddr(0),
                len: 1,
                location,
                value: (!matches!(op, Op::AtomicIncrement))
                    .then(|| exact(after))
                    .flatten(),
                before: found.then(|| exact(before)).flatten(),
                order_uncertain: false,
            },
            earliest_ns: time_ns.saturating_sub(WINDOW),
            is_first: false,
            len: 1,
            update: matches!(op, Op::AtomicIncrement).then_some(Update::Add(1)),
        }
    };
    (0..).zip(events).map(one).collect()
}

/// What comes out when the hits come in by the time of their report, some at a time.
fn ordered(pending: &[Pending], batch: usize) -> Vec<Hit> {
    let mut arriving = pending.to_vec();
    arriving.sort_by_key(|pending| pending.hit.time_ns);
    let mut orderer = Orderer::default();
    orderer.note_initial(0, 0, true);
    orderer.note_initial(1, 0, true);
    let mut out = Vec::new();
    for some in arriving.chunks(batch.max(1)) {
        let complete = some
            .last()
            .map_or(0, |last| last.hit.time_ns.saturating_sub(WINDOW));
        some.iter().cloned().for_each(|pending| orderer.push(pending));
        out.extend(orderer.ready(complete));
    }
    out.extend(orderer.flush());
    out
}

/// Whether every exact value fits what came before.
fn consistent(hits: &[Hit]) -> bool {
    let mut memory: [Option<u64>; 2] = [None; 2];
    hits.iter().all(|hit| {
        let there = &mut memory[hit.location];
        let fits = match (hit.before, *there) {
            (Some(before), Some(there)) => before.bits == there,
            _ => true,
        };
        *there = hit.value.map(|value| value.bits);
        fits
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_order_found_fits_the_values(events in run(WINDOW), batch in 1usize..9) {
        let pending = hits(&events);
        let out = ordered(&pending, batch);
        prop_assert_eq!(out.len(), pending.len());
        prop_assert!(consistent(&out), "{:?}", out);
        prop_assert!(out.iter().zip(1..).all(|(hit, seq)| hit.seq == seq));
        for tid in 0..3 {
            let of_thread = |hits: Vec<Option<RunAddr>>| hits;
            let mine = of_thread(out.iter().filter(|hit| hit.tid == tid).map(|hit| hit.pc).collect());
            let all = pending.iter().filter(|pending| pending.hit.tid == tid);
            let true_order = of_thread(all.map(|pending| pending.hit.pc).collect());
            prop_assert_eq!(mine, true_order, "a thread's own order was changed");
        }
    }

    #[test]
    fn what_is_not_marked_is_the_true_order(events in run(WINDOW)) {
        let pending = hits(&events);
        let out = ordered(&pending, usize::MAX);
        // Neighbours that are both certain and conflict came in this order.
        for pair in out.windows(2) {
            let [a, b] = pair else { continue };
            let writes = |hit: &Hit| hit.access.is_some_and(|access| access.kind.writes());
            let conflict = a.location == b.location && (writes(a) || writes(b));
            if conflict && !a.order_uncertain && !b.order_uncertain && only_order(&pending) {
                prop_assert!(a.pc < b.pc);
            }
        }
        if only_order(&pending) {
            let pcs: Vec<_> = out.iter().map(|hit| hit.pc).collect();
            let true_order: Vec<_> = pending.iter().map(|pending| pending.hit.pc).collect();
            prop_assert_eq!(pcs, true_order);
        }
    }

    #[test]
    fn exact_times_are_kept(events in run(0)) {
        let mut pending = hits(&events);
        for pending in &mut pending {
            pending.earliest_ns = pending.hit.time_ns;
        }
        let out = ordered(&pending, 4);
        let in_order = out.windows(2).all(|pair| pair[0].pc < pair[1].pc);
        prop_assert!(in_order);
        prop_assert!(out.iter().all(|hit| !hit.order_uncertain));
    }
}

/// Whether the true order is the only one that fits, tried by going through all of them; false when there
/// are too many to try.
fn only_order(pending: &[Pending]) -> bool {
    fn count(left: &[Vec<&Pending>; 3], at: [usize; 3], memory: [u64; 2], steps: &mut u32) -> u32 {
        *steps += 1;
        if *steps > 50_000 {
            return 2;
        }
        let heads = (0..3).filter_map(|thread| Some((thread, *left[thread].get(at[thread])?)));
        let heads: Vec<(usize, &Pending)> = heads.collect();
        let Some(first) = heads.iter().map(|(_, pending)| pending.hit.time_ns).min() else {
            return 1;
        };
        let mut found = 0;
        for (thread, pending) in heads {
            let hit = &pending.hit;
            let there = memory[hit.location];
            if hit.time_ns > first + WINDOW || hit.before.is_some_and(|before| before.bits != there) {
                continue;
            }
            let after = hit.value.map_or((there + 1) & 0xff, |value| value.bits);
            let (mut at, mut memory) = (at, memory);
            at[thread] += 1;
            memory[hit.location] = after;
            found += count(left, at, memory, steps);
            if found > 1 {
                break;
            }
        }
        found
    }
    let of = |tid| {
        pending
            .iter()
            .filter(move |pending| pending.hit.tid == tid)
            .collect()
    };
    count(&[of(0), of(1), of(2)], [0; 3], [0; 2], &mut 0) == 1
}

#[test]
fn lost_updates_are_seen_as_they_were() {
    // Both read 5 and both wrote 6; the second reader was reported late.
    let hit = |n: u64, tid, time_ns, kind, before, after| Pending {
        hit: Hit {
            seq: 0,
            time_ns,
            tid,
            pc: Some(RunAddr(n)),
            pc_or: Vec::new(),
            reported_pc: RunAddr(n),
            returns_to: None,
            access: Some(Access { kind, atomic: false }),
            addr: RunAddr(0),
            len: 4,
            location: 0,
            value: exact(after),
            before,
            order_uncertain: false,
        },
        earliest_ns: time_ns.saturating_sub(50),
        is_first: false,
        len: 4,
        update: None,
    };
    let reports = [
        hit(1, 1, 100, AccessKind::Read, exact(5), 5),
        hit(3, 1, 110, AccessKind::Write, None, 6),
        hit(2, 2, 115, AccessKind::Read, exact(5), 5),
        hit(4, 2, 120, AccessKind::Write, None, 6),
    ];
    let out = ordered(&reports, 1);
    let order: Vec<u64> = out.iter().filter_map(|hit| hit.pc).map(|pc| pc.0).collect();
    let read_before_write = order.iter().position(|n| *n == 2) < order.iter().position(|n| *n == 3);
    assert!(read_before_write, "{order:?}");
    assert_eq!(out[3].before.map(|before| before.bits), Some(6));
}

#[test]
fn what_fits_nowhere_is_said() {
    let mut pending = hits(&[(0, 0, Op::Store(1), 10), (1, 0, Op::Load, 100)]);
    pending[1].hit.before = exact(9);
    pending[1].hit.value = exact(9);
    pending
        .iter_mut()
        .for_each(|pending| pending.earliest_ns = pending.hit.time_ns - 5);
    let out = ordered(&pending, 9);
    assert_eq!(out.len(), 2);
    assert!(!out[0].order_uncertain && out[1].order_uncertain);
}

#[test]
fn evidence_that_comes_late_still_counts() {
    // The read of 2 shows that thread 2's store came first of all, long after it could have been placed.
    let events = [
        (0, 0, Op::Load, 1),
        (2, 0, Op::Store(0), 25),
        (0, 0, Op::Store(1), 20),
        (0, 0, Op::FetchAdd(0), 40),
        (0, 0, Op::FetchAdd(1), 77),
        (1, 0, Op::Load, 60),
    ];
    let out = ordered(&hits(&events), 1);
    assert!(consistent(&out), "{out:?}");
}

//! Threads that really interleave, and reports of them that come late, when memory may be something else already: is
//! the order found again?

use proptest::prelude::*;

use super::*;
use crate::hit::{Access, Provenance, Value};
use crate::values::Update;
use program::RunAddr;
use program::code::AccessKind;

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Load,
    /// `add rax, [x]`: what was read is not in a register afterwards.
    LoadInto,
    Store(u8),
    FetchAdd(u8),
    /// `xchg`: what was found is in a register, what was given is not any more.
    Exchange(u8),
    CompareExchange(u8, u8),
    AtomicIncrement,
    /// `lock add`: nothing tells what was found or left.
    AtomicAdd(u8),
    Increment,
}

/// Operations after which registers tell most values.
pub(super) fn told() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::Load),
        2 => any::<u8>().prop_map(Op::Store),
        2 => any::<u8>().prop_map(Op::FetchAdd),
        2 => (0u8..4, 0u8..4).prop_map(|(from, to)| Op::CompareExchange(from, to)),
        1 => Just(Op::AtomicIncrement),
    ]
}

/// Operations after which, for many values, one has to look at memory.
pub(super) fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => told(),
        2 => Just(Op::LoadInto),
        1 => any::<u8>().prop_map(Op::Exchange),
        1 => Just(Op::Increment),
    ]
}

/// What really happened: thread, location, operation, when, when it was reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) tid: u32,
    pub(super) location: usize,
    pub(super) op: Op,
    pub(super) time_ns: u64,
    /// Its thread did not run before this.
    pub(super) resumed_ns: u64,
    pub(super) report_ns: u64,
}

pub(super) const THREADS: usize = 3;
/// So that patience ends in the middle of a run.
pub(super) const STEP: u64 = 10_000_000;
pub(super) const WINDOW: u64 = 35_000_000;

/// A run: events in their true order, each reported up to `jitter` late. Until then its thread does nothing else.
pub(super) fn run(op: impl Strategy<Value = Op>, jitter: u64) -> impl Strategy<Value = Vec<Event>> {
    run_of(THREADS, 40, op, 0..=jitter)
}

/// The same, of so many threads with fewer than so many events, each reported so late.
pub(super) fn run_of(
    threads: usize,
    most: usize,
    op: impl Strategy<Value = Op>,
    late: impl Strategy<Value = u64>,
) -> impl Strategy<Value = Vec<Event>> {
    let event = (0..threads, 0usize..2, op, late);
    prop::collection::vec(event, 1..most).prop_map(move |events| {
        let (mut now, mut reported) = (WINDOW, vec![0; threads]);
        let events = events.into_iter().map(|(thread, location, op, late)| {
            now = (now + STEP).max(reported[thread] + 1);
            let resumed_ns = reported[thread];
            reported[thread] = now + late;
            Event {
                tid: u32::try_from(thread).unwrap_or(0),
                location,
                op,
                time_ns: now,
                resumed_ns,
                report_ns: now + late,
            }
        });
        events.collect()
    })
}

fn exact(bits: u64) -> Option<Value> {
    Some(Value::new(bits, Provenance::Register))
}

impl Event {
    /// What it makes of what is there.
    fn applied(&self, before: u64) -> u64 {
        match self.op {
            Op::Load | Op::LoadInto => before,
            Op::Store(value) | Op::Exchange(value) => value.into(),
            Op::FetchAdd(added) => (before + u64::from(added)) & 0xff,
            Op::CompareExchange(from, to) if before == u64::from(from) => to.into(),
            Op::CompareExchange(..) => before,
            Op::AtomicAdd(added) => (before + u64::from(added)) & 0xff,
            Op::AtomicIncrement | Op::Increment => (before + 1) & 0xff,
        }
    }

    fn access(&self, before: u64) -> Access {
        let (kind, atomic) = match self.op {
            Op::Load | Op::LoadInto => (AccessKind::Read, false),
            Op::Store(_) => (AccessKind::Write, false),
            Op::CompareExchange(from, _) if before != u64::from(from) => (AccessKind::Read, true),
            Op::Increment => (AccessKind::ReadWrite, false),
            _ => (AccessKind::ReadWrite, true),
        };
        Access { kind, atomic }
    }

    /// Its hit, `seq` from the true order; `seen` is what memory held at the report.
    fn hit(&self, n: u64, before: u64, seen: u64) -> Pending {
        let memory = Some(Value::new(seen, Provenance::Memory));
        let after = self.applied(before);
        let (found, left) = match self.op {
            Op::Load | Op::CompareExchange(..) => (exact(before), exact(after)),
            Op::LoadInto => (memory, memory),
            Op::Store(_) => (None, exact(after)),
            Op::FetchAdd(_) => (exact(before), exact(after)),
            Op::Exchange(_) => (exact(before), memory),
            Op::AtomicIncrement | Op::AtomicAdd(_) => (None, None),
            Op::Increment => (
                Some(Value::new(seen.wrapping_sub(1) & 0xff, Provenance::Memory)),
                memory,
            ),
        };
        Pending {
            hit: Hit {
                seq: n,
                time_ns: self.report_ns,
                tid: self.tid,
                pc: Some(RunAddr(n)),
                pc_or: Vec::new(),
                reported_pc: RunAddr(n),
                callers: Vec::new(),
                access: Some(self.access(before)),
                addr: RunAddr(0),
                len: 1,
                location: self.location,
                value: left,
                before: found,
                order_uncertain: false,
                in_frame: None,
            },
            at: RunAddr(0),
            earliest_ns: self.resumed_ns.max(self.report_ns.saturating_sub(WINDOW)),
            likely_ns: self.resumed_ns.max(self.report_ns.saturating_sub(WINDOW)),
            is_first: false,
            len: 1,
            update: match self.op {
                Op::AtomicIncrement | Op::Increment => Some(Update::Add(1)),
                Op::AtomicAdd(added) => Some(Update::Add(added.into())),
                _ => None,
            },
        }
    }
}

/// The hits that the operations would give, in their true order.
pub(super) fn hits(events: &[Event]) -> Vec<Pending> {
    let mut memory = [0u64; 2];
    let one = |(n, event): (u64, &Event)| {
        let before = memory[event.location];
        memory[event.location] = event.applied(before);
        event.hit(n, before, content_at(events, event.location, event.report_ns))
    };
    (0..).zip(events).map(one).collect()
}

/// What a location holds at a time.
pub(super) fn content_at(events: &[Event], location: usize, time_ns: u64) -> u64 {
    let so_far = events
        .iter()
        .filter(|event| event.location == location && event.time_ns <= time_ns);
    so_far.fold(0, |content, event| event.applied(content))
}

/// What is seen of both locations when a hit is reported.
fn looks(events: &[Event], pending: &Pending) -> Vec<Seen> {
    looks_at(events, pending.hit.time_ns)
}

/// What is seen of both locations at a time.
pub(super) fn looks_at(events: &[Event], report_ns: u64) -> Vec<Seen> {
    let look = |location| Seen {
        location,
        at: RunAddr(0),
        content: content_at(events, location, report_ns).into(),
        from_ns: report_ns,
        until_ns: report_ns,
    };
    vec![look(0), look(1)]
}

/// What comes out when the hits come in by the time of their report, some at a time, each with some looks at memory.
fn ordered(pending: &[Pending], mut looks: impl FnMut(&Pending) -> Vec<Seen>, batch: usize) -> Vec<Hit> {
    let mut arriving = pending.to_vec();
    arriving.sort_by_key(|pending| pending.hit.time_ns);
    let mut orderer = Orderer::default();
    orderer.arm(0, RunAddr(0), Some(0.into()));
    orderer.arm(1, RunAddr(0), Some(0.into()));
    let mut out = Vec::new();
    for some in arriving.chunks(batch.max(1)) {
        let complete = some
            .last()
            .map_or(0, |last| last.hit.time_ns.saturating_sub(WINDOW));
        for pending in some {
            orderer.push(pending.clone());
            for seen in looks(pending) {
                orderer.see(pending.hit.tid, seen);
            }
        }
        if batch != usize::MAX {
            out.extend(orderer.ready(complete));
        }
    }
    out.extend(orderer.flush());
    out
}

fn nothing_seen(_: &Pending) -> Vec<Seen> {
    Vec::new()
}

/// Whoever reads the hits takes every value for what was there: nothing may contradict it that is not marked.
fn contradiction(hits: &[Hit]) -> Option<&Hit> {
    let mut memory: [Option<(u64, bool)>; 2] = [None; 2];
    hits.iter().find(|hit| {
        let there = &mut memory[hit.location];
        let found = hit.before.map(|before| before.bits);
        let wrong = match (found, *there) {
            (Some(found), Some((there, uncertain))) => found != there && !uncertain && !hit.order_uncertain,
            _ => false,
        };
        *there = hit.value.map(|value| (value.bits, hit.order_uncertain));
        wrong
    })
}

/// Two hits next to each other that both claim their place, and came the other way round in truth.
pub(super) fn wrong_claim(hits: &[Hit]) -> Option<(&Hit, &Hit)> {
    let writes = |hit: &Hit| hit.access.is_some_and(|access| access.kind.writes());
    let certain = |a: &Hit, b: &Hit| !a.order_uncertain && !b.order_uncertain && (writes(a) || writes(b));
    let claims = |a: &Hit, b: &Hit| certain(a, b) && a.pc > b.pc;
    let next_to = hits.iter().zip(hits.iter().skip(1));
    let at_one = (0..2).flat_map(|location| {
        let here = move || hits.iter().filter(move |hit| hit.location == location);
        here().zip(here().skip(1))
    });
    next_to.chain(at_one).find(|(a, b)| claims(a, b))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_order_found_fits_the_values(events in run(told(), WINDOW), batch in 1usize..9) {
        let pending = hits(&events);
        let out = ordered(&pending, nothing_seen, batch);
        prop_assert_eq!(out.len(), pending.len());
        prop_assert!(out.iter().zip(1..).all(|(hit, seq)| hit.seq == seq));
        prop_assert_eq!(contradiction(&out), None, "{:?}", out);
        for tid in 0..3 {
            let mine: Vec<_> = out.iter().filter(|hit| hit.tid == tid).map(|hit| hit.pc).collect();
            prop_assert!(mine.is_sorted(), "a thread's own order was changed");
        }
    }

    #[test]
    fn values_that_only_memory_told_fit_too(events in run(any_op(), WINDOW), batch in 1usize..9, see in any::<bool>()) {
        let pending = hits(&events);
        let look = |pending: &Pending| if see { looks(&events, pending) } else { Vec::new() };
        let out = ordered(&pending, look, batch);
        prop_assert_eq!(out.len(), pending.len());
        prop_assert_eq!(contradiction(&out), None, "{:?}", out);
    }

    #[test]
    fn what_is_not_marked_is_the_true_order(events in run(any_op(), WINDOW), see in any::<bool>()) {
        let pending = hits(&events);
        let look = |pending: &Pending| if see { looks(&events, pending) } else { Vec::new() };
        let out = ordered(&pending, look, usize::MAX);
        prop_assert_eq!(wrong_claim(&out), None, "{:?}", out);
        prop_assert_eq!(contradiction(&out), None, "{:?}", out);
    }

    #[test]
    fn an_order_that_is_the_only_one_is_certain(events in run(told(), WINDOW)) {
        let pending = hits(&events);
        let out = ordered(&pending, nothing_seen, usize::MAX);
        if only_order(&pending) {
            let pcs: Vec<_> = out.iter().map(|hit| hit.pc).collect();
            prop_assert!(pcs.is_sorted());
            prop_assert!(out.iter().all(|hit| !hit.order_uncertain));
        }
    }

    #[test]
    fn exact_times_are_kept(events in run(any_op(), 0)) {
        let mut pending = hits(&events);
        for pending in &mut pending {
            pending.earliest_ns = pending.hit.time_ns;
            pending.likely_ns = pending.earliest_ns;
        }
        let out = ordered(&pending, |pending| looks(&events, pending), 4);
        prop_assert!(out.iter().map(|hit| hit.pc).is_sorted());
        prop_assert!(out.iter().all(|hit| !hit.order_uncertain));
        // Nobody was faster than a look at memory: every value is the true one.
        for (hit, event) in out.iter().zip(&events) {
            let after = content_at(&events, event.location, event.time_ns);
            prop_assert_eq!(hit.value.map(|value| value.bits), Some(after));
        }
    }
}

/// Anything that somebody could push: accesses and looks in any order, at any times, with spans that end before they begin.
#[derive(Clone, Debug)]
enum Anything {
    Access(Event, u64),
    Look(u32, Seen),
    Ready(u64),
}

fn anything() -> impl Strategy<Value = Vec<Anything>> {
    let time = || prop_oneof![0..20 * STEP, 0..PATIENCE_NS * 20, Just(u64::MAX)];
    let access = (0u32..3, 0usize..2, any_op(), time(), time());
    let access = access.prop_map(|(tid, location, op, report_ns, earliest_ns)| {
        let event = Event {
            tid,
            location,
            op,
            time_ns: report_ns,
            resumed_ns: 0,
            report_ns,
        };
        Anything::Access(event, earliest_ns)
    });
    let look = (0u32..3, 0usize..2, 0u64..4, time(), time());
    let look = look.prop_map(|(tid, location, content, from_ns, until_ns)| {
        let content = content.into();
        let seen = Seen {
            location,
            at: RunAddr(0),
            content,
            from_ns,
            until_ns,
        };
        Anything::Look(tid, seen)
    });
    let ready = (0..PATIENCE_NS * 20).prop_map(Anything::Ready);
    prop::collection::vec(prop_oneof![4 => access, 3 => look, 1 => ready], 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn whatever_comes_goes(all in anything()) {
        let mut orderer = Orderer::default();
        let (mut pushed, mut out) = (0u64, Vec::new());
        for one in all {
            match one {
                Anything::Access(event, earliest_ns) => {
                    let mut pending = event.hit(pushed, 1, 1);
                    pending.earliest_ns = earliest_ns;
                    pending.likely_ns = earliest_ns;
                    orderer.push(pending);
                    pushed += 1;
                }
                Anything::Look(tid, seen) => orderer.see(tid, seen),
                Anything::Ready(complete_ns) => out.extend(orderer.ready(complete_ns)),
            }
        }
        out.extend(orderer.flush());
        let mut told: Vec<u64> = out.iter().map(|hit| hit.reported_pc.0).collect();
        told.sort_unstable();
        prop_assert!(told.into_iter().eq(0..pushed));
    }
}

/// In observe mode a thread's stop at a probe may be told before a hit of the same thread that was earlier.
#[test]
fn a_hit_that_was_told_after_a_later_one_of_its_thread_comes_before_it() {
    let mut pending = hits(&[event(0, Op::Load, 1, 0), event(0, Op::Store(1), 2, 0)]);
    pending.reverse();
    let mut orderer = Orderer::default();
    for pending in pending {
        let at_ns = pending.hit.time_ns;
        let (tid, content) = (pending.hit.tid, pending.hit.value.unwrap().content());
        orderer.push(pending);
        let seen = Seen {
            location: 0,
            at: RunAddr(0),
            content,
            from_ns: at_ns,
            until_ns: at_ns + 10 * STEP,
        };
        orderer.see(tid, seen);
    }
    let out = orderer.flush();
    let order: Vec<u64> = out.iter().map(|hit| hit.reported_pc.0).collect();
    assert_eq!(order, [0, 1]);
    assert!(out.iter().all(|hit| !hit.order_uncertain), "{out:#?}");
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
            if pending.earliest_ns > first || hit.before.is_some_and(|before| before.bits != there) {
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
            callers: Vec::new(),
            access: Some(Access { kind, atomic: false }),
            addr: RunAddr(0),
            len: 4,
            location: 0,
            value: exact(after),
            before,
            order_uncertain: false,
            in_frame: None,
        },
        at: RunAddr(0),
        earliest_ns: time_ns.saturating_sub(50),
        likely_ns: time_ns.saturating_sub(50),
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
    let out = ordered(&reports, nothing_seen, 1);
    let order: Vec<u64> = out.iter().filter_map(|hit| hit.pc).map(|pc| pc.0).collect();
    let read_before_write = order.iter().position(|n| *n == 2) < order.iter().position(|n| *n == 3);
    assert!(read_before_write, "{order:?}");
    assert_eq!(out[3].before.map(|before| before.bits), Some(6));
}

fn event(tid: u32, op: Op, n: u64, late: u64) -> Event {
    Event {
        tid,
        location: 0,
        op,
        time_ns: n * STEP,
        resumed_ns: 0,
        report_ns: n * STEP + late,
    }
}

#[test]
fn what_fits_nowhere_is_said() {
    let mut pending = hits(&[event(0, Op::Store(1), 1, 0), event(1, Op::Load, 10, 0)]);
    pending[1].hit.before = exact(9);
    pending[1].hit.value = exact(9);
    for pending in &mut pending {
        pending.earliest_ns = pending.hit.time_ns - 5;
        pending.likely_ns = pending.earliest_ns;
    }
    let out = ordered(&pending, nothing_seen, 9);
    assert_eq!(out.len(), 2);
    assert!(!out[0].order_uncertain && out[1].order_uncertain);
}

#[test]
fn an_update_that_was_overtaken_is_said_to_be() {
    // The increment read 0, and wrote 1 after the store of 7.
    let events = [
        event(0, Op::Store(7), 4, 0),
        event(1, Op::Increment, 4, 1),
        event(2, Op::Load, 20, 0),
    ];
    let mut pending = hits(&events);
    pending[2].hit.before = exact(1);
    pending[2].hit.value = exact(1);
    let out = ordered(&pending, nothing_seen, usize::MAX);
    let order: Vec<u32> = out.iter().map(|hit| hit.tid).collect();
    assert_eq!(order, [0, 1, 2]);
    assert!(out[1].order_uncertain && !out[2].order_uncertain);
    let bits = |value: Option<Value>| value.map(|value| value.bits);
    assert_eq!((bits(out[1].before), bits(out[1].value)), (Some(0), Some(1)));
}

#[test]
fn a_look_in_the_middle_of_a_write_is_disregarded() {
    let events = [
        event(0, Op::Store(7), 1, 0),
        event(0, Op::Load, 5, 0),
        event(0, Op::Load, 9, 0),
    ];
    let pending = hits(&events);
    let torn = |pending: &Pending| {
        let mut seen = looks(&events, pending);
        if pending.hit.time_ns < 5 * STEP {
            seen[0].content = 99.into();
        }
        seen
    };
    let out = ordered(&pending, torn, usize::MAX);
    assert!(out.iter().all(|hit| !hit.order_uncertain), "{out:?}");
}

#[test]
fn values_that_occur_once_decide_the_order() {
    // Every report but the last comes after the last access: times tell nothing.
    let events: Vec<Event> = (0..3)
        .flat_map(|round| (0..3).map(move |tid| (round, tid)))
        .map(|(round, tid)| event(tid, Op::FetchAdd(1), 10 + u64::from(tid) * 2 + round * 10, 0))
        .collect();
    let mut pending = hits(&events);
    for pending in &mut pending {
        pending.earliest_ns = pending.hit.time_ns / (10 * STEP) * (10 * STEP);
        pending.likely_ns = pending.earliest_ns;
        pending.hit.time_ns = pending.earliest_ns + 10 * STEP - 1 - u64::from(pending.hit.tid);
    }
    let out = ordered(&pending, nothing_seen, usize::MAX);
    assert!(out.iter().map(|hit| hit.pc).is_sorted());
    assert!(out.iter().all(|hit| !hit.order_uncertain));
}

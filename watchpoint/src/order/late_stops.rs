//! Exact mode: a thread may be on its way from an access to its stop for as long as it likes, but it is known when nobody
//! is, and memory is looked at whenever somebody stops. The order found never contradicts itself then, marked or not.

use proptest::prelude::*;

use super::simulation::{Event, Op, STEP, WINDOW, any_op, hits, looks_at, run, run_of, told, wrong_claim};
use super::*;
use crate::hit::Value;

/// So late that others are put in order without it where they can be.
const LATE: u64 = 40 * STEP;
/// Longer than anybody's patience.
const VERY_LATE: u64 = 200 * STEP;

/// What is asked when a hit was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Nothing,
    /// Whether somebody is on the way.
    IsSomebody,
    /// Since when somebody is: all that happened before is there.
    SinceWhen,
}

fn asked() -> impl Strategy<Value = Vec<Ask>> {
    let one = prop_oneof![Just(Ask::Nothing), Just(Ask::IsSomebody), Just(Ask::SinceWhen)];
    prop::collection::vec(one, 1..6)
}

/// What exact mode asks: it waits for a moment at which nobody is on the way.
fn asked_for_moments() -> impl Strategy<Value = Vec<Ask>> {
    let one = prop_oneof![Just(Ask::Nothing), Just(Ask::IsSomebody)];
    prop::collection::vec(one, 1..6)
}

/// Hits as they are reported, with what is known of the times of their accesses.
struct Stops {
    pending: Vec<Pending>,
    /// In the order of the reports, each with the time up to which all is there then, if that was asked.
    arriving: Vec<(usize, Option<u64>)>,
}

/// What is known of the times of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noted {
    /// When their threads stopped.
    AtStops,
    /// When they happened, up to so much too late. That it is less than [`WINDOW`] is assumed.
    AtAccesses(u64),
}

fn stops(events: &[Event], asked: &[Ask], noted: Noted) -> Stops {
    let mut pending = hits(events);
    let mut arriving: Vec<usize> = (0..events.len()).collect();
    arriving.sort_by_key(|&at| events[at].report_ns);
    let mut landed_ns = 0;
    let mut out = Vec::new();
    for (&at, ask) in arriving.iter().zip(asked.iter().cycle()) {
        let event = &events[at];
        pending[at].earliest_ns = event.resumed_ns.max(landed_ns);
        pending[at].likely_ns = pending[at].earliest_ns;
        if let Noted::AtAccesses(late) = noted {
            // As late as its number says, which is any number.
            let noted_ns = event.time_ns + (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (late + 1);
            let noted_ns = noted_ns.min(event.report_ns);
            pending[at].hit.time_ns = noted_ns;
            pending[at].likely_ns = pending[at].earliest_ns.max(noted_ns.saturating_sub(WINDOW));
        }
        let now = event.report_ns;
        let on_the_way = |other: &&Event| other.time_ns <= now && other.report_ns > now;
        let since = events.iter().filter(on_the_way).map(|other| other.time_ns).min();
        let complete = match ask {
            Ask::Nothing => None,
            Ask::IsSomebody => since.is_none().then_some(now),
            Ask::SinceWhen => Some(since.map_or(now, |since| since - 1)),
        };
        if since.is_none() && complete.is_some() {
            landed_ns = now;
        }
        out.push((at, complete));
    }
    Stops {
        pending,
        arriving: out,
    }
}

fn ordered(events: &[Event], asked: &[Ask], noted: Noted) -> Vec<Hit> {
    let Stops { pending, arriving } = stops(events, asked, noted);
    let mut orderer = Orderer::default();
    orderer.arm(0, RunAddr(0), Some(0.into()));
    orderer.arm(1, RunAddr(0), Some(0.into()));
    let mut out = Vec::new();
    for (at, complete_ns) in arriving {
        orderer.push(pending[at].clone());
        for seen in looks_at(events, events[at].report_ns) {
            orderer.see(pending[at].hit.tid, seen);
        }
        if let Some(complete_ns) = complete_ns {
            out.extend(orderer.ready(complete_ns));
        }
    }
    out.extend(orderer.flush());
    out
}

/// A hit that finds something else than the one before it left, certain or not.
fn contradiction(hits: &[Hit]) -> Option<&Hit> {
    let mut memory = [Some(0); 2];
    hits.iter().find(|hit| {
        let there = std::mem::replace(&mut memory[hit.location], hit.value.map(|value| value.bits));
        let found = hit.before.map(|before| before.bits);
        found.zip(there).is_some_and(|(found, there)| found != there)
    })
}

/// Whether times, values and looks leave no order but the true one; false when there are too many to try.
fn only_order(events: &[Event], asked: &[Ask]) -> bool {
    let Stops { pending, .. } = stops(events, asked, Noted::AtStops);
    let mut queues: BTreeMap<u32, Queue<'_>> = BTreeMap::new();
    for (event, pending) in events.iter().zip(&pending) {
        let place = |location| Place {
            location,
            at: RunAddr(0),
            armed: 0,
        };
        let exact = |value: Option<Value>| value.filter(Value::is_exact).map(|value| value.bits);
        let queue = queues.entry(pending.hit.tid).or_default();
        queue.push((
            pending.earliest_ns,
            pending.hit.time_ns,
            place(pending.hit.location),
            exact(pending.hit.before),
            Some(pending),
        ));
        for seen in looks_at(events, event.report_ns) {
            let content = Some(seen.content.low());
            queue.push((seen.from_ns, seen.until_ns, place(seen.location), content, None));
        }
    }
    let queues: Vec<_> = queues.into_values().collect();
    let mut found = Vec::new();
    let mut way = Way {
        queues: &queues,
        order: Vec::new(),
        steps: 0,
        found: &mut found,
    };
    way.follow(&mut vec![0; queues.len()], [0; 2]);
    way.steps <= MOST_STEPS && found.len() == 1
}

const MOST_STEPS: u32 = 200_000;

/// Its span, where, what was found there, and the access, if it is not just a look.
type Queue<'p> = Vec<(u64, u64, Place, Option<u64>, Option<&'p Pending>)>;

struct Way<'w, 'p> {
    queues: &'w [Queue<'p>],
    order: Vec<u64>,
    steps: u32,
    /// Orders of the accesses, each once.
    found: &'w mut Vec<Vec<u64>>,
}

impl Way<'_, '_> {
    fn follow(&mut self, at: &mut Vec<usize>, memory: [u64; 2]) {
        self.steps += 1;
        if self.steps > MOST_STEPS || self.found.len() > 1 {
            return;
        }
        let heads: Vec<_> = self
            .queues
            .iter()
            .zip(&*at)
            .map(|(queue, &at)| queue.get(at))
            .collect();
        let Some(first) = heads.iter().flatten().map(|item| item.1).min() else {
            if !self.found.contains(&self.order) {
                self.found.push(self.order.clone());
            }
            return;
        };
        for (thread, head) in heads.into_iter().enumerate() {
            let Some(&(earliest, _, place, found, pending)) = head else {
                continue;
            };
            let there = memory[place.location];
            if earliest > first || found.is_some_and(|found| found != there) {
                continue;
            }
            let mut memory = memory;
            if let Some(pending) = pending {
                let left = pending.left().map(|left| left.low());
                let applied = pending.applied(there.into()).map(|content| content.low());
                memory[place.location] = left.or(applied).unwrap_or(there);
                self.order.push(pending.hit.reported_pc.0);
            }
            at[thread] += 1;
            self.follow(at, memory);
            at[thread] -= 1;
            if pending.is_some() {
                self.order.pop();
            }
        }
    }
}

/// Checks that all hits come out, and none contradicts the one before.
fn check_consistent(events: &[Event], asked: &[Ask], noted: Noted) -> Result<(), TestCaseError> {
    let out = ordered(events, asked, noted);
    prop_assert_eq!(out.len(), events.len());
    prop_assert_eq!(contradiction(&out), None, "{:#?}", out);
    prop_assert_eq!(wrong_claim(&out), None, "{:#?}", out);
    let threads: BTreeSet<u32> = out.iter().map(|hit| hit.tid).collect();
    for tid in threads {
        let mine = out.iter().filter(|hit| hit.tid == tid).map(|hit| hit.pc);
        prop_assert!(mine.is_sorted(), "a thread's own order was changed");
    }
    Ok(())
}

/// Checks that an order that is the only one comes out as certain.
fn check_certain(events: &[Event], asked: &[Ask]) -> Result<(), TestCaseError> {
    let out = ordered(events, asked, Noted::AtStops);
    if only_order(events, asked) {
        prop_assert!(out.iter().map(|hit| hit.pc).is_sorted());
        prop_assert!(out.iter().all(|hit| !hit.order_uncertain), "{:#?}", out);
    }
    Ok(())
}

/// Many threads that add to the same: no access tells what it found, and there are more orders than can be followed.
fn crowd() -> impl Strategy<Value = Vec<Event>> {
    // Most threads stop at once; some have to wait for a processor.
    let late = prop_oneof![6 => 0..=STEP, 1 => 0..=LATE];
    run_of(40, 64, any::<u8>().prop_map(Op::AtomicAdd), late)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn nothing_contradicts_in_a_crowd(events in crowd(), asked in asked_for_moments()) {
        check_consistent(&events, &asked, Noted::AtAccesses(WINDOW))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn nothing_contradicts(events in run(any_op(), LATE), asked in asked()) {
        check_consistent(&events, &asked, Noted::AtStops)?;
    }

    #[test]
    fn nothing_contradicts_however_late(events in run(any_op(), VERY_LATE), asked in asked_for_moments()) {
        check_consistent(&events, &asked, Noted::AtStops)?;
    }

    #[test]
    fn nothing_contradicts_where_times_are_noted(
        events in run(any_op(), VERY_LATE),
        asked in asked_for_moments(),
    ) {
        check_consistent(&events, &asked, Noted::AtAccesses(WINDOW))?;
    }

    #[test]
    fn nothing_contradicts_where_times_are_noted_too_late(
        events in run(any_op(), VERY_LATE),
        asked in asked_for_moments(),
    ) {
        let out = ordered(&events, &asked, Noted::AtAccesses(LATE));
        prop_assert_eq!(contradiction(&out), None, "{:#?}", out);
    }

    #[test]
    fn what_can_be_told_is_not_marked(events in run(told(), LATE), asked in asked()) {
        check_certain(&events, &asked)?;
    }

    #[test]
    fn what_can_be_told_is_not_marked_however_late(
        events in run(told(), VERY_LATE),
        asked in asked_for_moments(),
    ) {
        check_certain(&events, &asked)?;
    }
}

#[test]
fn an_exchange_waits_for_what_the_increment_after_it_is_told() {
    // The increment has its place when it is the only thing that can be next, and what tells what it left comes later.
    let event = |tid, op, time_ns, resumed_ns, report_ns| Event {
        tid,
        location: 0,
        op,
        time_ns,
        resumed_ns,
        report_ns,
    };
    let events = [
        event(2, Op::Exchange(0), 45, 0, 277),
        event(1, Op::Increment, 55, 0, 295),
        event(2, Op::Load, 278, 277, 360),
        event(1, Op::Load, 296, 295, 361),
        event(0, Op::Load, 305, 0, 305),
    ];
    let in_ms = |event: Event| Event {
        time_ns: event.time_ns * 1_000_000,
        resumed_ns: event.resumed_ns * 1_000_000,
        report_ns: event.report_ns * 1_000_000,
        ..event
    };
    let out = ordered(&events.map(in_ms), &[Ask::SinceWhen], Noted::AtStops);
    assert_eq!(contradiction(&out), None, "{out:#?}");
    assert_eq!(out[0].value, Some(Value::new(0, Provenance::Computed)));
    assert_eq!(out[1].value, Some(Value::new(1, Provenance::Computed)));
    assert!(out.iter().all(|hit| !hit.order_uncertain), "{out:#?}");
}

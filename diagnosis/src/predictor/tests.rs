use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::accesses::{Touch, by_address};
use super::extract::{locate, observe};
use super::{Actor, AtomicityPattern, OrderPattern, Predictor};
use crate::run::{
    Access, AccessKind, Catalogue, Event, LocationId, LocationInfo, Run, RunThread, Shape, StatementId,
    ThreadIx, What,
};
use crate::testkit::Lab;

const ROLES: [&str; 3] = ["main", "worker", "worker"];

fn accesses() -> impl Strategy<Value = Vec<(u32, u32, u32, AccessKind, u64, bool)>> {
    let kind = prop_oneof![
        Just(AccessKind::Read),
        Just(AccessKind::Write),
        Just(AccessKind::ReadWrite)
    ];
    let uncertain = prop_oneof![9 => Just(false), 1 => Just(true)];
    proptest::collection::vec((0..3_u32, 0..4_u32, 0..2_u32, kind, 0..3_u64, uncertain), 0..14)
}

pub(crate) fn catalogue() -> Catalogue {
    let location = |shape| LocationInfo {
        variable: None,
        width: 8,
        shape,
        of_library: false,
    };
    Catalogue {
        locations: vec![location(Shape::Unsigned), location(Shape::Pointer)],
        guards: [(StatementId(0), StatementId(1))].into(),
        ..Catalogue::default()
    }
}

fn run_of(list: &[(u32, u32, u32, AccessKind, u64, bool)]) -> Run {
    let event = |&(thread, statement, location, kind, value, uncertain): &(_, _, _, _, _, _)| Event {
        thread: ThreadIx(thread),
        statement: StatementId(statement),
        time_ns: None,
        uncertain,
        what: What::Access(Access {
            location: LocationId(location),
            addr: u64::from(location),
            kind,
            value: Some(value),
            before: None,
        }),
    };
    Run {
        number: 1,
        failed: None,
        sigma: 2,
        threads: ROLES
            .iter()
            .map(|role| RunThread {
                role: (*role).into(),
                stack: Vec::new(),
                ended: false,
                calls: BTreeMap::new(),
            })
            .collect(),
        events: list.iter().map(event).collect(),
        watched: [LocationId(0), LocationId(1)].into(),
        late: BTreeSet::new(),
        traced: BTreeSet::new(),
        incomplete: None,
        gaps: Vec::new(),
        waits: Vec::new(),
    }
}

/// The definitions of the patterns, taken literally.
fn by_definition(run: &Run) -> BTreeMap<Predictor, bool> {
    let mut all: BTreeMap<Predictor, bool> = BTreeMap::new();
    for ((location, _), list) in by_address(run) {
        let actor = |touch: &Touch| Actor {
            statement: touch.statement,
            role: ROLES[touch.thread.0 as usize].into(),
        };
        let mut add = |predictor, touches: &[&Touch]| {
            let alone = touches.len() > 1 || touches[0].block.is_none();
            let certain = alone && touches.windows(2).all(|pair| pair[0].certainly_before(pair[1]));
            *all.entry(predictor).or_default() |= certain;
        };
        for (j, second) in list.iter().enumerate() {
            let mut writes = list[..j].iter().filter(|touch| touch.kind.writes());
            let last = writes.clone().next_back();
            let blank = location == LocationId(1)
                && second.kind == AccessKind::Read
                && writes.all(|write| write.value == Some(0))
                && (second.met(), second.block, last.and_then(|write| write.block)) == (Some(0), None, None);
            if second.kind.reads() && (last.is_none() || blank) {
                let read = actor(second);
                add(Predictor::Unwritten { location, read }, &[second]);
            }
            let value_before = list[..j]
                .iter()
                .rfind(|touch| touch.kind.writes())
                .and_then(|w| w.value);
            for (i, first) in list[..j].iter().enumerate() {
                let between = &list[i + 1..j];
                let unwritten = between.iter().all(|touch| !touch.kind.writes());
                let mut pair = |pattern| {
                    let predictor = Predictor::Order {
                        pattern,
                        location,
                        first: actor(first),
                        second: actor(second),
                    };
                    add(predictor, &[first, second]);
                };
                if first.thread != second.thread && unwritten {
                    if first.kind.writes() && second.kind.reads() {
                        pair(OrderPattern::Wr);
                    }
                    if first.kind == AccessKind::Read && second.kind.writes() {
                        pair(OrderPattern::Rw);
                    }
                    if first.kind.writes() && second.kind == AccessKind::Write && between.is_empty() {
                        pair(OrderPattern::Ww);
                    }
                }
                let own: Vec<&Touch> = between
                    .iter()
                    .filter(|touch| touch.thread == second.thread)
                    .collect();
                let is_check = (first.statement, second.statement) == (StatementId(0), StatementId(1))
                    && first.kind == AccessKind::Read
                    && second.kind == AccessKind::Read
                    && own
                        .iter()
                        .all(|read| read.kind == AccessKind::Read && read.value == first.value);
                let held = own.last().copied().unwrap_or(first);
                let between = between.iter().filter(|touch| touch.event > held.event);
                if first.thread == second.thread && (own.is_empty() || is_check) {
                    let met = match second.kind {
                        AccessKind::Read => second.value,
                        _ => second.before.or(value_before),
                    };
                    for other in between {
                        let Some(pattern) = AtomicityPattern::of(first.kind, other.kind, second.kind) else {
                            continue;
                        };
                        let ends_in_read = matches!(pattern, AtomicityPattern::Rwr | AtomicityPattern::Wwr);
                        let last = list[..j].iter().rfind(|touch| touch.kind.writes());
                        let replaced = last.filter(|write| ends_in_read && write.event != other.event);
                        if replaced.is_some_and(|write| other.certainly_before(write)) {
                            continue;
                        }
                        if pattern == AtomicityPattern::Wrw || first.value != met {
                            let predictor = Predictor::Atomicity {
                                pattern,
                                location,
                                first: actor(first),
                                between: actor(other),
                                second: actor(second),
                            };
                            // Which of two writes is the last one may not be known.
                            let written: Vec<&Touch> = replaced.into_iter().collect();
                            add(predictor, &[&[held, other], &written[..], &[second]].concat());
                        }
                    }
                }
            }
        }
    }
    all
}

/// Whether a thread read both locations, each at one of its addresses, and nobody had written the one since another thread's
/// last write to the other.
fn is_torn(run: &Run, predictor: &Predictor) -> bool {
    let lists = by_address(run);
    let Predictor::Torn {
        changed,
        kept,
        write,
        fresh,
        stale,
        stale_first,
    } = predictor
    else {
        return false;
    };
    let is = |touch: &Touch, actor: &Actor| {
        touch.statement == actor.statement && ROLES[touch.thread.0 as usize] == &*actor.role
    };
    let reads = |location: &LocationId, actor: &Actor| {
        let of = lists.iter().filter(|((at, _), _)| at == location);
        let touches = of.flat_map(|(_, list)| list.iter().map(move |touch| (list.clone(), *touch)));
        let found: Vec<(Vec<Touch>, Touch)> = touches
            .filter(|(_, touch)| touch.kind.reads() && is(touch, actor))
            .collect();
        found
    };
    let last_write = |list: &[Touch], before: &Touch| {
        let earlier = list.iter().filter(|touch| touch.event < before.event);
        earlier.copied().rfind(|touch| touch.kind.writes())
    };
    reads(changed, fresh).iter().any(|(list, new)| {
        let Some(made) = last_write(list, new).filter(|made| is(made, write)) else {
            return false;
        };
        reads(kept, stale).iter().any(|(list, old)| {
            let before = last_write(list, old);
            (old.event < new.event) == *stale_first
                && (old.thread, made.thread == new.thread) == (new.thread, false)
                && before.is_none_or(|before| before.event < made.event)
        })
    })
}

proptest! {
    #[test]
    fn patterns_are_what_their_definitions_say(list in accesses()) {
        let run = run_of(&list);
        let observation = observe(&catalogue(), &run);
        let expected = by_definition(&run);
        let interleaving = |predictor: &&Predictor| {
            predictor.pattern().is_some() && !matches!(predictor, Predictor::Torn { .. })
        };
        for predictor in observation.held.keys().filter(interleaving) {
            prop_assert_eq!(expected.get(predictor), Some(&true), "{:?}", predictor);
        }
        for (predictor, certain) in &expected {
            let held = observation.held.contains_key(predictor);
            let unknown = observation.unknown.contains(predictor);
            prop_assert!(held || unknown, "{:?}", predictor);
            prop_assert!(*certain || unknown, "{:?}", predictor);
        }
        let torn = |predictor: &&Predictor| matches!(predictor, Predictor::Torn { .. });
        for predictor in observation.held.keys().filter(torn) {
            prop_assert!(is_torn(&run, predictor), "{:?}", predictor);
        }
        prop_assert!(observation.unknown.iter().all(|predictor| !observation.held.contains_key(predictor)));
    }

    #[test]
    fn what_held_is_found_again(list in accesses()) {
        let run = run_of(&list);
        for (predictor, end) in observe(&catalogue(), &run).held {
            let events = locate(&catalogue(), &run, &predictor).unwrap();
            let last = events.iter().max().unwrap();
            prop_assert_eq!((run.events.len() - 1 - last) as u64, end.events_after, "{:?}", predictor);
        }
    }
}

fn held(lab: &Lab, run: &Run) -> Vec<String> {
    let observation = observe(&lab.catalogue, run);
    let patterns = observation.held.keys().filter_map(|predictor| {
        let lines = predictor.accesses();
        let lines = lines
            .iter()
            .map(|(actor, _, _)| lab.catalogue.statements[actor.statement.0 as usize].line);
        let lines: Vec<String> = lines.map(|line| line.unwrap().to_string()).collect();
        Some(format!("{} {}", predictor.pattern()?, lines.join(" ")))
    });
    patterns.collect()
}

#[test]
fn an_increment_that_was_torn_apart_is_two_accesses() {
    let mut lab = Lab::new(&[('a', "worker"), ('b', "worker")], &[("n", Shape::Signed)]);
    let whole = lab.success("a:R5=0 a:W5=1 b:R5=1 b:W5=2");
    assert_eq!(held(&lab, &whole), ["-R 5", "WR 5 5"]);
    let torn = lab.success("a:R5=0 b:R5=0 b:W5=1 a:W5=1");
    assert!(
        held(&lab, &torn).contains(&"RWW 5 5 5".to_owned()),
        "{:?}",
        held(&lab, &torn)
    );
}

#[test]
fn an_uncertain_order_is_no_fact_either_way() {
    let mut lab = Lab::new(&[('a', "main"), ('b', "worker")], &[("n", Shape::Signed)]);
    let run = lab.success("a:W1=1? b:R2=1?");
    let observation = observe(&lab.catalogue, &run);
    let names: Vec<_> = observation
        .unknown
        .iter()
        .filter_map(|predictor| predictor.pattern())
        .collect();
    assert!(held(&lab, &run).is_empty(), "{:?}", held(&lab, &run));
    assert_eq!(names, ["WR", "RW"]);
}

#[test]
fn what_was_read_tells_the_order_that_times_leave_open() {
    let mut lab = Lab::new(&[('a', "main"), ('b', "worker")], &[("n", Shape::Signed)]);
    let mut run = lab.success("a:W1=7 a:W4=1? b:R2=1? b:R3=1");
    if let What::Access(access) = &mut run.events[1].what {
        access.before = Some(7);
    }
    assert_eq!(held(&lab, &run), ["WR 4 2", "WR 4 3"]);
}

/// A report that came so late that its place was given away already.
#[test]
fn what_met_something_else_than_was_there_has_no_place() {
    let mut lab = Lab::new(&[('a', "w"), ('b', "w")], &[("n", Shape::Pointer)]);
    let run = lab.success("a:W1=7 b:R2=7 a:W3=0 b:R2=7? b:R2=7");
    assert!(
        !held(&lab, &run).contains(&"WR 3 2".to_owned()),
        "{:?}",
        held(&lab, &run)
    );
    let unknown = observe(&lab.catalogue, &run).unknown;
    let cleared = lab.line(3);
    let by_clearing = |predictor: &Predictor| predictor.accesses()[0].0.statement == cleared;
    assert!(unknown.iter().any(by_clearing), "{unknown:?}");
}

#[test]
fn what_is_uncertain_among_its_neighbours_is_certain_towards_the_rest() {
    let mut lab = Lab::new(
        &[('a', "main"), ('b', "worker")],
        &[("n", Shape::Signed), ("m", Shape::Signed)],
    );
    let run = lab.success("b:R1=7 a:W2=1? b:R5=3@m? b:R3=1");
    assert!(
        held(&lab, &run).contains(&"RWR 1 2 3".to_owned()),
        "{:?}",
        held(&lab, &run)
    );
}

#[test]
fn what_was_armed_late_says_nothing_about_the_first_read() {
    let mut lab = Lab::new(&[('a', "main")], &[("n", Shape::Signed)]);
    let mut run = lab.success("a:R2=1");
    assert_eq!(held(&lab, &run), ["-R 2"]);
    run.late = run.watched.clone();
    assert!(held(&lab, &run).is_empty());
}

#[test]
fn what_was_made_empty_is_unwritten_until_it_is_filled() {
    let mut lab = Lab::new(&[('a', "main"), ('b', "worker")], &[("p", Shape::Pointer)]);
    let early = lab.success("a:W1=0 b:R2=0 a:W3=7");
    assert!(held(&lab, &early).contains(&"-R 2".to_owned()));
    for other in ["a:W1=0 a:W3=7 b:R2=7", "a:W3=7 a:W4=0 b:R2=0"] {
        let run = lab.success(other);
        assert!(!held(&lab, &run).contains(&"-R 2".to_owned()), "{other}");
    }
    // A sum that is zero is a sum.
    let mut lab = Lab::new(&[('a', "main"), ('b', "worker")], &[("sum", Shape::Signed)]);
    let counting = lab.success("a:W1=0 b:R2=0 b:W2=5");
    assert!(!held(&lab, &counting).contains(&"-R 2".to_owned()));
}

#[test]
fn objects_at_different_addresses_are_different() {
    let mut lab = Lab::new(&[('a', "main"), ('b', "worker")], &[("p->n", Shape::Signed)]);
    let run = lab.success("a:W1=1@p->n+0 b:W2=1@p->n+1 b:R3=1@p->n+1 a:R4=1@p->n+0");
    assert!(held(&lab, &run).is_empty(), "{:?}", held(&lab, &run));
}

/// Two threads that hammer one counter: what is kept and what is looked at for each access stays small.
#[test]
fn long_runs_are_read_in_one_pass() {
    let mut list = Vec::new();
    for turn in 0..60_000_u32 {
        let kind = if turn % 3 == 0 {
            AccessKind::Write
        } else {
            AccessKind::Read
        };
        list.push((turn % 3, turn % 7, 0, kind, u64::from(turn), false));
    }
    let observation = observe(&catalogue(), &run_of(&list));
    assert!(observation.held.len() < 2_000, "{}", observation.held.len());
}

/// What one statement made in the beginning (75) is whole, whoever reads both halves of it (40) first.
#[test]
fn what_was_made_at_once_is_no_half_of_a_change() {
    let locations = [("bank", Shape::Signed), ("total", Shape::Signed)];
    let mut lab = Lab::new(&[('m', "main"), ('b', "banker")], &locations);
    let mut is_torn = |text| {
        let run = lab.success(text);
        let held = observe(&lab.catalogue, &run).held;
        held.keys().any(|predictor| predictor.pattern() == Some("WRR"))
    };
    assert!(!is_torn("m:W75=0 m:W75=0@total b:R40=0 b:R40=0@total"));
    assert!(
        is_torn("m:W75=0 m:W75=0@total m:W75=5 b:R40=5 b:R40=0@total"),
        "made anew by half"
    );
    assert!(
        is_torn("m:W75=0 m:W76=5@total b:R40=0 b:R40=5@total"),
        "two statements"
    );
}

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::Evidence;
use crate::predictor::extract::{Observation, begins_with, observe, returned_by, torn_by};
use crate::predictor::{OrderPattern, Predictor};
use crate::run::{
    Access, AccessKind, Catalogue, Event, Failed, LocationId, LocationInfo, Run, RunThread, Shape,
    StatementId, ThreadIx, What,
};
use crate::statistics::Counts;

type Happened = (u32, u32, u32, bool, u64, bool);

fn runs() -> impl Strategy<Value = Vec<Run>> {
    let event = (
        0..2_u32,
        0..3_u32,
        0..2_u32,
        any::<bool>(),
        0..2_u64,
        proptest::bool::weighted(0.1),
    );
    let events = proptest::collection::vec(event, 0..8);
    let sets = (any::<[bool; 2]>(), any::<[bool; 2]>());
    let run = (events, sets, any::<bool>(), proptest::bool::weighted(0.2));
    let run = run.prop_map(|(events, (watched, late), failed, incomplete)| {
        let set = |flags: [bool; 2]| -> BTreeSet<LocationId> {
            (0..2).filter(|at| flags[*at as usize]).map(LocationId).collect()
        };
        let watched = set(watched);
        Run {
            number: 0,
            failed: failed.then_some(Failed {
                thread: Some(ThreadIx(0)),
                statement: StatementId(0),
                instead_of: None,
                hang: false,
                polls: false,
            }),
            sigma: 2,
            threads: ["main", "worker"]
                .map(|role| RunThread {
                    role: role.into(),
                    stack: Vec::new(),
                    ended: false,
                    calls: BTreeMap::new(),
                })
                .into(),
            events: events.into_iter().map(event_of).collect(),
            late: set(late).intersection(&watched).copied().collect(),
            watched,
            traced: BTreeSet::new(),
            incomplete: incomplete.then(|| "cut short".to_owned()),
            gaps: Vec::new(),
            waits: Vec::new(),
        }
    });
    proptest::collection::vec(run, 0..12)
}

fn event_of((thread, statement, location, writes, value, uncertain): Happened) -> Event {
    Event {
        thread: ThreadIx(thread),
        statement: StatementId(statement),
        time_ns: None,
        uncertain,
        what: What::Access(Access {
            location: LocationId(location),
            addr: u64::from(location) + 8 * u64::from(statement % 2),
            kind: if writes {
                AccessKind::Write
            } else {
                AccessKind::Read
            },
            value: Some(value),
            before: None,
        }),
    }
}

fn catalogue() -> Catalogue {
    let location = LocationInfo {
        variable: None,
        width: 4,
        shape: Shape::Signed,
        of_library: false,
    };
    Catalogue {
        locations: vec![location.clone(), location],
        ..Catalogue::default()
    }
}

/// Every run asked again about one predictor.
fn brute_force(runs: &[Run], predictor: &Predictor) -> Counts {
    let mut counts = Counts::default();
    for run in runs {
        let observation = observe(&catalogue(), run);
        let held = observation.held.contains_key(predictor);
        let watched = predictor
            .locations()
            .iter()
            .all(|location| run.watched.contains(location));
        let from_the_start = predictor.needs_the_start() || others_know(runs, predictor);
        let late = from_the_start && is_late(run, predictor);
        let silent = !watched
            || run.incomplete.is_some()
            || late
            || saw_nothing(run, predictor)
            || observation.unknown.contains(predictor)
            || met_what_it_leaves(runs, &observation, predictor)
            || torn_by(predictor).is_some_and(|torn| observation.headless.contains(&torn))
            || returned_by(predictor).is_some_and(|read| observation.missed.contains(&read))
            || begins_with(predictor).is_some_and(|begun| observation.cut.contains(&begun));
        if held || !silent {
            let (all, with) = match run.failed {
                Some(_) => (&mut counts.failing, &mut counts.failing_with),
                None => (&mut counts.successful, &mut counts.successful_with),
            };
            *all += 1;
            *with += u64::from(held);
        }
    }
    counts
}

/// Whether the read of a predictor met, before the run began to watch, what its write leaves in some run.
fn met_what_it_leaves(runs: &[Run], observation: &Observation, predictor: &Predictor) -> bool {
    let Predictor::Order {
        pattern: OrderPattern::Wr,
        location,
        first,
        second,
    } = predictor
    else {
        return false;
    };
    let met = observation.unseen.get(&(*location, second.clone()));
    met.is_some_and(|met| {
        let all = runs.iter().map(|run| observe(&catalogue(), run));
        let leaves = all.filter_map(|other| other.wrote.get(&(*location, first.clone())).copied());
        leaves.into_iter().any(|leaves| met.meet(leaves))
    })
}

/// Whether a run began to watch an interleaving's location so late that it saw none of its accesses there.
fn saw_nothing(run: &Run, predictor: &Predictor) -> bool {
    let seen = |location: LocationId, statement: StatementId| {
        run.events.iter().any(|happened| {
            matches!(happened.what, What::Access(access) if access.location == location)
                && happened.statement == statement
        })
    };
    let late: Vec<LocationId> = predictor
        .locations()
        .into_iter()
        .filter(|at| run.late.contains(at))
        .collect();
    let missed = |at: &LocationId| {
        let accesses = predictor.accesses();
        let mut here = accesses.iter().filter(|(_, location, _)| *location == Some(*at));
        here.all(|(actor, ..)| !seen(*at, actor.statement))
    };
    is_interleaving(predictor) && late.iter().any(missed)
}

fn is_interleaving(predictor: &Predictor) -> bool {
    matches!(
        predictor,
        Predictor::Order { .. } | Predictor::Atomicity { .. } | Predictor::Torn { .. }
    )
}

fn is_late(run: &Run, predictor: &Predictor) -> bool {
    let locations = predictor.locations();
    locations.iter().any(|location| run.late.contains(location))
}

/// Whether most complete runs of both kinds watched the locations of an interleaving from the start on.
fn others_know(runs: &[Run], predictor: &Predictor) -> bool {
    let watched = |run: &&Run| {
        let locations = predictor.locations();
        let watched = locations.iter().all(|location| run.watched.contains(location));
        run.incomplete.is_none() && watched && !saw_nothing(run, predictor)
    };
    let most = |failed: bool| {
        let all = runs.iter().filter(watched);
        let all: Vec<&Run> = all.filter(|run| run.failed.is_some() == failed).collect();
        let early = all.iter().filter(|run| !is_late(run, predictor)).count();
        early > 0 && 2 * early >= all.len()
    };
    is_interleaving(predictor) && most(true) && most(false)
}

fn add_up(runs: &[Run]) -> Evidence {
    let mut evidence = Evidence::new();
    for run in runs {
        evidence.add(&catalogue(), run);
    }
    evidence
}

proptest! {
    #[test]
    fn counts_are_those_of_asking_every_run_again(runs in runs()) {
        let evidence = add_up(&runs);
        for predictor in evidence.predictors() {
            let counts = evidence.counts(predictor);
            prop_assert_eq!(counts, brute_force(&runs, predictor), "{:?}", predictor);
            prop_assert!(counts.failing_with <= counts.failing && counts.successful_with <= counts.successful);
        }
        for run in &runs {
            for predictor in observe(&catalogue(), run).held.keys() {
                prop_assert!(evidence.predictors().any(|known| known == predictor), "{:?}", predictor);
            }
        }
    }

    /// Precision is a matter of the runs that have the predictor, and of no others.
    #[test]
    fn precision_is_what_the_counts_say(runs in runs()) {
        let evidence = add_up(&runs);
        for predictor in evidence.predictors() {
            let held = |failed: bool| {
                let of_kind = runs.iter().filter(|run| run.failed.is_some() == failed);
                of_kind.filter(|run| observe(&catalogue(), run).held.contains_key(predictor)).count()
            };
            let (failing, successful) = (held(true) as f64, held(false) as f64);
            let precision = if failing == 0.0 { 0.0 } else { failing / (failing + successful) };
            prop_assert_eq!(evidence.counts(predictor).precision(), precision);
        }
    }

    #[test]
    fn stored_evidence_goes_on_where_it_was(runs in runs(), at in 0..12_usize) {
        let (before, after) = runs.split_at(at.min(runs.len()));
        let stored = serde_json::to_string(&add_up(before)).unwrap();
        let mut evidence: Evidence = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(serde_json::to_string(&evidence).unwrap(), stored);
        for run in after {
            evidence.add(&catalogue(), run);
        }
        prop_assert_eq!(evidence, add_up(&runs));
    }

    #[test]
    fn the_order_of_runs_does_not_matter(runs in runs()) {
        let backwards: Vec<Run> = runs.iter().rev().cloned().collect();
        prop_assert_eq!(add_up(&runs), add_up(&backwards));
    }
}

/// An identifier, a time, a random number: different in every run.
#[test]
fn ever_new_numbers_do_not_grow_the_evidence() {
    let mut evidence = Evidence::new();
    let mut sizes = Vec::new();
    for turn in 0..400_u64 {
        let mut run = brute_run(turn);
        if turn % 3 == 0 {
            run.failed = Some(Failed {
                thread: None,
                statement: StatementId(0),
                instead_of: None,
                hang: false,
                polls: false,
            });
        }
        evidence.add(&catalogue(), &run);
        sizes.push(evidence.predictors().count());
    }
    assert_eq!(sizes[399], sizes[100], "{sizes:?}");
}

fn brute_run(number: u64) -> Run {
    Run {
        number,
        failed: None,
        sigma: 2,
        threads: vec![RunThread {
            role: "main".into(),
            stack: Vec::new(),
            ended: false,
            calls: BTreeMap::new(),
        }],
        events: vec![event_of((0, 0, 0, false, 1000 + number, false))],
        watched: [LocationId(0)].into(),
        late: BTreeSet::new(),
        traced: BTreeSet::new(),
        incomplete: None,
        gaps: Vec::new(),
        waits: Vec::new(),
    }
}

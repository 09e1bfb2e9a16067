//! How much is tracked when, and when it ends.

use super::*;
use crate::run::{Run, Shape};
use crate::testkit::Lab;

fn ended(failed: bool, ranked: &[Ranked], slice_length: Option<u32>) -> Ended<'_> {
    Ended {
        failed,
        here: true,
        part: Part::WHOLE,
        ranked,
        slice_length,
        watched: true,
        open: None,
        uncompared: false,
        locked: false,
        alone: false,
    }
}

/// Rankings with more and more failing runs, after `successes` successful ones.
fn rankings(lab: &mut Lab, good: &Run, bad: &Run, successes: usize) -> Vec<Vec<Ranked>> {
    let mut runs = vec![good.clone(); successes];
    (0..8)
        .map(|_| {
            runs.push(bad.clone());
            lab.rank(&runs).1
        })
        .collect()
}

fn order() -> (Lab, Run, Run) {
    let mut lab = Lab::new(&[('m', "main"), ('a', "worker")], &[("p", Shape::Pointer)]);
    let good = lab.success("m:W1=5 a:R2=5 m:W3=0");
    let bad = lab.failure("m:W1=5 m:W3=0 a:R2=0", 'a', &[2]);
    (lab, good, bad)
}

#[test]
fn whoever_asks_for_more_gets_twice_as_much_and_another_search() {
    let (mut lab, good, bad) = order();
    let ranked = rankings(&mut lab, &good, &bad, 5);
    let mut adapt = Adapt::new(FIRST, 12);
    let stop = ranked.iter().map(|ranked| adapt.ended(ended(true, ranked, None)));
    assert!(stop.last().is_some_and(|next| matches!(next, Next::Stop(_))));
    let sigma = adapt.sigma();
    assert_eq!(adapt.widen(), Next::Track(2 * sigma));
    assert_eq!(adapt.recurrences(), 0);
    assert!(matches!(
        adapt.ended(ended(true, &ranked[0], None)),
        Next::Track(_)
    ));
}

#[test]
fn an_explanation_waits_for_successes_without_more_failures() {
    let (mut lab, good, bad) = order();
    let none = rankings(&mut lab, &good, &bad, 1);
    let some = rankings(&mut lab, &good, &bad, 3);
    let mut adapt = Adapt::new(FIRST, 12);
    adapt.ended(ended(false, &[], None));
    for ranked in none.iter().take(5) {
        assert_eq!(adapt.spares(Part::WHOLE, true), None);
        assert!(matches!(adapt.ended(ended(true, ranked, None)), Next::Track(_)));
    }
    for _ in 0..20 {
        assert!(matches!(adapt.spares(Part::WHOLE, true), Some(Next::Track(_))));
    }
    assert_eq!(adapt.recurrences(), 5);
    let stop = adapt.ended(ended(false, &some[4], None));
    assert_eq!(stop, Next::Stop(Stop::Stable));
}

#[test]
fn an_explanation_waits_for_more_successes_while_a_longer_pattern_is_open() {
    fn open(failed: bool, ranked: &[Ranked]) -> Ended<'_> {
        Ended {
            open: Some(Open::End),
            ..ended(failed, ranked, None)
        }
    }
    let (mut lab, good, bad) = order();
    let mut adapt = Adapt::new(FIRST, 12);
    for ranked in rankings(&mut lab, &good, &bad, 8).iter().take(3) {
        assert!(matches!(adapt.ended(open(true, ranked)), Next::Track(_)));
    }
    assert!(matches!(adapt.spares(Part::WHOLE, true), Some(Next::Track(_))));
    let more = rankings(&mut lab, &good, &bad, 9);
    assert!(matches!(adapt.ended(open(false, &more[2])), Next::Track(_)));
    let closed = ended(false, &more[2], None);
    assert_eq!(adapt.clone().ended(closed), Next::Stop(Stop::Stable));
    let many = rankings(&mut lab, &good, &bad, 20);
    assert_eq!(adapt.ended(open(false, &many[2])), Next::Stop(Stop::Stable));
}

/// The same interleaving ended well in seven of ten runs.
#[test]
fn an_explanation_that_may_be_chance_ends_no_search() {
    let (mut lab, good, bad) = order();
    let harmless = lab.success("m:W1=5 m:W3=0 a:R2=0");
    let mut runs = vec![good; 3];
    runs.extend(vec![harmless; 7]);
    let mut adapt = Adapt::new(FIRST, 12);
    for _ in 0..8 {
        runs.push(bad.clone());
        let (_, ranked) = lab.rank(&runs);
        assert!(ranked[0].explains && !ranked[0].counts.convince());
        assert!(matches!(adapt.ended(ended(true, &ranked, None)), Next::Track(_)));
    }
}

#[test]
fn what_one_failing_run_showed_needs_more_of_them() {
    let (mut lab, good, bad) = order();
    let ranked = &rankings(&mut lab, &good, &bad, 1)[0];
    let mut adapt = Adapt::new(FIRST, 12);
    for _ in 0..5 {
        adapt.ended(ended(false, &[], None));
        adapt.ended(ended(true, ranked, None));
        assert_eq!(adapt.spares(Part::WHOLE, true), None);
    }
}

#[test]
fn successes_that_never_come_are_not_waited_for_for_ever() {
    let (mut lab, good, bad) = order();
    let ranked = rankings(&mut lab, &good, &bad, 1);
    let mut adapt = Adapt::new(FIRST, 12);
    for ranked in ranked.iter().take(5) {
        adapt.ended(ended(true, ranked, None));
    }
    let spared = std::iter::from_fn(|| adapt.spares(Part::WHOLE, true));
    let spared = spared.take_while(|next| matches!(next, Next::Track(_))).count();
    assert!(spared < 100, "{spared} failures");
}

#[test]
fn failures_do_not_go_on_for_ever_once_successes_stay_away() {
    let (mut lab, good, bad) = order();
    let ranked = rankings(&mut lab, &good, &bad, 3);
    let mut adapt = Adapt::new(FIRST, 12);
    for ranked in ranked.iter().take(3) {
        adapt.ended(ended(false, &[], None));
        adapt.ended(Ended {
            open: Some(Open::End),
            ..ended(true, ranked, None)
        });
    }
    let spared: Vec<_> = std::iter::from_fn(|| adapt.spares(Part::WHOLE, true))
        .take(100)
        .collect();
    assert!(
        matches!(spared[0], Next::Track(_)),
        "it waits for successful runs"
    );
    assert!(spared.contains(&Next::Stop(Stop::Enough)), "and not for ever");
}

#[test]
fn sigma_doubles_until_an_explanation_stays() {
    let (mut lab, good, bad) = order();
    let ranked = rankings(&mut lab, &good, &bad, 5);
    assert!(ranked[0][0].explains);
    let mut adapt = Adapt::new(FIRST, 10);
    assert_eq!(
        adapt.ended(ended(false, &[], None)),
        Next::Track(2),
        "a success changes nothing"
    );
    assert_eq!(adapt.ended(ended(true, &[], None)), Next::Track(4));
    assert_eq!(adapt.ended(ended(true, &ranked[0], None)), Next::Track(8));
    assert_eq!(adapt.ended(ended(true, &ranked[1], None)), Next::Track(16));
    assert_eq!(
        adapt.ended(ended(true, &ranked[2], None)),
        Next::Stop(Stop::Stable)
    );
    assert_eq!(adapt.recurrences(), 4);
}

#[test]
fn runs_that_watched_a_part_count_for_a_part() {
    let (mut lab, good, bad) = order();
    let ranked = rankings(&mut lab, &good, &bad, 15);
    let recurrences = |part| {
        let mut adapt = Adapt::new(FIRST, 10);
        let ended = |_| {
            adapt.ended(Ended {
                part,
                ..ended(true, &ranked[7], None)
            })
        };
        let next: Vec<Next> = (0..32).map(ended).collect();
        next.iter()
            .position(|next| matches!(next, Next::Stop(Stop::Stable)))
            .map(|at| at + 1)
    };
    assert_eq!(
        recurrences(Part::of(1, 4)),
        Some(12),
        "others have had their turn by then"
    );
    let mut adapt = Adapt::new(FIRST, 10);
    let quarter = Ended {
        part: Part::of(1, 4),
        ..ended(true, &[], None)
    };
    let sigmas: Vec<Next> = (0..8).map(|_| adapt.ended(quarter)).collect();
    assert_eq!(sigmas, [2, 2, 2, 4, 4, 4, 4, 8].map(Next::Track));
}

/// Three failing runs that watched a quarter each are less than one: an explanation that they agree on waits for others to have their turn,
/// and those are failing ones.
#[test]
fn runs_that_watched_a_part_are_not_left_out_before_others_had_their_turn() {
    let (mut lab, good, bad) = order();
    let ranked = rankings(&mut lab, &good, &bad, 15);
    let quarter = |failed| Ended {
        part: Part::of(1, 4),
        open: Some(Open::End),
        ..ended(failed, &ranked[4], None)
    };
    let mut adapt = Adapt::new(FIRST, 10);
    for _ in 0..5 {
        assert!(matches!(adapt.ended(quarter(true)), Next::Track(_)));
        assert!(matches!(adapt.ended(quarter(false)), Next::Track(_)));
    }
    assert_eq!(adapt.spares(Part::of(1, 4), true), None);
    (5..12).for_each(|_| _ = adapt.ended(quarter(true)));
    assert!(
        adapt.spares(Part::of(1, 4), true).is_some(),
        "now only successful ones tell more"
    );
}

#[test]
fn it_waits_for_successful_runs_to_compare_with() {
    let (mut lab, good, bad) = order();
    let few = rankings(&mut lab, &good, &bad, 1);
    let mut adapt = Adapt::new(FIRST, 10);
    for ranked in &few[..3] {
        assert!(matches!(adapt.ended(ended(true, ranked, None)), Next::Track(_)));
    }
    let enough = rankings(&mut lab, &good, &bad, 5);
    assert_eq!(
        adapt.ended(ended(false, &enough[2], None)),
        Next::Stop(Stop::Stable)
    );
}

#[test]
fn a_symptom_does_not_end_the_search_before_the_slice_does() {
    let mut lab = Lab::new(&[('m', "main")], &[("p", Shape::Pointer)]);
    let (good, bad) = (lab.success("m:R2=5"), lab.failure("m:R2=0", 'm', &[2]));
    let ranked = rankings(&mut lab, &good, &bad, 5);
    assert!(!ranked[0][0].explains);
    for (length, alone, sigmas, stop) in [
        // The failing statement met a null: that it failed, and no more.
        (Some(7), true, vec![4, 8, 8, 8], Some(Stop::Exhausted)),
        (None, true, vec![4, 8, 16, 32, 64, 128, 256], Some(Stop::Enough)),
        (None, false, vec![4, 8, 16, 32, 64, 128, 256, 512], None),
    ] {
        let ended = |failed, ranked| Ended {
            alone,
            ..ended(failed, ranked, length)
        };
        let mut adapt = Adapt::new(FIRST, 10);
        let mut seen = Vec::new();
        let stopped = ranked.iter().find_map(|ranked| {
            for _ in 0..LEAST_SUCCESSES {
                assert!(matches!(adapt.ended(ended(false, &[])), Next::Track(_)));
            }
            match adapt.ended(ended(true, ranked)) {
                Next::Track(sigma) => {
                    seen.push(sigma);
                    None
                }
                Next::Stop(stop) => Some(stop),
            }
        });
        assert_eq!((seen, stopped), (sigmas, stop));
    }
}

#[test]
fn where_there_are_threads_a_symptom_is_not_enough_though_the_slice_is_tracked_whole() {
    let mut lab = Lab::new(&[('m', "main")], &[("p", Shape::Pointer)]);
    let (good, bad) = (
        lab.success("m:R1=5 m:R2=5"),
        lab.failure("m:R1=0 m:R2=5", 'm', &[2]),
    );
    let ranked = rankings(&mut lab, &good, &bad, 5);
    assert!(!ranked[0][0].explains && ranked[0][0].says_something());
    for (alone, recurrences) in [(true, 3), (false, PATIENCE.runs())] {
        let mut adapt = Adapt::new(FIRST, 10);
        let mut ends = |failed, ranked| {
            adapt.ended(Ended {
                alone,
                ..ended(failed, ranked, Some(2))
            })
        };
        for _ in 0..LEAST_SUCCESSES {
            assert_eq!(ends(false, &[]), Next::Track(2));
        }
        let stop = ranked
            .iter()
            .position(|ranked| matches!(ends(true, ranked), Next::Stop(Stop::Exhausted)));
        assert_eq!(stop, Some(recurrences as usize - 1));
    }
}

#[test]
fn the_slice_is_not_tracked_whole_before_all_of_it_was_watched_in_a_failing_run() {
    let mut lab = Lab::new(&[('m', "main")], &[("n", Shape::Unsigned)]);
    let (good, bad) = (
        lab.success("m:R2=5 m:R3=5"),
        lab.failure("m:R2=7 m:R3=7", 'm', &[3]),
    );
    let ranked = rankings(&mut lab, &good, &bad, 5);
    let mut adapt = Adapt::new(FIRST, 10);
    let mut ends = |failed, watched| {
        let ranked = if failed { &ranked[3] } else { &[][..] };
        let ended = Ended {
            watched,
            alone: true,
            ..ended(failed, ranked, Some(2))
        };
        adapt.ended(ended)
    };
    for _ in 0..LEAST_SUCCESSES {
        assert_eq!(ends(false, false), Next::Track(2));
    }
    assert_eq!(ends(true, false), Next::Track(2));
    assert_eq!(ends(true, true), Next::Stop(Stop::Exhausted));
}

#[test]
fn half_of_a_deadlock_does_not_end_the_search_before_patience_does() {
    let (mut lab, good, bad) = order();
    let ranked = rankings(&mut lab, &good, &bad, 5);
    let mut adapt = Adapt::new(FIRST, 10);
    let mut ends = |failed, ranked| {
        adapt.ended(Ended {
            locked: true,
            ..ended(failed, ranked, Some(2))
        })
    };
    for _ in 0..LEAST_SUCCESSES {
        assert_eq!(ends(false, &[]), Next::Track(2));
    }
    for ranked in &ranked[..4] {
        assert_eq!(ends(true, ranked), Next::Track(2), "the whole slice is tracked");
    }
    assert_eq!(ends(true, &ranked[4]), Next::Stop(Stop::Stable));
}

#[test]
fn what_was_tracked_last_is_compared_before_the_search_ends() {
    let mut lab = Lab::new(&[('m', "main")], &[("p", Shape::Pointer)]);
    let (good, bad) = (lab.success("m:R2=5"), lab.failure("m:R2=0", 'm', &[2]));
    let ranked = rankings(&mut lab, &good, &bad, 5);
    let mut adapt = Adapt::new(FIRST, 10);
    let ended = |failed, ranked| Ended {
        alone: true,
        ..ended(failed, ranked, None)
    };
    let sigmas = ranked.iter().map(|ranked| adapt.ended(ended(true, ranked)));
    let sigmas: Vec<Next> = sigmas.collect();
    assert_eq!(sigmas, [4, 8, 16, 32, 32, 32, 32, 32].map(Next::Track));
    let mut succeeds = || adapt.ended(ended(false, &ranked[7]));
    assert_eq!(succeeds(), Next::Track(32));
    assert_eq!(succeeds(), Next::Stop(Stop::Enough));
}

#[test]
fn what_was_only_seen_elsewhere_does_not_end_the_search() {
    let (mut lab, good, bad) = order();
    let ranked = rankings(&mut lab, &good, &bad, 5);
    let mut adapt = Adapt::new(FIRST, 10);
    let mut fails = |ranked, here| {
        adapt.ended(Ended {
            here,
            ..ended(true, ranked, None)
        })
    };
    for (ranked, sigma) in ranked[..3].iter().zip([4, 8, 16]) {
        assert_eq!(fails(ranked, false), Next::Track(sigma));
    }
    assert_eq!(fails(&ranked[3], true), Next::Stop(Stop::Stable));
}

#[test]
fn what_holds_in_successful_runs_as_well_is_no_explanation_to_end_with() {
    let (mut lab, _, bad) = order();
    let same = lab.success("m:W1=5 m:W3=0 a:R2=0");
    let ranked = rankings(&mut lab, &same, &bad, 5);
    let mut adapt = Adapt::new(FIRST, 10);
    let ends = ranked.iter().map(|ranked| adapt.ended(ended(true, ranked, None)));
    assert!(ends.into_iter().all(|next| matches!(next, Next::Track(_))));
}

#[test]
fn it_waits_for_no_more_failures_than_it_was_told() {
    let mut adapt = Adapt::new(FIRST, 3);
    let (failed, succeeded) = (ended(true, &[], Some(4)), ended(false, &[], Some(4)));
    for _ in 0..FEW_SUCCESSES.runs() {
        assert_eq!(adapt.ended(succeeded), Next::Track(2));
    }
    assert_eq!(adapt.ended(failed), Next::Track(4));
    assert_eq!(adapt.ended(failed), Next::Track(4));
    assert_eq!(adapt.ended(failed), Next::Stop(Stop::Enough));
}

#[test]
fn it_goes_on_for_a_few_successes_if_there_are_any() {
    let (failed, succeeded) = (ended(true, &[], Some(2)), ended(false, &[], Some(2)));
    let recurrences = |mut adapt: Adapt, first: &[Ended<'_>]| {
        first.iter().for_each(|run| _ = adapt.ended(*run));
        let goes_on = |next: &Next| matches!(next, Next::Track(_));
        (0..100).map(|_| adapt.ended(failed)).take_while(goes_on).count() + 1
    };
    let adapt = || Adapt::new(FIRST, 3);
    assert_eq!(recurrences(adapt(), &[]), 6, "it may always fail");
    assert_eq!(recurrences(adapt().that_can_succeed(true), &[]), 18);
    assert_eq!(recurrences(adapt(), &[succeeded]), 18);
    assert_eq!(recurrences(adapt(), &[succeeded; 3]), 3);
    let mut late = adapt();
    for run in [failed, failed, failed, failed, succeeded, succeeded] {
        assert_eq!(late.ended(run), Next::Track(2));
    }
    assert_eq!(late.ended(succeeded), Next::Stop(Stop::Enough));
}

#[test]
fn a_branch_or_a_value_waits_for_successes_that_tracked_as_much_without_more_failures() {
    let mut lab = Lab::new(&[('m', "main")], &[("p", Shape::Pointer)]);
    let (good, bad) = (
        lab.success("m:R1=5 m:R2=5"),
        lab.failure("m:R1=0 m:R2=5", 'm', &[2]),
    );
    let ranked = rankings(&mut lab, &good, &bad, 5);
    assert!(!ranked[4][0].explains && ranked[4][0].says_something());
    let mut adapt = Adapt::new(FIRST, 12);
    let ends = |adapt: &mut Adapt, failed, ranked| {
        adapt.ended(Ended {
            alone: true,
            ..ended(failed, ranked, None)
        })
    };
    for (turn, ranked) in ranked.iter().take(5).enumerate() {
        for _ in turn..4 {
            ends(&mut adapt, false, &[]);
        }
        assert_eq!(adapt.spares(Part::WHOLE, true), None);
        assert!(matches!(ends(&mut adapt, true, ranked), Next::Track(_)));
    }
    for _ in 0..3 {
        assert!(matches!(adapt.spares(Part::WHOLE, true), Some(Next::Track(_))));
    }
    assert!(matches!(ends(&mut adapt, false, &ranked[4]), Next::Track(_)));
    assert_eq!(ends(&mut adapt, false, &ranked[4]), Next::Stop(Stop::Enough));
    assert_eq!(adapt.recurrences(), 5);
}

/// A byte of a text was zero in two of the failing runs: that is no more than where a register was.
#[test]
fn where_there_are_threads_what_two_runs_met_does_not_end_it() {
    let mut lab = Lab::new(
        &[('m', "main"), ('a', "worker")],
        &[("*key", Shape::Unsigned), ("value", Shape::Unsigned)],
    );
    let good = lab.success("a:R51=115@*key a:R70=1@value");
    let bad = lab.failure("a:R51=0@*key a:R70=1@value", 'a', &[90]);
    for (alone, stops) in [(true, true), (false, false)] {
        let mut runs = vec![good.clone(); 10];
        let mut adapt = Adapt::new(FIRST, 12);
        for _ in 0..10 {
            adapt.ended(ended(false, &[], None));
        }
        let mut next = Next::Track(FIRST);
        for turn in 0..6 {
            let mut run = bad.clone();
            if turn > 1 {
                run.watched.pop_first();
                run.events.remove(0);
            }
            runs.push(run);
            let ranked = lab.rank(&runs).1;
            assert_eq!(ranked[0].counts.failing_with, (turn + 1).min(2));
            next = adapt.ended(Ended {
                alone,
                ..ended(true, &ranked, None)
            });
        }
        assert_eq!(matches!(next, Next::Stop(_)), stops, "alone: {alone}");
    }
}

//! What is no cause beside what explains the failure.

use super::{Class, NEARLY_ALL, Ranked, TELLING};
use crate::evidence::Evidence;
use crate::predictor::{Actor, Predictor, Test, When};
use crate::run::LocationId;
use crate::statistics::Counts;

/// The failing runs in which an explanation was that values do not come before.
const SURE: u64 = 3;

/// Leaves out what follows from better predictors, or says too little beside them.
pub(super) fn leave_out(ranked: &mut Vec<Ranked>, evidence: &Evidence) {
    ranked.retain(|ranked| !is_of_interruption(&ranked.predictor, evidence));
    // That it failed is no reason, however badly the reasons do that there are.
    let is_reason = |ranked: &Ranked| ranked.explains && ranked.counts.separate() && ranked.counts.convince();
    if ranked.iter().any(|ranked| ranked.tells() || is_reason(ranked)) {
        ranked.retain(Ranked::says_something);
    }
    // What the failing statement met says more than that its branch went there.
    let says_what = |ranked: &Ranked| {
        let met = matches!(ranked.standing.class, Class::FailingValue | Class::FailingNumber);
        met && ranked.counts.failing_with > 1 && ranked.counts.f_at_least(TELLING)
    };
    if ranked.iter().any(says_what) {
        ranked.retain(|ranked| ranked.standing.class != Class::FailingBranch);
    }
    // What threads do to each other may end well, where there is enough of what they take: that it did not is what the value says.
    let is_needed = |ranked: &Ranked| {
        let counts = &ranked.counts;
        counts.successful_with == 0 || counts.failing_with >= SURE && counts.failing_with == counts.failing
    };
    let explained: Vec<(LocationId, Actor, u64)> = ranked
        .iter()
        .filter(|ranked| is_reason(ranked) && is_needed(ranked))
        .flat_map(last_access)
        .collect();
    ranked.retain(|ranked| !explained.iter().any(|explained| is_symptom(ranked, explained)));
    // What other threads than the failing one found in memory tells how far they were, and follows from what the threads did.
    if ranked.iter().any(|ranked| is_reason(ranked) && ranked.tells()) {
        ranked.retain(|ranked| match &ranked.predictor {
            Predictor::Value { at, .. } => evidence.failed_in(&at.role),
            _ => true,
        });
    }
    // And where an explanation was in nearly all failing runs and in no other, a value that fewer runs were asked about is none.
    let is_sure = |ranked: &Ranked| {
        let Counts {
            failing_with,
            successful_with,
            ..
        } = ranked.counts;
        is_reason(ranked)
            && failing_with >= SURE
            && successful_with == 0
            && ranked.counts.f_at_least(NEARLY_ALL)
    };
    if ranked.iter().any(is_sure) {
        ranked.retain(|ranked| !matches!(ranked.predictor, Predictor::Value { .. }));
    }
    // What was read by whom is said once, where it was never zero.
    let never_zero: Vec<Ranked> = ranked
        .iter()
        .filter(|ranked| is_not_zero(ranked))
        .cloned()
        .collect();
    ranked.retain(|ranked| !never_zero.iter().any(|other| is_said_by(other, ranked)));
    let orders: Vec<(Predictor, Counts)> = ranked
        .iter()
        .filter(|ranked| ranked.explains && matches!(ranked.predictor, Predictor::Order { .. }))
        .map(|ranked| (ranked.predictor.clone(), ranked.counts))
        .collect();
    ranked.retain(|ranked| ranked.explains || !orders.iter().any(|order| is_to_blame(order, ranked)));
    // There are many pairs of locations: one that is in few runs is chance.
    let is_torn = |ranked: &Ranked| matches!(ranked.predictor, Predictor::Torn { .. });
    ranked.retain(|ranked| !is_torn(ranked) || ranked.counts.failing_with > 2 && ranked.counts.convince());
    // Nor is a value or a branch anything that one failing run had, beside what many had.
    if ranked
        .iter()
        .any(|ranked| ranked.says_something() && ranked.counts.convince())
    {
        ranked.retain(|ranked| ranked.explains || ranked.counts.convince());
    }
}

/// Whether a predictor tells how far a process was that died: what a thread met last that did not fail itself, or what the failing one met
/// last, and most successful runs met, too, before they went on.
fn is_of_interruption(predictor: &Predictor, evidence: &Evidence) -> bool {
    let Predictor::Value {
        at,
        location,
        test,
        when: When::Last,
    } = predictor
    else {
        return false;
    };
    let ever = evidence.counts(&Predictor::Value {
        at: at.clone(),
        location: *location,
        test: *test,
        when: When::Ever,
    });
    let harmless = ever.successful_with * 2 >= ever.successful && ever.successful > 0;
    evidence.was_interrupted(&at.role) || evidence.dies() && harmless
}

fn is_not_zero(ranked: &Ranked) -> bool {
    matches!(
        ranked.predictor,
        Predictor::Value {
            test: Test::NonZeroReadBy(_),
            ..
        }
    )
}

/// Whether the same runs show that a read returned a write, and that it returned something else than zero.
fn is_said_by(not_zero: &Ranked, ranked: &Ranked) -> bool {
    let (
        Predictor::Value {
            at,
            location,
            test: Test::NonZeroReadBy(read),
            ..
        },
        Predictor::Value {
            at: by,
            location: of,
            test: Test::ReadBy(same),
            ..
        },
    ) = (&not_zero.predictor, &ranked.predictor)
    else {
        return false;
    };
    (at, location, read, not_zero.counts) == (by, of, same, ranked.counts)
}

/// The last access of an interleaving, where and by whom, and in how many failing runs.
fn last_access(ranked: &Ranked) -> Option<(LocationId, Actor, u64)> {
    let accesses = ranked.predictor.accesses();
    let (actor, location, _) = accesses.last()?;
    Some(((*location)?, (*actor).clone(), ranked.counts.failing_with))
}

/// Whether a predictor only says what the access found or left that an explanation ends with: that follows from it, though more runs may
/// show the value than the interleaving that led to it.
fn is_symptom(ranked: &Ranked, (last, by, times): &(LocationId, Actor, u64)) -> bool {
    let Predictor::Value { at, location, .. } = &ranked.predictor else {
        return false;
    };
    (at, location) == (by, last) && times * 2 >= ranked.counts.failing_with
}

/// Whether an order that explains the failure is in a pattern that does not, and in as many failing runs: then the pair does not matter
/// but the order does, though fewer runs may have been able to show the pair.
fn is_to_blame((order, counts): &(Predictor, Counts), pattern: &Ranked) -> bool {
    let Predictor::Order {
        location,
        first,
        second,
        ..
    } = order
    else {
        return false;
    };
    let Predictor::Atomicity {
        location: same,
        first: a,
        between: b,
        second: c,
        ..
    } = &pattern.predictor
    else {
        return false;
    };
    let inside = [(a, b), (b, c)].contains(&(first, second));
    location == same
        && inside
        && counts.failing_with >= pattern.counts.failing_with
        && counts.successful_with <= pattern.counts.successful_with
}

#[cfg(test)]
mod tests {
    use crate::run::Shape;
    use crate::testkit::Lab;

    /// Two workers find enough memory free (86) before one of them takes it (92). Where there is enough for both, nothing happens.
    #[test]
    fn what_an_interleaving_left_that_often_ends_well_is_its_symptom() {
        let mut lab = Lab::new(&[('a', "work"), ('b', "work")], &[("this->free", Shape::Signed)]);
        let short = u64::MAX - 4;
        let mut runs = vec![lab.success("a:R86=60 a:RW92=60>35 b:R86=35 b:RW92=35>5"); 6];
        runs.extend(vec![
            lab.success("a:R86=60 b:R86=60 a:RW92=60>40 b:RW92=40>15");
            4
        ]);
        let failing = format!("a:R86=40 b:R86=40 a:RW92=40>20 b:RW92=20>{short}");
        runs.extend(vec![lab.failure(&failing, 'b', &[94]); 4]);
        let (_, ranked) = lab.rank(&runs);
        assert_eq!(lab.describe(&ranked[0]), "RWW 86 92 92");
    }

    #[test]
    fn how_far_another_thread_was_when_one_died_is_no_reason() {
        let mut lab = Lab::new(&[('a', "follow"), ('b', "draw")], &[("left", Shape::Signed)]);
        let mut runs = vec![lab.success("a:R31=0 a:R31=5"); 4];
        runs.extend(vec![lab.failure("a:R31=0", 'b', &[94]); 4]);
        let (_, ranked) = lab.rank(&runs);
        assert!(
            !ranked.iter().any(|ranked| ranked.counts.separate()),
            "{ranked:?}"
        );
        // Nor what the one that died met last, if others met it and went on.
        let separates = |lab: &mut Lab, success: &str, failure: &str| {
            let mut runs = vec![lab.success(success); 4];
            runs.extend(vec![lab.failure(failure, 'b', &[94]); 4]);
            let (_, ranked) = lab.rank(&runs);
            ranked.iter().any(|ranked| ranked.counts.separate())
        };
        assert!(!separates(&mut lab, "b:R31=0 b:R31=5", "b:R31=0"));
        assert!(separates(&mut lab, "b:R31=5", "b:R31=5 b:R31=0"));
    }
}

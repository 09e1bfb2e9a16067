//! Which predictor is the root cause.
//!
//! Predictors are ranked by their F-measure (β = 0.5), compared exactly. Many tie: if a thread reads a pointer that
//! another one has cleared, then the order of the two, the null that was read and the branch that was taken because of it all
//! separate failing from successful runs perfectly. What people call the cause is found among them by these rules, in
//! this order.
//!
//! Before that, what says too little is left out: that a thread took the branch to the failing statement follows from
//! the failure, and some number always separates few runs. However well these do, they are no predictors where
//! something else separates failing runs from successful ones ([`TELLING`]): a bug that shows in two ways has two
//! predictors, each of which held in some failing runs only. Neither are those that no successful run could have shown,
//! or few of many ([`SHARE`]), where there are others: that they hold in failing runs alone is not known. (Of what restates
//! the failure it is.) A number that one of several failing runs had is that run's own, and says nothing at all.
//!
//! 1. *An explanation over a symptom.* An interleaving explains the failure if successful runs have the same accesses
//!    in another order: then the order is what made the difference. For an order predictor that is the opposite order.
//!    For an atomicity predictor it is *both* serial ones, the other thread's access before the pair and after it. If
//!    only one of them succeeds, the pair does not matter but the order does, and the order predictor that it contains
//!    is the explanation: a queue that is destroyed between two uses must not be destroyed before any use.
//!    What another thread than the failing one read of the failing one's writes explains nothing: what the other one then did may.
//!    Where the other thread's write comes before a pair that begins with a read, the read must have returned it.
//!    That a thread saw half of a change (`WRR`) explains the failure if successful runs saw the whole.
//! 2. *Threads over values and branches.* A value and a branch tell what a thread did with what it got.
//! 3. *The longer pattern over the shorter one.*
//! 4. *What the failing thread met over what others did:* of threads of one kind that get in each other's way, the one that met the other's
//!    change failed.
//! 5. *One that shows in the values over one that does not:* its last read returned a value that separates the runs as
//!    well as it does itself. Of two fields that were cleared too early, the one whose null was followed counts: a pointer
//!    before a number.
//! 6. *Nearer to the failure,* by the events after it in the failing runs with it.
//!
//! Among values and branches alone (a sequential bug), rule 1 reads: what only restates the failure comes last. That a
//! thread took the branch to the failing statement, or that the failing statement met a null, follows from the failure
//! itself; a branch or a value before it is where the runs parted. Who wrote the value that was then read comes before a branch, unless that
//! was zero: what is still empty was not written, and why not, a branch tells. Being a particular number says less than being
//! null or negative, and comes after everything else: some number always separates few runs. A branch in a library's code that was inlined
//! comes after the values, and one that has nothing to do with a value that is bad in itself comes after that ([`bad_value`]).

mod bad_value;
mod deadly;
mod judge;
mod left_out;
mod longer;
mod open;
mod surer;
#[cfg(test)]
mod tests;
mod turned;

use std::cmp::Ordering;

use crate::evidence::Evidence;
use crate::predictor::{Actor, OrderPattern, Predictor};
use crate::run::{Catalogue, LocationId, StatementId};
use crate::statistics::Counts;
use bad_value::put_bad_values_first;
use judge::Judge;
use left_out::leave_out;
use longer::put_the_longer_first;
pub use open::{Open, open, rival};
use surer::put_the_surer_first;
use turned::put_what_was_met_first;

/// The F-measure, in hundredths, from which on a predictor separates failing runs from successful ones. One that held in half
/// of the failing runs, and in no other, has 83; in a third of them, 71.
const TELLING: u32 = 70;

/// The share of the successful runs behind the best known predictor, one in so many, from which on a predictor has been
/// compared with them.
const SHARE: u64 = 8;

/// Failing runs that are not one's own.
const SEVERAL: u64 = 3;

/// The F-measure, in hundredths, of what was in nearly all of several failing runs, and hardly in another one: three of four have 94.
const NEARLY_ALL: u32 = 90;

/// A predictor with its standing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The predictor.
    pub predictor: Predictor,
    /// What the runs say of it.
    pub counts: Counts,
    /// Successful runs show that another order of the same accesses does not fail.
    pub explains: bool,
    /// How it compares with others that have the same F-measure; less is better.
    standing: Standing,
}

impl Ranked {
    /// Whether it says no more than that the failure happened.
    #[must_use]
    pub fn restates(&self) -> bool {
        matches!(self.standing.class, Class::FailingValue | Class::FailingBranch)
    }

    /// Whether it says more than that the failure happened, or which number some counter had.
    pub(crate) fn says_something(&self) -> bool {
        self.standing.class < Class::FailingValue
    }

    /// Whether more happened after it than after another one, in the failing runs with each.
    pub(crate) fn came_before(&self, other: &Self) -> bool {
        let (events, runs) = self.standing.events_after;
        let (other_events, other_runs) = other.standing.events_after;
        u128::from(events) * u128::from(other_runs) > u128::from(other_events) * u128::from(runs)
    }

    /// Whether it is about threads, was in most of the failing runs that could have shown it, and more often than in successful ones: of
    /// few of these one may be one that ended well by luck.
    fn may_explain(&self) -> bool {
        let counts = &self.counts;
        let in_most = counts.failing_with * 2 >= counts.failing;
        self.standing.class <= Class::Threads && in_most && counts.separate()
    }

    fn is_value(&self) -> bool {
        matches!(self.predictor, Predictor::Value { .. })
    }

    /// Whether it says something, and separates the runs.
    fn tells(&self) -> bool {
        self.says_something() && self.counts.failing_with > 1 && self.counts.f_at_least(TELLING)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    class: Class,
    /// Longer is better.
    length: usize,
    shows_in_values: Showing,
    /// It does not end with what the failing thread met.
    ends_elsewhere: bool,
    /// It does not end with an access of the failing statement.
    before_the_failure: bool,
    /// Events after it in the failing runs with it: their sum, and how many runs.
    events_after: (u64, u64),
}

/// What a predictor is about; what says more comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Threads, in an order that successful runs have the other way round.
    Explanation,
    /// Threads.
    Threads,
    /// Who wrote what was read.
    Written,
    /// A decision.
    Branch,
    /// A value.
    Value,
    /// A branch in a library's function that the compiler inlined: whether a container moved its elements is no decision of the program's.
    LibraryBranch,
    /// The value by which it failed.
    FailingValue,
    /// Which number that was: more than that it failed.
    FailingNumber,
    /// That it failed.
    FailingBranch,
    /// Any number.
    Number,
}

/// How a predictor shows in the values that were read; more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Showing {
    Not,
    InNumber,
    InPointer,
}

impl Standing {
    fn compare(&self, other: &Self) -> Ordering {
        let near = |(sum, runs): (u64, u64), (sum2, runs2): (u64, u64)| {
            (u128::from(sum) * u128::from(runs2)).cmp(&(u128::from(sum2) * u128::from(runs)))
        };
        self.class
            .cmp(&other.class)
            .then(other.length.cmp(&self.length))
            .then(self.ends_elsewhere.cmp(&other.ends_elsewhere))
            .then(other.shows_in_values.cmp(&self.shows_in_values))
            .then(self.before_the_failure.cmp(&other.before_the_failure))
            .then(near(self.events_after, other.events_after))
    }
}

/// What runs say of predictors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranking {
    /// Best first.
    pub ranked: Vec<Ranked>,
    /// What may be an explanation, and was left out because too few successful runs could have shown it: those who choose what
    /// runs watch can have it compared. Best first.
    pub open: Vec<Ranked>,
}

/// Ranks the predictors that held in a failing run.
///
/// `failing` is the failing statement.
#[must_use]
pub fn rank(catalogue: &Catalogue, evidence: &Evidence, failing: StatementId) -> Ranking {
    let judge = Judge::new(catalogue, evidence, failing);
    let mut ranked: Vec<Ranked> = evidence
        .predictors()
        .filter_map(|predictor| judge.standing(predictor))
        .collect();
    ranked.extend(
        evidence
            .pieced()
            .filter_map(|predictor| judge.standing(&predictor)),
    );
    let unfinished: Vec<Ranked> = ranked
        .iter()
        .filter_map(|ranked| judge.unfinished(ranked))
        .collect();
    ranked.extend(unfinished);
    // What no successful run could have shown is only better than nothing, and so is what says too little.
    let most = ranked.iter().map(|ranked| ranked.counts.successful).max();
    let compared = most.unwrap_or(0).div_ceil(SHARE).max(1);
    // What restates the failure is true of all failing runs, and needs no comparison: better than a number by chance.
    let is_compared = |ranked: &Ranked| {
        let least = if ranked.restates() { 1 } else { compared };
        ranked.counts.successful >= least
    };
    let mut open = Vec::new();
    if ranked.iter().any(is_compared) {
        let (kept, left): (Vec<_>, Vec<_>) = ranked.into_iter().partition(is_compared);
        ranked = kept;
        open = left;
        open.retain(Ranked::may_explain);
    }
    leave_out(&mut ranked, evidence);
    ranked.sort_by(best_first);
    put_the_surer_first(&mut ranked);
    put_what_was_met_first(&mut ranked);
    put_the_longer_first(&mut ranked);
    put_bad_values_first(&mut ranked, catalogue, evidence);
    open.sort_by(best_first);
    Ranking { ranked, open }
}

fn best_first(a: &Ranked, b: &Ranked) -> Ordering {
    let by_counts = b.counts.compare_f(&a.counts);
    let by_standing = by_counts.then_with(|| a.standing.compare(&b.standing));
    by_standing.then_with(|| a.predictor.cmp(&b.predictor))
}

/// The other threads' writes that a read returns in successful runs: what a read that came too early should have waited
/// for.
#[must_use]
pub fn expected_writes(evidence: &Evidence, location: LocationId, read: &Actor) -> Vec<Actor> {
    evidence
        .predictors()
        .filter_map(|predictor| match predictor {
            Predictor::Order {
                pattern: OrderPattern::Wr,
                location: at,
                first,
                second,
            } if *at == location && second == read => {
                let returned = evidence.counts(predictor).successful_with > 0;
                (returned && evidence.fills(location, first)).then(|| first.clone())
            }
            _ => None,
        })
        .collect()
}

/// Whether a successful run had `read` return what another thread's `write` wrote.
fn returned(evidence: &Evidence, location: LocationId, write: &Actor, read: &Actor) -> bool {
    let order = Predictor::Order {
        pattern: OrderPattern::Wr,
        location,
        first: write.clone(),
        second: read.clone(),
    };
    evidence.counts(&order).successful_with > 0
}

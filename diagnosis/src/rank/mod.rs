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
//!    Where the other thread's write comes before a pair that begins with a read, the read must have returned it.
//!    That a thread saw half of a change (`WRR`) explains the failure if successful runs saw the whole.
//! 2. *Threads over values and branches.* A value and a branch tell what a thread did with what it got.
//! 3. *The longer pattern over the shorter one.*
//! 4. *One that shows in the values over one that does not:* its last read returned a value that separates the runs as
//!    well as it does itself. Of two fields that were cleared too early, the one whose null was followed counts: a pointer
//!    before a number.
//! 5. *Nearer to the failure,* by the events after it in the failing runs with it.
//!
//! Among values and branches alone (a sequential bug), rule 1 reads: what only restates the failure comes last. That a
//! thread took the branch to the failing statement, or that the failing statement met a null, follows from the failure
//! itself; a branch or a value before it is where the runs parted. Who wrote the value that was then read comes before a branch, unless that
//! was zero: what is still empty was not written, and why not, a branch tells. Being a particular number says less than being
//! null or negative, and comes after everything else: some number always separates few runs.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::evidence::Evidence;
use crate::predictor::{Actor, AtomicityPattern, Ending, OrderPattern, Predictor, Role, Test, When};
use crate::run::{Catalogue, LocationId, Shape, StatementId};
use crate::sketch::Why;
use crate::statistics::Counts;

/// The F-measure, in hundredths, from which on a predictor separates failing runs from successful ones. One that held in half
/// of the failing runs, and in no other, has 83; in a third of them, 71.
const TELLING: u32 = 70;

/// The failing runs in which an explanation was that values do not come before, and its F-measure: three of four failing runs, and
/// no other, have 94.
const SURE: u64 = 3;
const NEARLY_ALL: u32 = 90;

/// The share of the successful runs behind the best known predictor, one in so many, from which on a predictor has been
/// compared with them.
const SHARE: u64 = 8;

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
        matches!(self.standing.class, 5 | 6)
    }
}

impl Ranked {
    /// Whether it says more than that the failure happened, or which number some counter had.
    pub(crate) fn says_something(&self) -> bool {
        self.standing.class < 5
    }

    /// Whether it is about threads, was in most of the failing runs that could have shown it, and in no other.
    fn may_explain(&self) -> bool {
        let counts = &self.counts;
        let in_most = counts.failing_with > 1 && counts.failing_with * 2 >= counts.failing;
        self.standing.class < 2 && in_most && counts.successful_with == 0
    }

    /// Whether it says something, and separates the runs.
    fn tells(&self) -> bool {
        self.says_something() && self.counts.failing_with > 1 && self.counts.f_at_least(TELLING)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    class: u8,
    /// Longer is better.
    length: usize,
    shows_in_values: Showing,
    /// Events after it in the failing runs with it: their sum, and how many runs.
    events_after: (u64, u64),
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
            .then(other.shows_in_values.cmp(&self.shows_in_values))
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
    let judge = Judge {
        catalogue,
        evidence,
        failing,
        returned: returned(evidence),
    };
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
    // That it failed is no reason, however badly the reasons do that there are.
    let is_reason = |ranked: &Ranked| ranked.explains && ranked.counts.separate() && ranked.counts.convince();
    if ranked.iter().any(|ranked| ranked.tells() || is_reason(ranked)) {
        ranked.retain(Ranked::says_something);
    }
    let explained: Vec<(LocationId, Actor, u64)> = ranked
        .iter()
        .filter(|ranked| is_reason(ranked) && ranked.counts.successful_with == 0)
        .flat_map(read_last)
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
    ranked.sort_by(best_first);
    open.sort_by(best_first);
    Ranking { ranked, open }
}

fn best_first(a: &Ranked, b: &Ranked) -> Ordering {
    let by_counts = b.counts.compare_f(&a.counts);
    let by_standing = by_counts.then_with(|| a.standing.compare(&b.standing));
    by_standing.then_with(|| a.predictor.cmp(&b.predictor))
}

/// Whether a longer pattern at the same location tells as much as the best predictor, and only fails to explain the failure because no
/// successful run got as far as the last of its accesses: more of them may show what the best one leaves open.
#[must_use]
pub fn is_open(evidence: &Evidence, ranked: &[Ranked]) -> bool {
    let Some(best) = ranked.first() else { return false };
    let known = |predictor: &Predictor| {
        ranked
            .iter()
            .any(|ranked| ranked.explains && ranked.predictor == *predictor)
    };
    let locations = best.predictor.locations();
    evidence.predictors().any(|predictor| match predictor {
        Predictor::Atomicity { location, second, .. } => {
            locations.contains(location)
                && !evidence.succeeded_by(*location, second)
                && evidence.counts(predictor).compare_f(&best.counts).is_ge()
                && !known(predictor)
        }
        _ => false,
    })
}

/// A predictor of the same pattern between threads of the same kinds as the best one, about another location, that all failing runs showed
/// which watched it, and too few successful ones could have: of two fields that are cleared together, which of them matters shows when
/// both are watched.
#[must_use]
pub fn rival(evidence: &Evidence, ranked: &[Ranked]) -> Option<Predictor> {
    let best = ranked.first().filter(|best| best.explains)?;
    let roles = |predictor: &Predictor| -> Vec<Role> {
        let accesses = predictor.accesses().into_iter();
        accesses.map(|(actor, ..)| actor.role.clone()).collect()
    };
    let (pattern, threads) = (best.predictor.pattern()?, roles(&best.predictor));
    let open = evidence.predictors().filter(|predictor| {
        let counts = evidence.counts(predictor);
        predictor.pattern() == Some(pattern)
            && predictor.locations() != best.predictor.locations()
            && counts.failing_with > 0
            && counts.failing_with == counts.failing
            && counts.successful_with == 0
            && counts.successful < best.counts.successful
            && roles(predictor) == threads
    });
    // The one that most runs showed, and the nearest to the failure of these.
    let order = |predictor: &&Predictor| {
        let (after, runs) = evidence.events_after(predictor);
        (std::cmp::Reverse(runs), after)
    };
    open.min_by_key(order).cloned()
}

/// What the last access of an interleaving reads, where and by whom, and in how many failing runs.
fn read_last(ranked: &Ranked) -> Option<(LocationId, Actor, u64)> {
    let accesses = ranked.predictor.accesses();
    let (actor, location, kind) = accesses.last()?;
    let reads = kind.is_some_and(|kind| kind.reads());
    let read = ((*location)?, (*actor).clone(), ranked.counts.failing_with);
    reads.then_some(read)
}

/// Whether a predictor only says what a read found that an explanation ends with: that follows from it, though more runs may show
/// the value than the interleaving that led to it.
fn is_symptom(ranked: &Ranked, (read, by, times): &(LocationId, Actor, u64)) -> bool {
    let Predictor::Value { at, location, .. } = &ranked.predictor else {
        return false;
    };
    (at, location) == (by, read) && times * 2 >= ranked.counts.failing_with
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

struct Judge<'a> {
    catalogue: &'a Catalogue,
    evidence: &'a Evidence,
    failing: StatementId,
    /// Reads that returned another thread's write in a successful run, with the kind of that thread.
    returned: BTreeSet<(LocationId, Actor, Role)>,
}

/// [`Judge::returned`].
fn returned(evidence: &Evidence) -> BTreeSet<(LocationId, Actor, Role)> {
    let returned = evidence.predictors().filter_map(|predictor| match predictor {
        Predictor::Order {
            pattern: OrderPattern::Wr,
            location,
            first,
            second,
        } if evidence.counts(predictor).successful_with > 0 => {
            Some((*location, second.clone(), first.role.clone()))
        }
        _ => None,
    });
    returned.collect()
}

impl Judge<'_> {
    fn standing(&self, predictor: &Predictor) -> Option<Ranked> {
        let counts = self.evidence.counts(predictor);
        let number = matches!(
            predictor,
            Predictor::Value {
                test: Test::Is(_),
                ..
            }
        );
        if counts.failing_with == 0 || number && counts.failing_with == 1 && counts.failing > 1 {
            return None;
        }
        if let Predictor::Unwritten { location, read } = predictor
            && self.expected_writes(*location, read).is_empty()
        {
            return None;
        }
        let explains = self.explains(predictor);
        if matches!(predictor, Predictor::Torn { .. }) && !explains {
            return None;
        }
        let length = match predictor {
            // Of two locations only where one alone does not tell.
            Predictor::Torn { .. }
            | Predictor::Branch { .. }
            | Predictor::Value { .. }
            | Predictor::Unwritten { .. } => 1,
            Predictor::Order { .. } => 2,
            Predictor::Atomicity { .. } | Predictor::Unfinished { .. } => 3,
            Predictor::Deadlock { waits, .. } => 2 * waits.len().max(2),
        };
        Some(Ranked {
            predictor: self.evidence.completed(predictor),
            counts,
            explains,
            standing: Standing {
                class: self.class(predictor, explains),
                length,
                shows_in_values: self.shows_in_values(predictor, &counts),
                events_after: self.evidence.events_after(predictor),
            },
        })
    }

    /// The two writes that a read came between, where every process died of it before the second: both are the same function's, one
    /// after the other, and successful runs read before the first or what the second wrote.
    fn unfinished(&self, ranked: &Ranked) -> Option<Ranked> {
        let Predictor::Order {
            pattern: OrderPattern::Wr,
            location,
            first,
            second: read,
        } = &ranked.predictor
        else {
            return None;
        };
        let next = Actor {
            statement: self.evidence.cut_off(*location, first, read)?,
            role: first.role.clone(),
        };
        let info = |of: &Actor| self.catalogue.statements.get(of.statement.0 as usize);
        let (one, other) = (info(first)?, info(&next)?);
        let goes_on = one.function == other.function && one.pc < other.pc;
        let both =
            self.evidence.succeeded_with(*location, read, first) && self.returned(*location, &next, read);
        (both && goes_on).then(|| Ranked {
            predictor: Predictor::Unfinished {
                location: *location,
                first: first.clone(),
                between: read.clone(),
                second: next,
            },
            counts: ranked.counts,
            explains: true,
            standing: Standing {
                class: 0,
                length: 3,
                ..ranked.standing
            },
        })
    }

    /// Rules 1 and 2.
    fn class(&self, predictor: &Predictor, explains: bool) -> u8 {
        let restates = |statement| self.restates(statement);
        match predictor {
            Predictor::Value {
                test: Test::Is(_), ..
            } => 7,
            Predictor::Value { at, .. } if restates(at.statement) => 6,
            Predictor::Value {
                test: Test::NonZeroReadBy(_),
                ..
            } => 2,
            Predictor::Value { .. } => 4,
            Predictor::Branch { branch, .. } => {
                let info = self.catalogue.branches.get(branch.0 as usize);
                if info.is_some_and(|info| restates(info.statement)) {
                    5
                } else {
                    3
                }
            }
            _ if explains => 0,
            _ => 1,
        }
    }

    /// Whether a statement is the failing one, or decides on nothing but it.
    fn restates(&self, statement: StatementId) -> bool {
        let because = self
            .catalogue
            .statements
            .get(statement.0 as usize)
            .and_then(|info| info.because);
        statement == self.failing
            || because.is_some_and(|because| because.of == self.failing && because.why == Why::Control)
    }

    fn explains(&self, predictor: &Predictor) -> bool {
        match predictor {
            Predictor::Branch { .. } | Predictor::Value { .. } => false,
            Predictor::Unwritten { .. } | Predictor::Unfinished { .. } => true,
            // Why the last one waits may be another story.
            Predictor::Deadlock { ending, .. } => *ending != Ending::Elsewhere,
            Predictor::Torn {
                changed,
                kept,
                write,
                fresh,
                stale,
                ..
            } => self.returned(*changed, write, fresh) && self.changes_both(*kept, write, stale),
            Predictor::Order {
                location,
                first,
                second,
                ..
            } => self.evidence.succeeded_with(*location, second, first),
            Predictor::Atomicity {
                location,
                first,
                between,
                second,
                pattern,
            } => {
                let begins_with_read = !matches!(pattern, AtomicityPattern::Wwr | AtomicityPattern::Wrw);
                let before = self.returned(*location, between, first)
                    || !begins_with_read && self.evidence.succeeded_with(*location, between, first);
                before && self.evidence.succeeded_with(*location, second, between)
            }
        }
    }

    /// Whether a successful run had `read` return what `write` wrote.
    fn returned(&self, location: LocationId, write: &Actor, read: &Actor) -> bool {
        let wr = order(OrderPattern::Wr, location, write, read);
        self.evidence.counts(&wr).successful_with > 0
    }

    /// Whether in a successful run a read returned what threads of the kind that makes a write had written.
    fn changes_both(&self, location: LocationId, write: &Actor, read: &Actor) -> bool {
        self.returned
            .contains(&(location, read.clone(), write.role.clone()))
    }

    /// The other threads' writes that a read returns in successful runs.
    fn expected_writes(&self, location: LocationId, read: &Actor) -> Vec<Actor> {
        expected_writes(self.evidence, location, read)
    }

    /// Rule 4.
    fn shows_in_values(&self, predictor: &Predictor, counts: &Counts) -> Showing {
        let accesses = predictor.accesses();
        let Some((actor, Some(location), _)) = accesses.last() else {
            return Showing::Not;
        };
        let start = Predictor::Value {
            at: (*actor).clone(),
            location: *location,
            test: Test::Zero,
            when: When::Ever,
        };
        let shows = self
            .evidence
            .values_from(&start)
            .filter(|value| matches!(value, Predictor::Value { when: When::Ever, .. }))
            .any(|value| self.evidence.counts(value).compare_f(counts) != Ordering::Less);
        let info = self.catalogue.locations.get(location.0 as usize);
        match (shows, info.map(|info| info.shape)) {
            (false, _) => Showing::Not,
            (true, Some(Shape::Pointer)) => Showing::InPointer,
            (true, _) => Showing::InNumber,
        }
    }
}

fn order(pattern: OrderPattern, location: LocationId, first: &Actor, second: &Actor) -> Predictor {
    Predictor::Order {
        pattern,
        location,
        first: first.clone(),
        second: second.clone(),
    }
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

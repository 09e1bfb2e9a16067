//! What more runs may show to be the better explanation.

use super::{Ranked, SEVERAL, returned};
use crate::evidence::Evidence;
use crate::predictor::{AtomicityPattern, Predictor, Role};

/// Why a longer pattern at the same location, that tells as much as the best predictor, does not explain the failure yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Open {
    /// In no successful run had its first access met what the second left, though some came after it.
    Unmet,
    /// No successful run had its first two accesses the other way round: where one has, it is not the order of the last two
    /// alone that is to blame.
    Reverse,
    /// It explains the failure, but that may be chance: it often ends well.
    Doubt,
    /// No successful run got as far as the last of its accesses.
    End,
}

/// What more successful runs may show of a longer pattern, if anything.
#[must_use]
pub fn open(evidence: &Evidence, ranked: &[Ranked]) -> Option<Open> {
    let best = ranked.first()?;
    let predictors = evidence.predictors();
    predictors
        .filter_map(|predictor| why(predictor, best, evidence, ranked))
        .max()
}

fn why(predictor: &Predictor, best: &Ranked, evidence: &Evidence, ranked: &[Ranked]) -> Option<Open> {
    let Predictor::Atomicity {
        pattern,
        location,
        first,
        between,
        second,
    } = predictor
    else {
        return None;
    };
    let ends_with_best = match &best.predictor {
        Predictor::Order {
            location: at,
            first,
            second: last,
            ..
        } => (at, first, last) == (location, between, second),
        Predictor::Value { location: of, at, .. } => (of, at) == (location, second),
        _ => false,
    };
    if !best.predictor.locations().contains(location) {
        return None;
    }
    let counts = evidence.counts(predictor);
    let may_tell = match &best.predictor {
        // What the value follows from was in all failing runs, and may have ended well in others.
        Predictor::Value { .. } => {
            let in_all = counts.failing_with >= SEVERAL && counts.failing_with == counts.failing;
            ends_with_best && in_all && counts.separate()
        }
        _ => counts.compare_f(&best.counts).is_ge(),
    };
    if !may_tell {
        return None;
    }
    let known = ranked
        .iter()
        .find(|ranked| ranked.explains && ranked.predictor == *predictor);
    let begins_with_read = matches!(pattern, AtomicityPattern::Rwr | AtomicityPattern::Rww);
    let unmet = begins_with_read && !returned(evidence, *location, between, first);
    // An order that is in the pattern may have been the other way round with something between; a value says nothing of that.
    let reversed = evidence.succeeded_with(*location, between, first) && !(best.is_value() && unmet);
    match known {
        Some(known) => (best.is_value() && !known.counts.convince()).then_some(Open::Doubt),
        None if !evidence.succeeded_by(*location, second) => Some(Open::End),
        None if !ends_with_best => None,
        None if !reversed => Some(Open::Reverse),
        None => unmet.then_some(Open::Unmet),
    }
}

/// What may explain the failure as well as the best predictor does, if anybody looked: the same pattern between threads of the same kinds at
/// another location, in all failing runs that watched it. Of two fields that are cleared together, which of them matters shows when
/// both are watched.
#[must_use]
pub fn rival<'r>(best: &Ranked, open: &'r [Ranked]) -> Option<&'r Ranked> {
    let roles = |of: &Ranked| -> Vec<Role> {
        let accesses = of.predictor.accesses().into_iter();
        accesses.map(|(actor, ..)| actor.role.clone()).collect()
    };
    let threads = roles(best);
    open.iter().find(|other| {
        other.predictor.pattern() == best.predictor.pattern()
            && other.counts.failing_with == other.counts.failing
            && other.counts.successful_with == 0
            && roles(other) == threads
    })
}

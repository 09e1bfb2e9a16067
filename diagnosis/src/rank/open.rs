//! What more runs may show to be the better explanation.

use super::Ranked;
use crate::evidence::Evidence;
use crate::predictor::{Predictor, Role};

/// Why a longer pattern at the same location, that tells as much as the best predictor, does not explain the failure yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Open {
    /// No successful run had its first two accesses the other way round: where one has, it is not the order of the last two
    /// alone that is to blame.
    Reverse,
    /// No successful run got as far as the last of its accesses.
    End,
}

/// What more successful runs may show of a longer pattern, if anything.
#[must_use]
pub fn open(evidence: &Evidence, ranked: &[Ranked]) -> Option<Open> {
    let best = ranked.first()?;
    let known = |predictor: &Predictor| {
        ranked
            .iter()
            .any(|ranked| ranked.explains && ranked.predictor == *predictor)
    };
    let locations = best.predictor.locations();
    let may_tell = |predictor: &Predictor| {
        evidence.counts(predictor).compare_f(&best.counts).is_ge() && !known(predictor)
    };
    let why = |predictor: &Predictor| match predictor {
        Predictor::Atomicity {
            location,
            first,
            between,
            second,
            ..
        } if locations.contains(location) => {
            let ends_with_best = matches!(&best.predictor, Predictor::Order { location: at, first, second: last, .. }
                if (at, first, last) == (location, between, second));
            if !evidence.succeeded_by(*location, second) {
                Some(Open::End)
            } else if ends_with_best && !evidence.succeeded_with(*location, between, first) {
                Some(Open::Reverse)
            } else {
                None
            }
        }
        _ => None,
    };
    let predictors = evidence.predictors();
    let open = predictors.filter_map(|predictor| why(predictor).filter(|_| may_tell(predictor)));
    open.max()
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

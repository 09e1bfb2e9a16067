//! What more runs may show to be the better explanation.

use super::Ranked;
use crate::evidence::Evidence;
use crate::predictor::{Predictor, Role};

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
            && roles(other) == threads
    })
}

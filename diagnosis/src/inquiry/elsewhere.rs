//! Where else the bug under inquiry has shown.

use std::collections::BTreeMap;

use failure::{Failure, Signature};

use crate::run::StatementId;

/// Failures that are kept as they were, to be shown.
const MOST_KEPT: usize = 8;

/// Failures of the same bug that were not where the first one was.
#[derive(Default)]
pub(super) struct Elsewhere(BTreeMap<Signature, Place>);

#[derive(Default)]
struct Place {
    runs: u64,
    /// The first failure there, and its statement.
    seen: Option<(StatementId, Failure)>,
}

impl Elsewhere {
    /// Counts a run that failed there.
    pub(super) fn count(&mut self, signature: &Signature) {
        self.0.entry(signature.clone()).or_default().runs += 1;
    }

    /// Keeps the first failure of each place.
    pub(super) fn keep(&mut self, signature: &Signature, at: StatementId, failure: &Failure) {
        let kept = self.0.values().filter(|place| place.seen.is_some()).count();
        if let Some(place) = self.0.get_mut(signature)
            && place.seen.is_none()
            && kept < MOST_KEPT
        {
            place.seen = Some((at, failure.clone()));
        }
    }

    /// A failure at a statement.
    pub(super) fn at(&self, statement: StatementId) -> Option<&Failure> {
        let mut seen = self.0.values().filter_map(|place| place.seen.as_ref());
        seen.find_map(|(at, failure)| (*at == statement).then_some(failure))
    }

    /// What a reader has to know of them. The sketch shows the failure that the inquiry began with, or one at another statement.
    pub(super) fn notes(&self, shown: Option<StatementId>, first: &Signature) -> Vec<String> {
        let is_shown = |place: &Place| {
            let at = place.seen.as_ref().map(|(at, _)| *at);
            shown.is_some() && at == shown
        };
        let first = shown.map(|_| format!("the same bug was first seen elsewhere: {first}"));
        let others = self.0.iter().filter(|(_, place)| !is_shown(place));
        let others = others.map(|(signature, Place { runs, .. })| {
            // Where the sketch is headed by the first failure, they are among those that it counts (`predictor::instead`).
            let counted = match shown {
                Some(_) => "",
                None => ", where what they died of is counted as the failing statement's access",
            };
            format!("the same bug showed elsewhere in {runs} of the failing runs{counted}: {signature}")
        });
        first.into_iter().chain(others).collect()
    }
}

//! What a run does not tell of predictors that it does not show.

use std::collections::BTreeSet;

use crate::predictor::Predictor;
use crate::predictor::extract::{Cut, Headless, Place, begins_with, returned_by, torn_by};

/// What a complete run leaves open; one that is incomplete says nothing by its silence anyway.
#[derive(Default)]
pub(super) struct LeftOpen {
    /// Pairs that may have been torn before it began to watch.
    pub(super) headless: BTreeSet<Headless>,
    /// Reads of which it failed before the writer could write again.
    pub(super) cut: BTreeSet<Cut>,
    /// Reads of what nobody was seen to write.
    pub(super) missed: BTreeSet<Place>,
}

/// Which of these a predictor would be left open by.
#[derive(Clone, Copy)]
pub(super) struct Otherwise {
    pub(super) headless: bool,
    pub(super) cut: bool,
    pub(super) missed: bool,
}

impl LeftOpen {
    pub(super) fn by(
        headless: BTreeSet<Headless>,
        cut: BTreeSet<Cut>,
        missed: BTreeSet<Place>,
        complete: bool,
    ) -> Self {
        match complete {
            true => Self {
                headless,
                cut,
                missed,
            },
            false => Self::default(),
        }
    }

    pub(super) fn otherwise(&self, predictor: &Predictor) -> Otherwise {
        Otherwise {
            headless: torn_by(predictor).is_some_and(|torn| self.headless.contains(&torn)),
            cut: begins_with(predictor).is_some_and(|begun| self.cut.contains(&begun)),
            missed: returned_by(predictor).is_some_and(|read| self.missed.contains(&read)),
        }
    }
}

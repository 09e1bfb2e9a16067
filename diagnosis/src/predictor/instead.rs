//! Failures of one bug in several places: what a run that failed elsewhere says of the first place.
//!
//! A thread that dies of what another one wrote dies of the next use of it. Which use that is, a moment decides: the lock that is gone
//! is missing at one call or at the next. What the run showed of the access that it died of, it would have shown of the other
//! one; counted apart, each place has half of the runs, and neither explains the failure.

use std::collections::BTreeMap;

use super::Predictor;
use super::interleaving::Found;
use crate::run::{Catalogue, Failed, Run, StatementId, What};

/// Finds of each predictor that ends with the access that a run died of the one that ends where the first failure was.
pub(super) struct Instead<'a, F> {
    /// Whom to tell.
    pub(super) out: &'a mut F,
    /// The accesses that the run died of, and where they would have been.
    died: Option<(Vec<usize>, StatementId)>,
}

impl<'a, F: Found> Instead<'a, F> {
    pub(super) fn of(catalogue: &Catalogue, run: &Run, out: &'a mut F) -> Self {
        let failed = run.failed.as_ref().filter(|failed| !failed.hang);
        let died = failed.and_then(|failed| Some((died_of(catalogue, run, failed), failed.instead_of?)));
        Self { out, died }
    }
}

/// The failing thread's last access to each location, if it is one of the failing statement. A compiler may have that use what was
/// read for a statement before: where there is none, the thread's last access is meant, if that is in the same function.
fn died_of(catalogue: &Catalogue, run: &Run, failed: &Failed) -> Vec<usize> {
    let function = |statement: StatementId| {
        let info = catalogue.statements.get(statement.0 as usize);
        info.map(|info| &info.function)
    };
    let mut last_to = BTreeMap::new();
    for (at, event) in run.events.iter().enumerate() {
        if let What::Access(access) = event.what
            && Some(event.thread) == failed.thread
        {
            last_to.insert(access.location, (at, event.statement));
        }
    }
    let own = last_to
        .values()
        .filter(|(_, statement)| *statement == failed.statement);
    let own: Vec<usize> = own.map(|(at, _)| *at).collect();
    if !own.is_empty() {
        return own;
    }
    let last = last_to.into_values().max();
    let near = last.filter(|(_, statement)| function(*statement) == function(failed.statement));
    near.into_iter().map(|(at, _)| at).collect()
}

impl<F: Found> Found for Instead<'_, F> {
    fn found(&mut self, predictor: Predictor<u16>, events: &[usize], certain: bool) {
        if let Some((died, first)) = &self.died
            && events.last().is_some_and(|last| died.contains(last))
            && let Some(instead) = ending_at(&predictor, *first)
        {
            self.out.instead(instead, events, certain);
        }
        self.out.found(predictor, events, certain);
    }

    fn instead(&mut self, predictor: Predictor<u16>, events: &[usize], certain: bool) {
        self.out.instead(predictor, events, certain);
    }
}

/// The same with another last access.
fn ending_at<R: Clone>(predictor: &Predictor<R>, statement: StatementId) -> Option<Predictor<R>> {
    let mut ended = predictor.clone();
    match &mut ended {
        Predictor::Value { at: last, .. }
        | Predictor::Unwritten { read: last, .. }
        | Predictor::Order { second: last, .. }
        | Predictor::Atomicity { second: last, .. } => last.statement = statement,
        Predictor::Branch { .. }
        | Predictor::Missed { .. }
        | Predictor::Torn { .. }
        | Predictor::Unfinished { .. }
        | Predictor::Deadlock { .. } => return None,
    }
    Some(ended)
}

#[cfg(test)]
mod tests {
    use crate::run::{Run, Shape};
    use crate::testkit::Lab;

    /// A queue's lock is cleared (62) while a consumer will use it again, at 82 or at 91: there by what it read for 84.
    fn runs(lab: &mut Lab, elsewhere: &str, here: usize) -> Vec<Run> {
        let mut runs = Vec::new();
        for turn in 0..5 {
            runs.push(lab.success("m:W51=5 a:R82=5 a:R84=5 a:R91=5 a:R82=5 a:R84=5 a:R91=5 m:R61=5 m:W62=0"));
            runs.push(if turn < here {
                lab.failure("m:W51=5 a:R82=5 a:R91=5 m:R61=5 m:W62=0 a:R82=0", 'a', &[82])
            } else {
                let mut run = lab.failure(elsewhere, 'a', &[91]);
                run.incomplete = Some("it failed elsewhere".to_owned());
                run.failed.as_mut().unwrap().instead_of = Some(lab.line(82));
                run
            });
        }
        runs
    }

    fn first(elsewhere: &str, here: usize) -> (String, u64) {
        let mut lab = Lab::new(&[('m', "main"), ('a', "consumer")], &[("q->mut", Shape::Pointer)]);
        let runs = runs(&mut lab, elsewhere, here);
        let (_, ranked) = lab.rank(&runs);
        (lab.describe(&ranked[0]), ranked[0].counts.failing_with)
    }

    #[test]
    fn a_bug_that_fails_in_two_places_is_explained_once() {
        let by_its_own = "m:W51=5 a:R82=5 m:R61=5 m:W62=0 a:R91=0";
        let by_what_was_read_before = "m:W51=5 a:R82=5 a:R91=5 a:R82=5 m:R61=5 m:W62=0 a:R84=0";
        for elsewhere in [by_its_own, by_what_was_read_before] {
            assert_eq!(first(elsewhere, 2), ("WR 62 82".to_owned(), 5), "{elsewhere}");
        }
    }

    #[test]
    fn what_no_run_showed_is_not_said() {
        let elsewhere = "m:W51=5 a:R82=5 m:R61=5 m:W62=0 a:R91=0";
        assert_eq!(first(elsewhere, 0), ("WR 62 91".to_owned(), 5));
    }
}

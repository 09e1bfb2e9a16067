//! The sketch of a failing run.
//!
//! - [`select`]: which statements belong into it
//! - [`place`]: in which lane and where
//! - [`present`]: numbers of the catalogue as names and values for people
//! - [`examples`]: a failing and a successful run beside one another

mod examples;
mod place;
mod present;
mod select;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::evidence::Evidence;
use crate::predictor::Predictor;
use crate::predictor::cycle::Deadlock;
use crate::predictor::extract::{deadlocks, locate, observe};
use crate::rank::Ranked;
use crate::run::{Catalogue, Run, StatementId, What};
use crate::sketch::{self, Backends, Failure, ProgramRef, Sketch};

/// Statements of a sketch that no run went into: what a person reads at a glance.
const STATIC: u32 = 10;

/// Predictors that a sketch lists.
const LISTED: usize = 10;

/// A statement that gave out a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Giving {
    /// It, and the calls that were inlined around it, innermost first: each of them gave it to its function.
    pub candidates: Vec<StatementId>,
    /// The inlined calls further out, around whoever used the pointer as well.
    pub around: Vec<StatementId>,
}

/// What a sketch is made of.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// What the runs have in common.
    pub catalogue: &'a Catalogue,
    /// What they say.
    pub evidence: &'a Evidence,
    /// What gave out the pointers behind which the memory of the best predictor is.
    pub givers: Vec<Giving>,
    /// Where threads take these pointers as their arguments, and the compiler made no code of it.
    pub arguments: Vec<StatementId>,
    /// What made the value that the best predictor's branch tests, in the function of the branch.
    pub tested: Vec<StatementId>,
    /// The ranking of `evidence`.
    pub ranked: &'a [Ranked],
    /// The failing run to show: see [`representative`]. Without one, the sketch is that of the slice.
    pub run: Option<&'a Run>,
    /// A successful run to hold against it.
    pub successful: Option<&'a Run>,
    /// The bug's id.
    pub bug: Option<String>,
    /// The program.
    pub program: ProgramRef,
    /// The failure.
    pub failure: Failure,
    /// How many statements of the slice were tracked in the end.
    pub sigma: u32,
    /// By what means.
    pub backends: Backends,
}

/// The failing run that shows the best predictor best: it held there, and what was true before was seen, best as the work of
/// one of its threads; where no other thread is to blame, who wrote what the failing statement read; with the fewest uncertain events;
/// what else the failing thread depends on was watched, and there is the least of the rest.
#[must_use]
pub fn representative<'a>(
    catalogue: &Catalogue,
    ranked: &[Ranked],
    runs: impl IntoIterator<Item = &'a Run>,
) -> Option<&'a Run> {
    let failing = runs.into_iter().filter(|run| run.failed.is_some());
    failing.min_by_key(|run| {
        let held = observe(catalogue, run).held;
        let missing = ranked
            .iter()
            .take(1)
            .filter(|best| !held.contains_key(&*best.predictor.in_one_run()))
            .count();
        let best = ranked.first().map(|best| &best.predictor);
        let unseen = match best {
            Some(Predictor::Deadlock { .. }) => {
                let deadlocks = deadlocks(catalogue, run);
                deadlocks.iter().map(Deadlock::unseen).min()
            }
            _ => None,
        };
        let instance = ranked
            .first()
            .and_then(|best| locate(catalogue, run, &best.predictor));
        let before = instance.and_then(|instance| select::true_before(run, &instance));
        let unknown_before = match before {
            Some((_, own)) => u8::from(!own),
            None => 2,
        };
        // What somebody wrote who was not seen is as bad as what somebody wrote nobody knows when.
        let uncertain =
            run.events.iter().filter(|event| event.uncertain).count() + select::unseen_writes(run);
        let incomplete = run.incomplete.is_some();
        let watched = Reverse(accessed_in_slice(catalogue, run));
        let alone = matches!(
            best,
            None | Some(Predictor::Value { .. } | Predictor::Branch { .. })
        );
        let unknown_origin = alone && !select::shows_who_left_it(run);
        (
            missing,
            unseen,
            incomplete,
            unknown_before,
            unknown_origin,
            uncertain,
            watched,
            run.events.len(),
            run.number,
        )
    })
}

/// Which of some failing runs may be forgotten: the oldest, unless none of the others shows who wrote what the failing statement read.
#[must_use]
pub fn forgettable(runs: &[Run]) -> usize {
    match runs {
        [oldest, others @ ..] if select::shows_who_left_it(oldest) => {
            let only = !others.is_empty() && !others.iter().any(select::shows_who_left_it);
            usize::from(only)
        }
        _ => 0,
    }
}

/// The statements of the slice whose accesses by the failing thread a run shows: registers take turns.
fn accessed_in_slice(catalogue: &Catalogue, run: &Run) -> usize {
    let failing = run.failed.and_then(|failed| failed.thread);
    let own = run
        .events
        .iter()
        .filter(|event| Some(event.thread) == failing && matches!(event.what, What::Access(_)));
    let statements: BTreeSet<StatementId> = own.map(|event| event.statement).collect();
    let in_slice = |statement: &&StatementId| {
        let info = catalogue.statements.get(statement.0 as usize);
        info.is_some_and(|info| info.slice.is_some())
    };
    statements.iter().filter(in_slice).count()
}

/// The predictors that a sketch may show. What is as frequent in successful runs separates nothing, and nothing is claimed to; without a
/// run that did not fail, nothing does. That threads wait for one another needs no comparison.
#[must_use]
pub fn claimed(evidence: &Evidence, ranked: &[Ranked]) -> Vec<Ranked> {
    let compared = evidence.runs().successful > 0;
    let claimed = ranked.iter().filter(|ranked| {
        let deadlock = matches!(ranked.predictor, Predictor::Deadlock { .. });
        deadlock || compared && ranked.counts.separate()
    });
    claimed.cloned().collect()
}

/// Makes the sketch.
#[must_use]
pub fn assemble(subject: Subject<'_>) -> Sketch {
    let runs = subject.evidence.runs();
    let ranked = &*claimed(subject.evidence, subject.ranked);
    let mut notes = notes(&subject);
    let (threads, steps) = match subject.run {
        Some(run) => {
            let origins = select::Origins {
                givers: &subject.givers,
                arguments: &subject.arguments,
                tested: &subject.tested,
            };
            let shown = select::select(subject.catalogue, subject.evidence, ranked, origins, run);
            place::place(subject.catalogue, run, shown)
        }
        None => {
            notes.push(
                "Static sketch: no tracked run failed; these are the statements that the failing one depends on."
                    .into(),
            );
            place::slice(subject.catalogue, subject.sigma.max(STATIC))
        }
    };
    let predictors = ranked.iter().take(LISTED).enumerate().map(|(at, ranked)| {
        let mut predictor = present::predictor(subject.catalogue, subject.evidence, ranked);
        predictor.rank = u32::try_from(at + 1).unwrap_or(u32::MAX);
        predictor
    });
    let mut predictors: Vec<sketch::Predictor> = predictors.collect();
    if let (Some(first), Some(best)) = (predictors.first_mut(), ranked.first()) {
        first.examples = examples::examples(subject.catalogue, best, subject.run, subject.successful);
    }
    Sketch {
        version: sketch::VERSION,
        bug: subject.bug,
        program: subject.program,
        failure: subject.failure,
        sigma: subject.sigma,
        runs: sketch::Runs {
            failing: runs.failing,
            successful: runs.successful,
            recurrences: runs.failing,
        },
        backends: subject.backends,
        threads,
        steps,
        predictors,
        gaps: gaps(subject.run),
        notes,
        ..Sketch::default()
    }
}

fn gaps(run: Option<&Run>) -> Vec<String> {
    let Some(run) = run else {
        return Vec::new();
    };
    let cut_short = run.incomplete.iter().cloned();
    let all = cut_short.chain(run.gaps.iter().map(|gap| gap.what.clone()));
    // Every thread has its own, and they are alike.
    let mut seen = BTreeSet::new();
    all.filter(|gap| seen.insert(gap.clone())).collect()
}

fn notes(subject: &Subject<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let (runs, incomplete) = (subject.evidence.runs(), subject.evidence.incomplete());
    if runs.failing > 0 && runs.successful == 0 {
        notes.push("Every run failed: nothing is known about what successful runs do.".into());
    }
    let cut_short = incomplete.failing + incomplete.successful;
    if cut_short > 0 {
        let all = runs.failing + runs.successful;
        notes.push(format!(
            "{cut_short} of {all} runs are incomplete; what they do not show does not count."
        ));
    }
    let best = subject.ranked.first();
    let pieced = best.is_some_and(|best| subject.evidence.is_pieced(&best.predictor));
    if pieced {
        notes.push(
            "No run watched all that these threads wait for; each saw a part of who waits for whom.".into(),
        );
    }
    if let (Some(best), Some(run)) = (best, subject.run)
        && runs.successful > 0
        && !pieced
        && locate(subject.catalogue, run, &best.predictor).is_none()
    {
        notes
            .push("The run that is shown does not have the best predictor; another failing run does.".into());
    }
    notes
}

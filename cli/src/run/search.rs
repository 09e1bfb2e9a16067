//! Runs without tracking until the first failure.

use std::collections::BTreeMap;

use agent::Tracking;
use anyhow::Result;
use diagnosis::record::{RunEnd, RunRecord};
use failure::report::Report;
use tracee::run::{Ended, Subject};

use super::keep::Keeping;
use super::limits::Limits;
use super::load::Load;
use super::progress::{Progress, State};
use super::series::Series;

/// Runs without a failure before the processors are kept busy, and before they are left alone again.
const PATIENCE: u64 = 60;

/// What came of the search.
pub enum Searched {
    /// A failure.
    Found(Box<Found>),
    /// None, and what was tried.
    Nothing(String),
}

/// The first failure.
pub struct Found {
    /// Its run.
    pub record: RunRecord,
    /// What failed.
    pub report: Report,
    /// Runs until then, with it.
    pub runs: u64,
    /// The process that failed, if it is not the launched one.
    pub subject: Option<Subject>,
    /// Whether its threads cannot be stopped where they touch what is watched.
    pub unstoppable: bool,
}

impl Found {
    /// After how many runs, in words.
    pub fn after(&self) -> String {
        match self.runs {
            1 => "1 run".to_owned(),
            more => format!("{more} runs"),
        }
    }
}

/// Runs the program until it fails; `after` a failure that told nothing, until it fails again.
pub fn until_failure(
    series: &Series,
    limits: &Limits,
    jobs: u16,
    after: Option<&Found>,
    mut keeping: Option<&mut Keeping>,
    progress: &mut Progress,
) -> Result<Searched> {
    let (mut submitted, mut finished) = after.map_or((0, 0), |found| (found.record.number + 1, found.runs));
    let mut on_way = 0;
    let mut load = None;
    let mut statuses = Statuses::default();
    loop {
        while on_way < u64::from(jobs) && limits.reached(submitted).is_none() {
            series.submit(Tracking {
                number: submitted,
                ..Tracking::default()
            });
            submitted += 1;
            on_way += 1;
        }
        if on_way == 0 {
            return Ok(Searched::Nothing(nothing(finished, &statuses, limits)));
        }
        let Some(done) = series.next() else {
            return Ok(Searched::Nothing(nothing(finished, &statuses, limits)));
        };
        on_way -= 1;
        let tracked = *done?;
        if tracked.record.end == RunEnd::Inconclusive {
            continue;
        }
        finished += 1;
        if let Some(keeping) = &mut keeping {
            keeping.keep(&tracked.record)?;
        }
        statuses.take(tracked.outcome.ended);
        if let RunEnd::Failed(report) = &tracked.record.end {
            let report = (**report).clone();
            // The others are without tracking too: they are no use any more.
            (0..on_way).for_each(|_| drop(series.next()));
            return Ok(Searched::Found(Box::new(Found {
                record: tracked.record,
                report,
                runs: finished,
                subject: tracked.outcome.subject,
                unstoppable: tracked.outcome.unstoppable,
            })));
        }
        if finished % PATIENCE == 0 {
            let loaded = load.is_some();
            load = (!loaded).then(Load::start);
            // Said once: it goes on in turns.
            if finished == PATIENCE {
                progress.say("no failure yet: keeping the processors busy beside the program now and then");
            }
        }
        progress.show(&State {
            phase: "waiting for the first failure",
            runs: finished,
            most_runs: limits.runs,
            left: limits.left(),
            ..State::default()
        });
    }
}

/// How often runs that are no failure ended with a status that is usually one.
#[derive(Default)]
struct Statuses(BTreeMap<i32, u64>);

impl Statuses {
    fn take(&mut self, ended: Ended) {
        if let Ended::Exited(status) = ended
            && status != 0
        {
            *self.0.entry(status).or_default() += 1;
        }
    }

    /// What to do about the most frequent one.
    fn advice(&self) -> Option<String> {
        let (status, count) = self.0.iter().max_by_key(|(_, count)| **count)?;
        Some(format!(
            "{count} ended with exit status {status}, which is a failure with --fail-on exit={status}"
        ))
    }
}

fn nothing(runs: u64, statuses: &Statuses, limits: &Limits) -> String {
    let busy = match runs >= PATIENCE {
        true => ", some of them with busy processors",
        false => "",
    };
    let why = limits.reached(runs).unwrap_or("no more runs");
    let seconds = limits.elapsed().as_secs_f64();
    let advice = statuses.advice().unwrap_or_else(|| {
        "try --runs, --time-limit, --timeout for hangs, or --fail-on for failures that only the output or the exit \
         status shows"
            .to_owned()
    });
    format!("no failure in {runs} runs ({seconds:.1} s){busy}; {why}: {advice}")
}

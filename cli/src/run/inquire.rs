//! From the first failure to the sketch: tracked runs until it is stable.

use std::collections::{BTreeMap, BTreeSet};

use agent::{FlowTracking, Tracking};
use anyhow::Result;
use diagnosis::conditions::{Change, Changing, may_be_late};
use diagnosis::inquiry::{Inquiry, Taken};
use diagnosis::record::RunEnd;
use diagnosis::sketch::Sketch;
use diagnosis::tracking::Assignment;
use failure::Signature;
use program::Program;
use pt_driver_client::recorder::{ControlFlow, recorder};
use watchpoint::location::REGISTERS;

use super::deliver;
use super::keep::Keeping;
use super::limits::Limits;
use super::load::Load;
use super::progress::{Progress, State};
use super::search::Found;
use super::series::Series;
use crate::args::{Mode, RunArgs};
use sources::{SourceText, add_sources};

/// What an inquiry is made with.
pub struct Inquire<'i> {
    pub args: &'i RunArgs,
    pub series: &'i Series,
    pub limits: &'i Limits,
    pub keeping: Option<&'i mut Keeping>,
    pub progress: &'i mut Progress,
}

/// What came of an inquiry.
pub enum Explained {
    /// The sketch.
    Sketch(Box<Sketch>),
    /// Another failure, which is much more frequent than the one that happened to come first.
    Rather(Box<Found>),
}

/// Why threads are not stopped where they touch what is watched.
const UNSTOPPABLE: &str = "threads block the signals that would stop them";

/// How many times as often as the failure that is looked into another has to come, to be looked into instead. A bug that
/// damages data is noticed now here and now there, and where it is noticed most is where it is explained soonest.
pub const MUCH_MORE_OFTEN: u64 = 3;

/// Runs in a row that may go wrong for reasons of ours before the inquiry does.
const MOST_BROKEN: u32 = 3;

impl Inquire<'_> {
    /// Tracks runs until the sketch is stable, or there is a reason to stop; or, if it `may_turn`, until another failure
    /// turns out to be the one to look into.
    pub fn into_sketch(
        mut self,
        program: &Program<'_>,
        found: &Found,
        sources: &SourceText,
        may_turn: bool,
    ) -> Result<Explained> {
        let criterion = deliver::criterion(program, self.args.at.as_ref())?;
        let mut inquiry = Inquiry::open(program, &found.report, criterion, self.args.sigma, found.runs)?;
        let (runs, signature) = (found.after(), inquiry.signature());
        self.progress.say(&format!("failed after {runs}: {signature}"));
        let may_change = self.args.mode == Mode::Auto;
        let may_drop_flow = self.args.control_flow == ControlFlow::Auto;
        let mode = super::first_mode(self.args.mode);
        let mut changing = Changing::new(mode, may_change, may_drop_flow, found.runs);
        if found.unstoppable
            && let Some((_, conditions)) = changing.unstoppable()
        {
            self.progress
                .say(&format!("{UNSTOPPABLE}: going on in {conditions}"));
        }
        let (mut number, mut on_way, mut broken) = (found.record.number + 1, 0, 0);
        let mut load = None;
        let mut stop = None;
        let mut others: BTreeMap<Signature, u64> = BTreeMap::new();
        let mut elsewhere: BTreeSet<Signature> = BTreeSet::new();
        loop {
            stop = stop.or_else(|| self.stop(&inquiry, number));
            while stop.is_none() && on_way < u64::from(self.args.jobs) {
                let conditions = changing.now();
                let assignment = inquiry.assignment(number);
                let assignment = assignment.share(conditions.registers(REGISTERS), number);
                let flow = match conditions.flow {
                    true => self.recorder(program, &assignment)?,
                    false => None,
                };
                self.series.submit(Tracking {
                    number,
                    sigma: assignment.sigma,
                    locations: assignment.locations,
                    own_frames: assignment.own_frames,
                    planned: assignment.planned,
                    library: assignment.library,
                    allocators: assignment.allocators,
                    results: assignment.results,
                    mode: conditions.mode,
                    flow,
                });
                number += 1;
                on_way += 1;
                stop = self.limits.reached(number).map(str::to_owned);
            }
            if on_way == 0 {
                break;
            }
            let Some(done) = self.series.next() else { break };
            on_way -= 1;
            let tracked = match done {
                Ok(tracked) => *tracked,
                // A run that could not be followed to its end says nothing of the others.
                Err(error) if broken < MOST_BROKEN => {
                    broken += 1;
                    let why = anyhow::Error::from(error);
                    self.progress
                        .say(&format!("a run could not be followed to its end: {why:#}"));
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            broken = 0;
            // What was running when it was interrupted says nothing.
            if tracked.record.end == RunEnd::Inconclusive {
                continue;
            }
            if let Some(keeping) = &mut self.keeping {
                keeping.keep(&tracked.record)?;
            }
            let taken = inquiry.take(&tracked.record);
            if let Taken::FailedElsewhere(signature) = &taken
                && elsewhere.insert(signature.clone())
            {
                self.progress.say(&format!("the same bug elsewhere: {signature}"));
            }
            if let Taken::OtherFailure(other) = &taken {
                let seen = others.entry(other.clone()).or_default();
                *seen += 1;
                let often = *seen >= MUCH_MORE_OFTEN * (inquiry.rates().failed + 1);
                if let RunEnd::Failed(report) = &tracked.record.end
                    && may_turn
                    && often
                {
                    let report = (**report).clone();
                    self.progress.say(&format!(
                        "more frequent by far, looking into this instead: {other}"
                    ));
                    (0..on_way).for_each(|_| drop(self.series.next()));
                    return Ok(Explained::Rather(Box::new(Found {
                        record: tracked.record,
                        report,
                        runs: found.runs,
                        subject: found.subject.clone(),
                        unstoppable: found.unstoppable,
                    })));
                }
                if *seen == 1 {
                    self.progress
                        .say(&format!("another failure, left alone: {other}"));
                }
            }
            // Another failure is neither: a program that fails differently when it is tracked does not succeed.
            let counts = !matches!(taken, Taken::OtherFailure(_) | Taken::Nothing);
            let changed = counts.then(|| {
                changing.after(
                    taken.is_failure(),
                    tracked.outcome.elapsed,
                    may_be_late(&tracked.record, inquiry.is_deadlock()),
                )
            });
            let unstoppable = tracked.outcome.unstoppable.then(|| changing.unstoppable());
            if let Some((why, conditions)) = unstoppable.flatten().or(changed.flatten()) {
                load = conditions.loaded.then(Load::start);
                let because = match why {
                    Change::Fruitless => "the failure does not recur",
                    Change::OnlyFailures => "tracked runs hardly ever succeed",
                    Change::AsBefore => "that makes no difference",
                    Change::Unstoppable => UNSTOPPABLE,
                };
                let less = match why == Change::Fruitless && inquiry.calm() {
                    true => ", without what is touched most",
                    false => "",
                };
                self.progress
                    .say(&format!("{because}: going on in {conditions}{less}"));
            }
            self.progress.show(&State {
                phase: "tracking",
                runs: number - on_way,
                most_runs: self.limits.runs,
                failures: inquiry.rates().failed,
                sigma: inquiry.sigma(),
                best: deliver::in_words(&inquiry.sketch(), sources),
                left: self.limits.left(),
            });
        }
        drop(load);
        let mut sketch = inquiry.sketch();
        if let Some(stop) = stop {
            if let Some(keeping) = &mut self.keeping {
                keeping.end(&stop)?;
            }
            sketch.notes.push(deliver::ending(&stop));
        }
        add_sources(&mut sketch, sources);
        Ok(Explained::Sketch(Box::new(sketch)))
    }

    fn recorder(&self, program: &Program<'_>, assignment: &Assignment) -> Result<Option<FlowTracking>> {
        let recorder = recorder(self.args.control_flow, program, &assignment.plan)?;
        Ok(recorder.map(|recorder| FlowTracking {
            recorder,
            ranges: assignment.plan.ranges.clone(),
            branches: assignment.plan.branches.clone(),
        }))
    }

    fn stop(&self, inquiry: &Inquiry<'_, '_>, number: u64) -> Option<String> {
        if self
            .args
            .failures
            .is_some_and(|most| inquiry.rates().failed >= most)
        {
            return Some("the failure has recurred as often as was asked for (--failures)".to_owned());
        }
        let limit = self.limits.reached(number).map(str::to_owned);
        inquiry.stopped().map(|stop| stop.to_string()).or(limit)
    }
}

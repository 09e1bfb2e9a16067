//! One bug under inquiry: what was learnt from its runs so far, and what the next one is to track.

mod elsewhere;
mod files;
mod missed;
mod unseen;
mod verdict;

use std::collections::BTreeSet;

use failure::report::Report;
use failure::resolve::{ResolveError, Waiting};
use failure::{Failure, Kind, Likeness, Signature, resolve};
use program::{Pc, Program};
use slicer::slice::Criterion;

use crate::adapt::{Adapt, Ended, Next, Part, Stop};
use crate::assemble::{Subject, assemble, claimed, forgettable, representative};
use crate::evidence::Evidence;
use crate::predictor::Predictor;
use crate::predictor::extract::locate;
use crate::rank::{Ranked, Ranking, expected_writes, open, rank, rival};
use crate::reading::{self, Cataloguer, Reading};
use crate::record::{RunEnd, RunRecord};
use crate::run::{BranchId, LocationId, Run, StatementId};
use crate::sketch::{Backends, Sketch};
use crate::statistics::Counts;
use crate::supplied::supplied;
use crate::tracking::shares::part;
use crate::tracking::{Assignment, Promising, Tracking, Wanted};
use elsewhere::Elsewhere;
use missed::Missed;
use unseen::unseen;
use verdict::Verdict;

/// Failing runs that are kept to be shown: a sketch shows one, the one that its best predictor describes.
const MOST_KEPT: usize = 16;
/// Recurrences that are waited for at most, for want of a stable predictor.
const MOST_RECURRENCES: u32 = 12;

/// Of what may explain the failure, how much is compared at a time.
const MOST_OPEN: usize = 3;

/// Statements of the slice that a sketch may show although they are not tracked: the calls and thread creations that led
/// to those that are.
const AHEAD: u32 = 32;

/// A bug under inquiry.
pub struct Inquiry<'p, 'a> {
    program: &'p Program<'a>,
    failure: Failure,
    likeness: Likeness,
    failing: StatementId,
    catalogue: Cataloguer,
    tracking: Tracking<'p, 'a>,
    evidence: Evidence,
    ranked: Vec<Ranked>,
    /// What may explain the failure, and has not been compared with enough successful runs.
    open: Vec<Ranked>,
    adapt: Adapt,
    stopped: Option<Stop>,
    failing_runs: Vec<Run>,
    /// Where else the bug has shown.
    elsewhere: Elsewhere,
    successful_run: Option<Run>,
    missed: Missed,
    backends: Backends,
    rates: Rates,
    cut: Cut,
}

/// Runs whose tracking was cut short.
#[derive(Clone, Debug, Default)]
struct Cut {
    runs: u64,
    /// The last time, why.
    why: String,
}

/// How often runs failed, with and without tracking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Runs without tracking, until the first failure.
    pub untracked: u64,
    /// Tracked runs.
    pub tracked: u64,
    /// Tracked runs that failed.
    pub failed: u64,
    /// Those of them that came while only successful runs could tell more, and were not looked at.
    pub spared: u64,
    /// Tracked runs that failed in another way.
    pub others: u64,
}

/// What a run was evidence of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The failure under inquiry.
    Failed,
    /// The same bug, which showed elsewhere.
    FailedElsewhere(Signature),
    /// Success.
    Succeeded,
    /// Another failure, with this signature: another bug.
    OtherFailure(Signature),
    /// Nothing.
    Nothing,
}

impl Taken {
    /// Whether it was the bug under inquiry, wherever it showed.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed | Self::FailedElsewhere(_))
    }
}

/// Why there can be no inquiry.
#[derive(Debug, thiserror::Error)]
pub enum InquiryError {
    /// The report is not about the program.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// Nothing to start from.
    #[error(
        "no frame of the failing thread is in the program's own code: name the statement to explain \
         the failure from, with --at FILE:LINE"
    )]
    NoStatement,
}

impl<'p, 'a> Inquiry<'p, 'a> {
    /// Opens the inquiry into a failure, which came after so many runs. A criterion that is given takes the place of
    /// what the failure is about.
    ///
    /// # Errors
    /// When the report is not about the program.
    pub fn open(
        program: &'p Program<'a>,
        report: &Report,
        criterion: Option<Criterion>,
        sigma: u32,
        untracked: u64,
    ) -> Result<Self, InquiryError> {
        let failure = resolve(report, program)?;
        let likeness = Likeness::of(&failure, program);
        let criterion = criterion.unwrap_or_else(|| Criterion::failure(program, &failure));
        let mut catalogue = Cataloguer::default();
        let mut tracking = Tracking::new(program, &criterion);
        let frames = failure.threads.iter().flat_map(|thread| &thread.frames);
        let sources = frames.flat_map(|frame| &frame.sources);
        tracking.spare_allocators(sources.filter_map(|source| source.function.as_deref()));
        tracking.extend(sigma, &mut catalogue);
        tracking.suspect(&failure, &mut catalogue);
        // A deadlock is told by what the waiting statements depend on, however little is tracked.
        tracking.read_ahead(AHEAD, &mut catalogue);
        if failure.kind == Kind::Hang {
            tracking.learn_locks(report, &failure);
            tracking.join_locks(&failure, &mut catalogue);
            tracking.join_wakes(&failure);
        }
        let hangs = failure.kind == Kind::Hang;
        catalogue.waits_for_news(hangs && verdict::waits_for(&failure, |waiting| waiting == Waiting::Signal));
        let failing = tracking.statements().first().copied();
        Ok(Self {
            program,
            failure,
            likeness,
            failing: failing.ok_or(InquiryError::NoStatement)?,
            catalogue,
            tracking,
            evidence: Evidence::new(),
            ranked: Vec::new(),
            open: Vec::new(),
            // All but the last of the runs without tracking succeeded.
            adapt: Adapt::new(sigma, MOST_RECURRENCES).that_can_succeed(untracked > 1),
            stopped: None,
            failing_runs: Vec::new(),
            elsewhere: Elsewhere::default(),
            successful_run: None,
            missed: Missed::default(),
            backends: Backends {
                control_flow: "none".to_owned(),
                data_flow: "none".to_owned(),
            },
            rates: Rates {
                untracked,
                ..Rates::default()
            },
            cut: Cut::default(),
        })
    }

    /// What tells the bug from others.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        self.likeness.signature()
    }

    /// What failures of the bug have in common.
    #[must_use]
    pub fn likeness(&self) -> &Likeness {
        &self.likeness
    }

    /// Whether threads of a program that does not get on wait for locks.
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        self.waits_for(|waiting| waiting == Waiting::Lock)
    }

    /// Whether threads of a program that does not get on go round, and none is held by a lock or waits for a signal.
    fn goes_round(&self) -> bool {
        let held = |waiting| matches!(waiting, Waiting::Lock | Waiting::Signal);
        let round = |waiting| matches!(waiting, Waiting::Running | Waiting::Sleeping);
        self.waits_for(round) && !self.waits_for(held)
    }

    fn waits_for(&self, what: impl Fn(Waiting) -> bool) -> bool {
        self.failure.kind == Kind::Hang && verdict::waits_for(&self.failure, what)
    }

    /// Whether the program has one thread. Others may have ended before it failed.
    fn is_alone(&self) -> bool {
        self.failure.threads.len() == 1 && !self.tracking.saw_threads()
    }

    /// How many statements of the slice are tracked now.
    #[must_use]
    pub fn sigma(&self) -> u32 {
        self.adapt.sigma()
    }

    /// How often runs failed.
    #[must_use]
    pub fn rates(&self) -> Rates {
        self.rates
    }

    /// How many things its runs have shown so far: what whoever keeps many inquiries has to look after.
    #[must_use]
    pub fn size(&self) -> usize {
        let catalogue = self.catalogue.catalogue();
        let named = catalogue.statements.len() + catalogue.locations.len() + catalogue.branches.len();
        named + self.evidence.size()
    }

    /// The predictors, best first.
    #[must_use]
    pub fn ranked(&self) -> &[Ranked] {
        &self.ranked
    }

    /// Why nothing more is to be learnt, if that is so.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    /// What a run is to track.
    pub fn assignment(&mut self, run: u64) -> Assignment {
        let wanted = Wanted {
            promising: self.promising(),
            convincing: self.ranked.first().is_some_and(|best| best.counts.convince()),
            deciding: self.deciding(),
            open: self.uncompared(),
            alone: self.is_alone(),
        };
        self.tracking
            .assignment(self.adapt.sigma(), run, &wanted, &mut self.catalogue)
    }

    /// The failure does not recur: the next runs watch less of what would make threads late. Says whether there is any.
    pub fn calm(&mut self) -> bool {
        let promising = self.promising();
        self.tracking.calm(&promising, &mut self.catalogue)
    }

    /// Somebody asks for more: twice as many statements are tracked, whatever is known.
    pub fn widen(&mut self) {
        let next = self.adapt.widen();
        self.go_on(next);
    }

    /// What the best explanation is about, and one that may be as good: it is watched in every run until it is known or refuted. While
    /// nothing explains the failure, what the failing thread had another object of than the registers: it takes several of them for some runs.
    fn promising(&self) -> Vec<Promising> {
        let best = self.explaining().filter(|best| best.explains);
        let rival = best.and_then(|best| rival(best, &self.open));
        let rival = rival.filter(|_| !self.adapt.is_shared());
        // What would do if successful runs do not refute it has to be watched in them.
        let waiting = self
            .ranked
            .first()
            .filter(|first| self.adapt.waits() && first.says_something());
        let missed = self.missed.wanted().filter(|_| best.is_none());
        let best = best.or(waiting);
        let known = best.into_iter().chain(rival).flat_map(accesses);
        known.chain(missed).collect()
    }

    /// The best predictor, or what explains the failure beside one that does not. Beside what only says that it failed, that is one that
    /// fewer runs were able to show; beside a value or a branch, one that several failing runs showed: what these are symptoms of is told
    /// by runs that watch both.
    fn explaining(&self) -> Option<&Ranked> {
        let best = self.ranked.first()?;
        let mut explaining = self.ranked.iter().filter(|ranked| ranked.explains);
        let beside = match best.restates() {
            _ if best.explains => None,
            true => explaining.find(|ranked| ranked.counts.successful_with == 0),
            false => explaining.find(|ranked| {
                let counts = &ranked.counts;
                counts.failing_with > 1 && (counts.successful_with == 0 || counts.convince())
            }),
        };
        beside.or(Some(best))
    }

    /// What may explain the failure, where nothing does, or hosts share the work: of what each of them sees little is compared by chance.
    fn uncompared(&self) -> Vec<Promising> {
        let explained = self.ranked.first().is_some_and(|best| best.explains);
        let open: Vec<&Ranked> = match self.adapt.is_shared() {
            true => self.recurring().collect(),
            false if explained => Vec::new(),
            false => self
                .open
                .iter()
                .filter(|open| open.counts.failing_with > 1)
                .collect(),
        };
        open.into_iter().take(MOST_OPEN).flat_map(accesses).collect()
    }

    /// What may explain the failure, and more than one failing run showed, and no successful one.
    fn recurring(&self) -> impl Iterator<Item = &Ranked> {
        let recurring = |counts: Counts| counts.failing_with > 1 && counts.successful_with == 0;
        self.open.iter().filter(move |open| recurring(open.counts))
    }

    /// What decides at the branch where failing runs part from successful ones: it is watched before what is nearer to the failure.
    fn deciding(&self) -> Vec<StatementId> {
        let mut deciding: Vec<StatementId> = self.bad_writer().into_iter().collect();
        for branch in self.partings() {
            let tested = self.tracking.tested(branch).iter().copied();
            let new: Vec<StatementId> = tested.filter(|tested| !deciding.contains(tested)).collect();
            deciding.extend(new);
        }
        deciding
    }

    /// The statement that wrote what failing runs then read, if that is what tells best: what it read itself is why the value was bad.
    fn bad_writer(&self) -> Option<StatementId> {
        let best = self.ranked.first()?;
        let tells = best.says_something() && best.counts.separate();
        match best.predictor {
            Predictor::Value { ref at, test, .. } if tells => test.read_by().map(|_| at.statement),
            _ => None,
        }
    }

    /// The branches at which failing runs part from successful ones, where some tell as much as the best predictor does: the best
    /// one, and the one that came first. An error that was returned through many functions was tested in each of them, and what
    /// all these tests follow from lies before the first.
    fn partings(&self) -> Vec<BranchId> {
        let Some(best) = self.ranked.first() else {
            return Vec::new();
        };
        let as_good = |ranked: &&Ranked| ranked.counts.compare_f(&best.counts).is_eq();
        let tells = |ranked: &&Ranked| ranked.says_something() && ranked.counts.separate();
        let ranked = self.ranked.iter().take_while(as_good).filter(tells);
        let branches: Vec<(BranchId, &Ranked)> = ranked
            .filter_map(|ranked| match ranked.predictor {
                Predictor::Branch { branch, .. } => Some((branch, ranked)),
                _ => None,
            })
            .collect();
        let earliest = branches
            .iter()
            .reduce(|first, other| match other.1.came_before(first.1) {
                true => other,
                false => first,
            });
        let mut partings: Vec<BranchId> = branches.first().map(|(branch, _)| *branch).into_iter().collect();
        partings.extend(
            earliest
                .map(|(branch, _)| *branch)
                .filter(|branch| !partings.contains(branch)),
        );
        partings
    }

    /// Takes in what a run showed.
    pub fn take(&mut self, record: &RunRecord) -> Taken {
        let Verdict {
            taken,
            at: failed_at,
            failure,
        } = Verdict::of(record, &self.likeness, self.program);
        match &taken {
            Taken::Nothing => return taken,
            Taken::OtherFailure(_) => self.rates.others += 1,
            Taken::Failed => self.rates.failed += 1,
            Taken::FailedElsewhere(signature) => {
                self.rates.failed += 1;
                self.elsewhere.count(signature);
            }
            Taken::Succeeded => {}
        }
        self.rates.tracked += 1;
        if let Some(why) = &record.cut_short {
            self.cut.runs += 1;
            self.cut.why.clone_from(why);
        }
        if taken.is_failure()
            && let Some(next) = self.adapt.spares(part(record), taken == Taken::Failed)
        {
            self.rates.spared += 1;
            self.go_on(next);
            return taken;
        }
        self.tracking.give_up(record);
        if matches!(taken, Taken::OtherFailure(_)) {
            return taken;
        }
        if let Some(means) = &record.data_flow {
            self.backends.data_flow.clone_from(means);
        }
        if let Some(flow) = &record.flow {
            self.backends.control_flow = flow.recording.source.to_string();
        }
        let failed = taken.is_failure();
        let failing = match failed_at {
            Some(pc) => self
                .catalogue
                .statement_at(pc, self.program)
                .unwrap_or(self.failing),
            None => self.failing,
        };
        if let (Taken::FailedElsewhere(signature), Some(failure)) = (&taken, &failure) {
            self.elsewhere.keep(signature, failing, failure);
        }
        let hang = failure.as_ref().filter(|failure| failure.kind == Kind::Hang);
        let locks = hang.map(verdict::waiting_for_locks).unwrap_or_default();
        if let (Some(hang), RunEnd::Failed(report)) = (hang, &record.end) {
            self.tracking.learn_locks(report, hang);
            if matches!(taken, Taken::FailedElsewhere(_)) {
                self.tracking.join_locks(hang, &mut self.catalogue);
            }
        }
        let Reading {
            mut run,
            writers,
            library,
            branches,
        } = reading::read(
            record,
            failed.then_some(failing),
            &locks,
            self.program,
            self.tracking.threads(),
            self.failure.kind == Kind::Hang,
            &mut self.catalogue,
        );
        if let Some(failed) = &mut run.failed {
            failed.polls = self.goes_round();
            failed.instead_of = (failed.statement != self.failing).then_some(self.failing);
        }
        if let Some(failure) = &failure {
            let unseen = unseen(&run, failure, self.program, &mut self.catalogue);
            run.watched.retain(|location| !unseen.contains(location));
            self.missed.take(&mut run, self.catalogue.catalogue());
        }
        if matches!(taken, Taken::FailedElsewhere(_)) {
            // It did not get to where the others failed: that something did not happen there says nothing.
            run.incomplete
                .get_or_insert_with(|| "it failed elsewhere".to_owned());
        }
        self.tracking.leave_out(&branches);
        self.tracking.called(library);
        self.tracking.learn_provenance(record, self.is_alone());
        self.evidence.add(self.catalogue.catalogue(), &run);
        let Ranking { ranked, open } = rank(self.catalogue.catalogue(), &self.evidence, self.failing);
        (self.ranked, self.open) = (ranked, open);
        let best = self.ranked.first().map(|best| best.predictor.locations());
        self.tracking
            .look_for_givers(&best.unwrap_or_default(), &mut self.catalogue);
        if let Some(branch) = self.best_branch() {
            self.tracking.look_for_tested(branch, &mut self.catalogue);
        }
        for branch in self.partings() {
            self.tracking.look_for_tested(branch, &mut self.catalogue);
            let tested = self.tracking.tested(branch).to_vec();
            self.track_far(tested);
        }
        if let Some(writer) = self.bad_writer() {
            self.track_far(vec![writer]);
        }
        if failed {
            self.tracking.learn(record);
            self.join(writers.into_iter().chain(failed_at).collect());
            let expected = self.expected_writers();
            self.join(expected);
            self.tracking.read_ahead(AHEAD, &mut self.catalogue);
            self.failing_runs.push(run);
            if self.failing_runs.len() > MOST_KEPT {
                self.failing_runs.remove(forgettable(&self.failing_runs));
            }
        } else {
            let best = self.ranked.first().map(|best| supplied(&run, &best.predictor));
            let supplied = best.unwrap_or_default().into_iter();
            self.join(
                supplied
                    .filter_map(|at| self.catalogue.pc_of(at, self.program))
                    .collect(),
            );
            self.successful_run = Some(run);
        }
        self.adapt(&taken, part(record));
        taken
    }

    fn adapt(&mut self, taken: &Taken, part: Part) {
        let length = u32::try_from(self.tracking.statements().len()).unwrap_or(u32::MAX);
        let uncompared = self.recurring().next().is_some();
        // What failing runs watched other objects of, they have not watched.
        let explained = self.ranked.first().is_some_and(|best| best.explains);
        let missed = self.missed.wanted().is_some() && !explained;
        let next = self.adapt.ended(Ended {
            failed: taken.is_failure(),
            here: *taken == Taken::Failed,
            part,
            ranked: &self.ranked,
            uncompared,
            slice_length: self.tracking.is_exhausted().then_some(length),
            watched: self.tracking.is_watched() && !missed,
            open: open(&self.evidence, &self.ranked),
            locked: self.is_deadlock(),
            alone: self.is_alone(),
        });
        self.go_on(next);
    }

    fn go_on(&mut self, next: Next) {
        self.stopped = match next {
            Next::Track(_) => None,
            Next::Stop(stop) => Some(stop),
        };
    }

    /// Has statements tracked, such as those that make what a branch tests, however far away they are in the slice.
    fn track_far(&mut self, statements: Vec<StatementId>) {
        let sigma = self.adapt.sigma();
        let far = statements.into_iter().filter(|&statement| {
            let info = self.catalogue.catalogue().statements.get(statement.0 as usize);
            let place = info.and_then(|info| info.slice);
            place.is_none_or(|place| place.number >= sigma)
        });
        let far: Vec<Pc> = far
            .filter_map(|statement| self.catalogue.pc_of(statement, self.program))
            .collect();
        self.tracking.join(far);
    }

    /// Statements outside the slice that wrote what is tracked have causes of their own.
    fn join(&mut self, writers: BTreeSet<Pc>) {
        let outside = |pc: &Pc| {
            let statement = self.catalogue.known_at(*pc, self.program);
            statement.is_none_or(|statement| statement.slice.is_none())
        };
        let new: Vec<Pc> = writers.into_iter().filter(outside).collect();
        self.tracking.join(new);
    }

    /// What should have been written before it was read: how it comes about is half of the story, and no failing run may live
    /// to show it.
    fn expected_writers(&self) -> BTreeSet<Pc> {
        let best = self.ranked.first().map(|best| &best.predictor);
        let Some(Predictor::Unwritten { location, read }) = best else {
            return BTreeSet::new();
        };
        let writers = expected_writes(&self.evidence, *location, read);
        let pcs = writers
            .iter()
            .filter_map(|writer| self.catalogue.pc_of(writer.statement, self.program));
        pcs.collect()
    }

    /// The branch that the best predictor is about, if it is about one.
    fn best_branch(&self) -> Option<BranchId> {
        match self.ranked.first().map(|best| &best.predictor) {
            Some(Predictor::Branch { branch, .. }) => Some(*branch),
            _ => None,
        }
    }

    /// What is known now.
    #[must_use]
    pub fn sketch(&self) -> Sketch {
        let catalogue = &*self.catalogue.with_globals();
        // The run that is shown should have what the sketch says first, and fail where the first one did.
        let here = |run: &&Run| run.failed.is_some_and(|failed| failed.statement == self.failing);
        let claimed = claimed(&self.evidence, &self.ranked);
        let best = claimed.first().map(|best| &best.predictor);
        let shows = |run: &&Run| best.is_none_or(|best| locate(catalogue, run, best).is_some());
        let runs = || self.failing_runs.iter();
        let shown = representative(catalogue, &claimed, runs().filter(here).filter(shows))
            .or_else(|| representative(catalogue, &claimed, runs().filter(shows)))
            .or_else(|| representative(catalogue, &claimed, runs().filter(here)));
        let run = shown.or_else(|| representative(catalogue, &claimed, runs()));
        // Where it failed elsewhere, the sketch says where that was.
        let failing = run.and_then(|run| run.failed.as_ref());
        let failing = failing.map_or(self.failing, |failed| failed.statement);
        let other = self.elsewhere.at(failing).filter(|_| failing != self.failing);
        let elsewhere = other.map(|_| failing);
        let (failing, failure) = (elsewhere.unwrap_or(self.failing), other.unwrap_or(&self.failure));
        let tested = self
            .best_branch()
            .map_or(&[][..], |branch| self.tracking.tested(branch));
        let best = self.ranked.first().into_iter();
        let locations = best.flat_map(|best| best.predictor.locations());
        let locations: Vec<LocationId> = locations.collect();
        let givers = locations
            .iter()
            .flat_map(|location| self.tracking.givers(*location, &self.catalogue));
        let arguments = locations
            .iter()
            .flat_map(|location| self.tracking.arguments(*location));
        let mut sketch = assemble(Subject {
            catalogue,
            givers: givers.collect(),
            arguments: arguments.collect(),
            tested: tested.to_vec(),
            evidence: &self.evidence,
            ranked: &self.ranked,
            run,
            successful: self.successful_run.as_ref(),
            bug: Some(self.likeness.signature().id()),
            program: crate::subject::program(self.program),
            failure: crate::subject::failure(failure, failing, catalogue),
            sigma: self.adapt.sigma(),
            backends: self.backends.clone(),
        });
        sketch.files = files::files(&mut sketch, failure, &self.catalogue, self.program);
        sketch.runs.recurrences = self.rates.failed - self.rates.spared;
        sketch.notes.extend(failure.notes.iter().cloned());
        sketch.gaps.extend(self.tracking.left_out());
        sketch.notes.extend(self.rates.note());
        sketch.notes.extend(self.cut.note(self.rates.tracked));
        let first = self.likeness.signature();
        sketch.notes.extend(self.elsewhere.notes(elsewhere, first));
        sketch
    }
}

/// What a predictor is about.
fn accesses(of: &Ranked) -> Vec<Promising> {
    let accesses = of.predictor.accesses();
    let promising = accesses.iter().map(|(actor, location, _)| Promising {
        statement: actor.statement,
        location: *location,
    });
    promising.collect()
}

impl Cut {
    /// What was not watched to the end cannot be in the sketch.
    fn note(&self, tracked: u64) -> Option<String> {
        let Self { runs, why } = self;
        (*runs > 0)
            .then(|| format!("tracking was cut short in {runs} of {tracked} runs; the last time, {why}"))
    }
}

impl Rates {
    /// How the tracked failure rate compares with the untracked one: watching may change a bug.
    fn note(&self) -> Option<String> {
        let others = match self.others {
            0 => String::new(),
            some => format!("; {some} ended in another failure"),
        };
        let spared = match self.spared {
            0 => String::new(),
            some => format!(
                "; {some} more failures came while successful runs were waited for, and were not needed"
            ),
        };
        (self.tracked > 0).then(|| {
            format!(
                "failed in {} of {} tracked runs, and in 1 of {} without tracking{others}{spared}",
                self.failed, self.tracked, self.untracked,
            )
        })
    }
}

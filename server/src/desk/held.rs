//! One case, and what its log says.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use diagnosis::adapt::FIRST;
use diagnosis::conditions::{Change, Changing, may_be_late};
use diagnosis::inquiry::{Inquiry, Taken};
use diagnosis::record::{RunEnd, RunRecord};
use diagnosis::sketch::Sketch;
use failure::{Likeness, Report};
use program::Program;
use serde::{Deserialize, Serialize};
use sketch_render::sketch::{view, words};
use watchpoint::Mode;

use super::course::{Belief, Course};
use super::growth::Growth;
use super::{DeskError, Means, Planned, Shelf};
use crate::json;
use crate::store::model::{BugId, Case, CaseRow, Derived, FailureSeen, State, StoredRun};
use crate::store::objects::ObjectError;
use crate::store::{Body, StoreError};

/// Entries of a log that are read together.
const PAGE: u32 = 64;

/// How a search stands, for lists and pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Statements of the slice that are tracked.
    pub sigma: u32,
    /// Tracked runs that were taken in.
    pub runs: u64,
    /// Those that failed.
    pub recurrences: u64,
    /// Why nothing more is tracked, if that is so.
    pub stopped: Option<String>,
    /// The best predictor in words.
    pub best: Option<String>,
    /// It is more than chance may have made of so few runs.
    pub clear: bool,
    /// Records that could not be read.
    pub unread: u64,
}

/// What came of looking at a log.
#[derive(Default)]
pub(super) struct New {
    /// There is another sketch.
    pub(super) changed: bool,
    /// Failures of another kind.
    pub(super) others: Vec<(Report, FailureSeen)>,
}

/// A case under inquiry.
pub(super) struct Held<'p, 'a> {
    inquiry: Inquiry<'p, 'a>,
    changing: Changing,
    state: State,
    widened: u32,
    /// The last entry that was taken in.
    taken: u64,
    /// Plans that were given out.
    given: u64,
    unread: u64,
    /// Entries that were forgotten before they could be taken in.
    forgotten: u64,
    growth: Growth,
    is_derived: bool,
    course: Course,
    belief: Belief,
}

impl<'p, 'a> Held<'p, 'a> {
    /// Opens the inquiry that a case began with.
    pub(super) fn open(program: &'p Program<'a>, row: &CaseRow) -> Result<Self, DeskError> {
        let report: Report = serde_json::from_slice(&row.report).map_err(|error| DeskError::Damaged {
            bug: row.case.bug.clone(),
            why: error.to_string(),
        })?;
        Ok(Self {
            inquiry: Inquiry::open(program, &report, None, FIRST, row.runs_until).map_err(Arc::new)?,
            changing: Changing::new(Mode::Exact, true, true, row.runs_until),
            state: row.state.clone(),
            widened: 0,
            taken: 0,
            given: 0,
            unread: 0,
            forgotten: 0,
            growth: Growth::default(),
            is_derived: false,
            course: Course::default(),
            belief: Belief::default(),
        })
    }

    pub(super) fn signature(&self) -> String {
        self.inquiry.signature().to_string()
    }

    pub(super) fn is_like(&self, other: &Likeness) -> bool {
        self.inquiry.likeness().is_like(other)
    }

    /// Whether hosts are asked to track it.
    pub(super) fn is_tracked(&self) -> bool {
        matches!(self.state, State::Tracking | State::Regressed(_)) && self.inquiry.stopped().is_none()
    }

    /// What the next run is to track.
    pub(super) fn plan(&mut self, bug: BugId, means: Means) -> Planned {
        self.given += 1;
        let number = self.given.max(self.taken + 1);
        self.given = number;
        let conditions = self.changing.now();
        let registers = conditions.registers(means.registers);
        let assignment = self.inquiry.assignment(number).share(registers, number);
        Planned {
            bug,
            number,
            sigma: assignment.sigma,
            assignment: json(&assignment),
            mode: if means.attached {
                Mode::Observe
            } else {
                conditions.mode
            },
            flow: conditions.flow,
        }
    }

    /// Takes in how the case was steered, and the entries of its log that are new.
    pub(super) fn take_in(&mut self, row: &CaseRow, shelf: &Shelf) -> Result<New, DeskError> {
        let mut new = New {
            changed: !self.is_derived || self.state != row.state,
            others: Vec::new(),
        };
        self.state = row.state.clone();
        while self.widened < row.widened {
            self.inquiry.widen();
            self.widened += 1;
            new.changed = true;
        }
        self.forgotten += row.retired_seq.saturating_sub(self.taken);
        self.taken = self.taken.max(row.retired_seq);
        while self.taken < row.last_seq {
            let page = shelf
                .handle
                .block_on(shelf.store.runs_after(&row.case, self.taken, PAGE))?;
            if page.is_empty() {
                break;
            }
            for run in page {
                self.taken = run.seq;
                if !self.growth.hears(&run, self.inquiry.size()) {
                    continue;
                }
                match record(&run, shelf)? {
                    Some(record) => self.take(record, run, &row.case, &mut new),
                    None => self.unread += 1,
                }
            }
            // Whoever waits for the end of a long log sees how far it is.
            self.keep(row, shelf)?;
            new.changed = false;
            shelf.tell();
        }
        if new.changed {
            self.keep(row, shelf)?;
        }
        Ok(new)
    }

    fn keep(&mut self, row: &CaseRow, shelf: &Shelf) -> Result<(), DeskError> {
        let derived = self.derive();
        shelf.handle.block_on(shelf.store.derive(&row.case, derived))?;
        self.is_derived = true;
        Ok(())
    }

    fn take(&mut self, mut record: RunRecord, run: StoredRun, case: &Case, new: &mut New) {
        // The plan is made again as it was, so that what a run joined is joined again.
        self.inquiry.assignment(record.number);
        // From here on it goes by its place in the log: servers give numbers of plans out apart from one another.
        record.number = run.seq;
        let before = self.inquiry.size();
        let taken = self.inquiry.take(&record);
        let more = self.inquiry.size().saturating_sub(before);
        self.growth.add(&run, more);
        self.course
            .note(&mut self.belief, &taken, &record, &run, &self.inquiry);
        let late = may_be_late(&record, self.inquiry.is_deadlock());
        if let (Taken::OtherFailure(_), RunEnd::Failed(report)) = (&taken, record.end) {
            let seen = FailureSeen {
                id: run.id,
                host: run.host,
                at: run.at,
                counted_for: Some(case.clone()),
            };
            new.others.push((*report, seen));
        }
        if matches!(taken, Taken::OtherFailure(_) | Taken::Nothing) {
            return;
        }
        let took = Duration::from_nanos(record.elapsed_ns);
        let changed = self.changing.after(taken.is_failure(), took, late);
        if let Some((Change::Fruitless, _)) = changed {
            self.inquiry.calm();
        }
    }

    fn derive(&self) -> Derived {
        let mut sketch = self.inquiry.sketch();
        let stopped = self.inquiry.stopped().map(|stop| stop.to_string());
        if let Some(stop) = &stopped {
            sketch.notes.push(format!("no more runs are tracked: {stop}"));
        }
        if self.forgotten > 0 {
            let (forgotten, all) = (self.forgotten, self.taken);
            sketch.notes.push(format!(
                "made of the last {} of {all} runs: the {forgotten} before them are kept no more",
                all - forgotten
            ));
        }
        sketch.notes.extend(self.growth.note());
        let summary = Summary {
            sigma: sketch.sigma,
            runs: self.taken - self.forgotten,
            recurrences: sketch.runs.recurrences,
            stopped,
            best: in_words(&sketch),
            clear: sketch.predictors.first().is_some_and(words::convinces),
            unread: self.unread,
        };
        Derived {
            seq: self.taken,
            widened: self.widened,
            // A sketch has nothing that cannot be written.
            sketch: Bytes::from(sketch_render::sketch::json(&sketch).unwrap_or_default()),
            summary: json(&summary),
            course: Some(json(&self.course)),
            words: found_by(&sketch),
        }
    }
}

fn in_words(sketch: &Sketch) -> Option<String> {
    let best = sketch.predictors.first()?;
    Some(words::predictor(sketch, best).plain())
}

/// Characters that a search looks through.
const LONGEST_WORDS: usize = 2000;

/// What people look for when they look for this bug: its sentence, where it failed, the best predictors' places, its build.
fn found_by(sketch: &Sketch) -> String {
    let mut words = words::sentence(sketch).plain();
    let best = sketch.predictors.iter().take(3);
    let places = best.flat_map(|predictor| &predictor.statements);
    let places = places.map(|place| &place.statement);
    for place in sketch.failure.statement.iter().chain(places) {
        words.push(' ');
        words.push_str(&view::position(place, 200));
    }
    for more in [&sketch.program.build_id, &sketch.failure.message]
        .into_iter()
        .flatten()
    {
        words.push(' ');
        words.push_str(more);
    }
    // A database takes no zero bytes for text.
    words
        .chars()
        .filter(|c| !c.is_control())
        .take(LONGEST_WORDS)
        .collect()
}

/// What a run did; `None` when that cannot be read.
fn record(run: &StoredRun, shelf: &Shelf) -> Result<Option<RunRecord>, StoreError> {
    let parsed = match &run.body {
        Body::Inline(bytes) => serde_json::from_slice(bytes),
        Body::Object(key) => {
            let path = match shelf.handle.block_on(shelf.objects.get(key)) {
                Ok(path) => path,
                // It will not come back, and the runs after it are not to wait for it.
                Err(error @ (ObjectError::Missing(_) | ObjectError::Damaged(_))) => {
                    tracing::warn!(run = run.id, %error, "a run is lost");
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            };
            let bytes = std::fs::read(&path).map_err(|error| StoreError::Unavailable(error.to_string()))?;
            serde_json::from_slice(&bytes)
        }
    };
    if let Err(error) = &parsed {
        tracing::warn!(run = run.id, %error, "a run cannot be read");
    }
    Ok(parsed.ok())
}

//! One bug: its sentence, its sketch, what it rests on, and what is done about it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use diagnosis::sketch::{Predictor, Sketch};
use program::BuildId;
use serde::Deserialize;
use sketch_render::sketch::html::{self, Parts};
use tonic::Status;

use super::frame::{Frame, answer};
use super::refusal::Refusal;
use super::shown::{Moment, counted, grouped, short_build, shown, state};
use super::trend::{Trend, from_hour};
use crate::access::Identity;
use crate::clock::now;
use crate::desk::{Course, Summary};
use crate::service::House;
use crate::store::model::{self, BugId, CaseRow, Derived, Overview};
use hosts::{Host, hosts};

pub(super) mod hosts;

/// Entries of the audit that are shown.
const MOST_AUDIT: u32 = 20;

#[derive(Template)]
#[template(path = "bug.html")]
struct Page {
    frame: Frame,
    live: String,
    version: String,
    did: Option<&'static str>,
    id: String,
    title: String,
    program: String,
    signature: String,
    state: &'static str,
    standing: String,
    build: String,
    build_address: String,
    is_old_build: bool,
    parts: Option<Arc<Parts>>,
    revision: u64,
    trend: String,
    failures: String,
    failing: u64,
    successful: u64,
    runs: String,
    hosts_count: String,
    sigma: u32,
    first: Moment,
    last: Moment,
    may_steer: bool,
    acts: Vec<Act>,
    builds: Vec<Build>,
    turns: Vec<TurnRow>,
    turns_left_out: u64,
    hosts: Vec<Host>,
    hosts_more: usize,
    places: usize,
    audit: Vec<Audit>,
}

/// Something that can be done about a bug.
struct Act {
    what: &'static str,
    name: &'static str,
    question: &'static str,
    means: &'static str,
    asks_build: bool,
}

struct Build {
    id: String,
    short: String,
    address: String,
    is_here: bool,
    note: &'static str,
    failures: String,
    runs: String,
    first: Moment,
    last: Moment,
}

struct TurnRow {
    at: Moment,
    seq: u64,
    sigma: u32,
    /// Of the largest, in hundredths.
    share: u32,
    failing: u64,
    successful: u64,
    best: Vec<(bool, String)>,
    f: String,
    is_new: bool,
}

struct Audit {
    at: Moment,
    who: String,
    what: String,
}

/// What somebody did before he came here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Did {
    did: String,
}

impl House {
    /// A bug that somebody may read, as lists have it. Whoever may not learns no more than of one that is not there.
    pub(super) async fn overview(&self, who: &Identity, bug: &str) -> Result<Overview, Status> {
        who.may_read_something()?;
        let found = self.store.overview_of(&BugId(bug.to_owned())).await;
        let found = found.map_err(|error| self.of_store(error))?;
        found
            .filter(|found| who.may_read(&found.program).is_ok())
            .ok_or_else(|| Status::not_found(format!("there is no bug {} that you may read", shown(bug, 40))))
    }
}

/// Changes when something about a bug does.
pub(super) fn version(bug: &Overview) -> String {
    let mut hasher = DefaultHasher::new();
    (bug.seq, bug.runs, bug.failures, bug.builds, bug.widened).hash(&mut hasher);
    (bug.state.name(), &bug.summary).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Where the page of a build is, and everything about it.
pub(super) fn address(bug: &BugId, build: &BuildId) -> String {
    format!("/bugs/{bug}/builds/{build}")
}

/// The page, of the build that was active last.
pub(super) async fn page(
    State(house): State<House>,
    who: Identity,
    Path(bug): Path<String>,
    Query(did): Query<Did>,
) -> Result<Response, Refusal> {
    show(&house, &who, &bug, None, &did.did).await
}

/// The page of one build.
pub(super) async fn page_of_build(
    State(house): State<House>,
    who: Identity,
    Path((bug, build)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    show(&house, &who, &bug, Some(&build), "").await
}

/// A case of a bug, and what was derived from its log.
pub(super) struct Opened {
    pub(super) bug: Overview,
    pub(super) cases: Vec<CaseRow>,
    /// Which of the cases.
    pub(super) here: usize,
    pub(super) derived: Option<Derived>,
}

impl Opened {
    pub(super) fn case(&self) -> &CaseRow {
        &self.cases[self.here]
    }
}

/// Opens a bug, in the build that is named or the one that was active last.
pub(super) async fn open(
    house: &House,
    who: &Identity,
    bug: &str,
    build: Option<&str>,
) -> Result<Opened, Status> {
    let bug = house.overview(who, bug).await?;
    let cases = house.cases(&bug.id).await?;
    let wanted = match build {
        Some(build) => BuildId::from_hex(build),
        None => Some(bug.build.clone()),
    };
    let here = cases
        .iter()
        .position(|case| Some(&case.case.build) == wanted.as_ref());
    let here = here.ok_or_else(|| {
        let build = shown(build.unwrap_or_default(), 140);
        Status::not_found(format!("bug {} was not seen in a build {build}", bug.id))
    })?;
    let derived = house.derived(&cases[here]).await?;
    Ok(Opened {
        bug,
        cases,
        here,
        derived,
    })
}

/// The sketch that was derived, with the text of its sources.
pub(super) async fn sketch(house: &House, opened: &Opened) -> Result<Option<Sketch>, Status> {
    let Some(derived) = &opened.derived else {
        return Ok(None);
    };
    let (bytes, places) = (derived.sketch.clone(), Arc::clone(&house.sources));
    let parsed = tokio::task::spawn_blocking(move || {
        let mut sketch = serde_json::from_slice::<Sketch>(&bytes)?;
        places.add_to(&mut sketch);
        Ok::<_, serde_json::Error>(sketch)
    });
    let parsed = parsed.await;
    match parsed {
        Ok(Ok(sketch)) => Ok(Some(sketch)),
        Ok(Err(error)) => Err(Status::internal(format!("the sketch cannot be read: {error}"))),
        Err(error) => Err(Status::internal(error.to_string())),
    }
}

async fn show(
    house: &House,
    who: &Identity,
    bug: &str,
    build: Option<&str>,
    did: &str,
) -> Result<Response, Refusal> {
    let opened = open(house, who, bug, build).await?;
    let sketch = sketch(house, &opened).await?;
    let runs = sketch.as_ref().map(|sketch| sketch.runs).unwrap_or_default();
    let (bug, case) = (&opened.bug, opened.case());
    let base = address(&bug.id, &case.case.build);
    let at = base.clone();
    let title = sketch
        .as_ref()
        .map(|sketch| sketch_render::sketch::words::sentence(sketch).plain());
    let parts = match sketch {
        Some(sketch) => {
            let made = tokio::task::spawn_blocking(move || {
                let runs = |predictor: &Predictor| {
                    let known = !predictor.runs.is_empty();
                    known.then(|| format!("{at}/predictors/{}", super::runs::key(predictor)))
                };
                html::parts(&sketch, &runs)
            });
            Some(Arc::new(
                made.await.map_err(|error| Status::internal(error.to_string()))?,
            ))
        }
        None => None,
    };
    let now = now();
    let derived = opened.derived.as_ref();
    let summary = derived.and_then(|derived| serde_json::from_slice::<Summary>(&derived.summary).ok());
    let summary = summary.unwrap_or_default();
    let course =
        derived.and_then(|derived| serde_json::from_slice::<Course>(derived.course.as_deref()?).ok());
    let course = course.unwrap_or_default();
    let of_store = |error| house.of_store(error);
    let ids = [bug.id.clone()];
    let hours = house.store.trend(&ids, from_hour(now)).await.map_err(of_store)?;
    let hours = hours.iter().map(|hour| (hour.hour, hour.failures));
    let reporters = house.store.reporters(&ids).await.map_err(of_store)?;
    let audit = house
        .store
        .audit_of(&bug.id, MOST_AUDIT)
        .await
        .map_err(of_store)?;
    let (hosts, hosts_more) = hosts(house, &course, now).await?;
    let is_old_build = case.case.build != bug.build;
    answer(&Page {
        frame: Frame::new(&who.name, ""),
        live: format!("/bugs/{}/live", bug.id),
        version: version(bug),
        did: did_words(did),
        id: bug.id.to_string(),
        title: shown(&title.unwrap_or_else(|| bug.signature.clone()), 200),
        program: shown(&bug.program, 80),
        signature: shown(&bug.signature, 200),
        state: state(&bug.state, &summary),
        standing: standing(&bug.state, &summary),
        build: case.case.build.to_string(),
        build_address: base,
        is_old_build,
        parts,
        revision: derived.map_or(0, |derived| derived.seq),
        trend: Trend::new(hours, bug.first_seen, now).picture(),
        failures: grouped(bug.failures),
        failing: runs.failing,
        successful: runs.successful,
        runs: grouped(bug.runs),
        hosts_count: grouped(reporters.first().map_or(0, |(_, hosts)| *hosts)),
        sigma: summary.sigma,
        first: Moment::new(bug.first_seen, now),
        last: Moment::new(bug.last_seen, now),
        may_steer: who.may_steer(&bug.program).is_ok(),
        acts: acts(&bug.state, &summary),
        builds: builds(&opened, now),
        turns: turns(&course, now),
        turns_left_out: course.left_out,
        hosts,
        hosts_more,
        places: course.places(),
        audit: audit
            .into_iter()
            .map(|entry| Audit {
                at: Moment::new(entry.at, now),
                who: shown(&entry.who, 80),
                what: shown(&entry.what, 200),
            })
            .collect(),
    })
}

fn did_words(did: &str) -> Option<&'static str> {
    Some(match did {
        "stopped" => "Tracking is stopped. What is known stays; you can resume at any time.",
        "resumed" => "Tracking goes on with the next runs.",
        "widened" => "Twice as many statements are tracked from the next run on.",
        "fixed" => {
            "Marked as fixed. If it fails in that build, or in one seen after it, it comes back as regressed."
        }
        _ => return None,
    })
}

/// What the state means just now.
fn standing(state: &model::State, summary: &Summary) -> String {
    match (state, &summary.stopped) {
        (model::State::Tracking, Some(why)) => format!("Nothing more is tracked: {}.", shown(why, 200)),
        (model::State::Tracking, None) => format!(
            "Agents watch for it: {} tracked, {} so far.",
            counted(u64::from(summary.sigma), "statement"),
            counted(summary.recurrences, "recurrence")
        ),
        (model::State::Stopped, _) => "Somebody stopped tracking it; failures are still counted.".to_owned(),
        (model::State::Fixed(build), _) => format!("Said to be fixed in build {}.", short_build(build)),
        (model::State::Regressed(build), _) => {
            format!(
                "It failed in build {}, which was to have it fixed.",
                short_build(build)
            )
        }
    }
}

const STOP: Act = Act {
    what: "stop",
    name: "Stop tracking",
    question: "Stop tracking this bug?",
    means: "Agents no longer watch for it from their next run on. What is known stays, and failures are still counted.",
    asks_build: false,
};
const RESUME: Act = Act {
    what: "resume",
    name: "Track again",
    question: "Track this bug again?",
    means: "Agents watch for it from their next run on, until the cause is clear.",
    asks_build: false,
};
const WIDEN: Act = Act {
    what: "widen",
    name: "Look wider",
    question: "Track twice as many statements?",
    means: "The search goes on further from the failure, whatever is known. Runs that are tracked take a little longer.",
    asks_build: false,
};
const FIXED: Act = Act {
    what: "fixed",
    name: "Mark as fixed",
    question: "Mark this bug as fixed?",
    means: "It is no longer tracked. If it fails in the build that has the fix, or in one seen after it, it comes back as regressed.",
    asks_build: true,
};

fn acts(state: &model::State, summary: &Summary) -> Vec<Act> {
    match (state, &summary.stopped) {
        (model::State::Tracking, None) | (model::State::Regressed(_), _) => vec![STOP, WIDEN, FIXED],
        (model::State::Tracking, Some(_)) => vec![WIDEN, FIXED],
        (model::State::Stopped, _) => vec![RESUME, FIXED],
        (model::State::Fixed(_), _) => vec![RESUME],
    }
}

fn builds(opened: &Opened, now: u64) -> Vec<Build> {
    let rows = opened.cases.iter().enumerate();
    let build = |(at, case): (usize, &CaseRow)| {
        let id = &case.case.build;
        Build {
            id: id.to_string(),
            short: short_build(id),
            address: address(&opened.bug.id, id),
            is_here: at == opened.here,
            note: match &opened.bug.state {
                model::State::Fixed(fixed) if fixed == id => "said to be fixed",
                model::State::Regressed(fixed) if fixed == id => "came back",
                _ => "",
            },
            failures: grouped(case.failures),
            runs: grouped(case.last_seq),
            first: Moment::new(case.first_seen, now),
            last: Moment::new(case.last_seen, now),
        }
    };
    rows.map(build).collect()
}

fn turns(course: &Course, now: u64) -> Vec<TurnRow> {
    let most = course
        .turns
        .iter()
        .map(|turn| turn.sigma)
        .max()
        .unwrap_or(1)
        .max(1);
    let mut before: Option<Option<&str>> = None;
    let mut rows = Vec::new();
    for turn in &course.turns {
        let best = turn.best.as_deref();
        rows.push(TurnRow {
            at: Moment::new(turn.at, now),
            seq: turn.seq,
            sigma: turn.sigma,
            share: (u64::from(turn.sigma) * 100 / u64::from(most)) as u32,
            failing: turn.failing,
            successful: turn.successful,
            best: super::shown::pieces(best.unwrap_or_default()),
            f: turn.f.map(|f| format!("{f:.2}")).unwrap_or_default(),
            is_new: before != Some(best),
        });
        before = Some(best);
    }
    rows
}

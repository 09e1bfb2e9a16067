//! Bugs and their sketches, for people and their tools.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use proto::v1;
use proto::v1::bug;
use proto::v1::bugs_server::Bugs;
use proto::v1::steer_request::What;
use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, async_trait};

use super::{House, build};
use crate::access::Identity;
use crate::clock::now;
use crate::desk::Summary;
use crate::store::model::{Audit, BugId, BugRow, CaseRow, Derived, State};

/// Bugs in one answer.
const MOST_BUGS: u32 = 1000;
/// What was steered, in one answer.
const MOST_AUDITS: u32 = 1000;
/// How often a bug may be widened: each time doubles what is tracked, and is gone through again by every server that opens it.
const MOST_WIDENED: u32 = 24;
/// How often whoever watches a bug is told of what other servers did.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// The service for people.
pub struct BugsService(pub House);

#[async_trait]
impl Bugs for BugsService {
    async fn list_bugs(
        &self,
        request: Request<v1::ListBugsRequest>,
    ) -> Result<Response<v1::ListBugsResponse>, Status> {
        let who = Identity::of(&request)?.clone();
        who.may_read_something()?;
        let said = request.into_inner();
        let program = Some(said.program.as_str()).filter(|name| !name.is_empty());
        let most = match said.limit {
            0 => MOST_BUGS,
            limit => limit.min(MOST_BUGS),
        };
        let rows = self.0.store.bugs(program, most).await;
        let mut bugs = Vec::new();
        for row in rows.map_err(|error| self.0.of_store(error))? {
            if who.may_read(&row.program).is_ok() {
                bugs.push(self.0.bug(row).await?);
            }
        }
        Ok(Response::new(v1::ListBugsResponse { bugs }))
    }

    async fn get_bug(&self, request: Request<v1::GetBugRequest>) -> Result<Response<v1::Bug>, Status> {
        let who = Identity::of(&request)?.clone();
        let row = self.0.readable(&who, &request.into_inner().bug).await?;
        Ok(Response::new(self.0.bug(row).await?))
    }

    async fn get_sketch(
        &self,
        request: Request<v1::GetSketchRequest>,
    ) -> Result<Response<v1::Sketch>, Status> {
        let who = Identity::of(&request)?.clone();
        let said = request.into_inner();
        let row = self.0.readable(&who, &said.bug).await?;
        let cases = self.0.cases(&row.id).await?;
        let case = match said.build_id.is_empty() {
            true => cases.first(),
            false => {
                let wanted = build(&said.build_id)?;
                cases.iter().find(|case| case.case.build == wanted)
            }
        };
        let derived = match case {
            Some(case) => self.0.derived(case).await?,
            None => None,
        };
        let derived = derived.ok_or_else(|| {
            Status::not_found(format!("there is no sketch of bug {} yet: try again", row.id))
        })?;
        Ok(Response::new(v1::Sketch {
            bug: row.id.0,
            revision: derived.seq,
            sketch: derived.sketch,
        }))
    }

    type WatchBugStream = Pin<Box<dyn Stream<Item = Result<v1::Bug, Status>> + Send>>;

    async fn watch_bug(
        &self,
        request: Request<v1::GetBugRequest>,
    ) -> Result<Response<Self::WatchBugStream>, Status> {
        let who = Identity::of(&request)?.clone();
        let bug = request.into_inner().bug;
        self.0.readable(&who, &bug).await?;
        let turn = self.0.watch(&who)?;
        let (bugs, shown) = mpsc::channel(1);
        let house = self.0.clone();
        let mut changes = house.room.changes();
        tokio::spawn(async move {
            let _turn = turn;
            let mut last = None;
            loop {
                let now = match house.readable(&who, &bug).await {
                    Ok(row) => house.bug(row).await,
                    Err(status) => Err(status),
                };
                let is_over = now.is_err();
                let news = now.as_ref().ok() != last.as_ref();
                last = now.as_ref().ok().cloned();
                if news && bugs.send(now).await.is_err() || is_over {
                    return;
                }
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { return },
                    () = house.drained() => return,
                    () = bugs.closed() => return,
                    // Another server may have changed it.
                    () = tokio::time::sleep(BETWEEN_LOOKS) => {}
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(shown))))
    }

    async fn steer(&self, request: Request<v1::SteerRequest>) -> Result<Response<v1::Bug>, Status> {
        let who = Identity::of(&request)?.clone();
        let said = request.into_inner();
        let what = said
            .what
            .ok_or_else(|| Status::invalid_argument("the request does not say what to do"))?;
        self.0.steer(&who, &said.bug, what).await?;
        let row = self.0.readable(&who, &said.bug).await?;
        Ok(Response::new(self.0.bug(row).await?))
    }

    async fn list_audit(
        &self,
        request: Request<v1::ListAuditRequest>,
    ) -> Result<Response<v1::ListAuditResponse>, Status> {
        let who = Identity::of(&request)?.clone();
        who.may_read_something()?;
        let said = request.into_inner();
        let most = match said.limit {
            0 => MOST_AUDITS,
            limit => limit.min(MOST_AUDITS),
        };
        let entries = self.0.audit(&who, &said.program, most).await?;
        Ok(Response::new(v1::ListAuditResponse { entries }))
    }
}

impl House {
    /// Has a bug treated differently, if somebody may.
    pub(crate) async fn steer(&self, who: &Identity, bug: &str, what: What) -> Result<(), Status> {
        let row = self.readable(who, bug).await?;
        who.may_steer(&row.program)?;
        let (state, widen, words) = match what {
            What::Stop(_) => (State::Stopped, 0, "stopped".to_owned()),
            What::Resume(_) => (State::Tracking, 0, "resumed".to_owned()),
            What::Widen(_) => {
                let widened = self.cases(&row.id).await?.first().map_or(0, |case| case.widened);
                if widened >= MOST_WIDENED {
                    return Err(Status::failed_precondition(format!(
                        "bug {} was widened {widened} times: no program has so many statements",
                        row.id
                    )));
                }
                (State::Tracking, 1, "widened".to_owned())
            }
            What::Fixed(fixed) => {
                let build = build(&fixed.build_id)?;
                let words = format!("marked as fixed in build {build}");
                (State::Fixed(build), 0, words)
            }
        };
        let audit = Audit {
            at: now(),
            who: who.name.clone(),
            bug: row.id.clone(),
            what: words,
        };
        let steered = self.store.steer(&row.id, state, widen, audit).await;
        steered.map_err(|error| self.of_store(error))?;
        for case in self.cases(&row.id).await? {
            let looked = self.room.look(&case.program, &case.case).await;
            looked.map_err(|error| self.of_desk(error))?;
        }
        Ok(())
    }

    /// A bug that somebody may read. Whoever may not learns no more than of one that is not there.
    async fn readable(&self, who: &Identity, bug: &str) -> Result<BugRow, Status> {
        who.may_read_something()?;
        let row = self.store.bug(&BugId(bug.to_owned())).await;
        let row = row.map_err(|error| self.of_store(error))?;
        row.filter(|row| who.may_read(&row.program).is_ok())
            .ok_or_else(|| Status::not_found(format!("there is no bug {bug} that {} may read", who.name)))
    }

    /// Who steered bugs of a program, or of any, that somebody may read. Of a bug that was forgotten nobody knows whose it was.
    async fn audit(&self, who: &Identity, program: &str, most: u32) -> Result<Vec<v1::AuditEntry>, Status> {
        let audits = self.store.audit(most).await;
        let audits = audits.map_err(|error| self.of_store(error))?;
        let mut programs: BTreeMap<BugId, Option<String>> = BTreeMap::new();
        let mut entries = Vec::new();
        for audit in audits {
            if !programs.contains_key(&audit.bug) {
                let row = self.store.bug(&audit.bug).await;
                let row = row.map_err(|error| self.of_store(error))?;
                programs.insert(audit.bug.clone(), row.map(|row| row.program));
            }
            let of = programs.get(&audit.bug).cloned().flatten();
            let readable = of.filter(|of| who.may_read(of).is_ok() && (program.is_empty() || program == of));
            if let Some(of) = readable {
                entries.push(v1::AuditEntry {
                    at: audit.at,
                    who: audit.who,
                    bug: audit.bug.0,
                    program: of,
                    what: audit.what,
                });
            }
        }
        Ok(entries)
    }

    pub(crate) async fn cases(&self, bug: &BugId) -> Result<Vec<CaseRow>, Status> {
        let cases = self.store.cases_of_bug(bug).await;
        cases.map_err(|error| self.of_store(error))
    }

    /// What is known of a case. If its log has more, somebody looks at it from now on: this server may have been started since, or
    /// another one have stored it.
    pub(crate) async fn derived(&self, case: &CaseRow) -> Result<Option<Derived>, Status> {
        let derived = self.store.derived(&case.case).await;
        let derived = derived.map_err(|error| self.of_store(error))?;
        if derived.as_ref().is_none_or(|derived| derived.seq < case.last_seq) {
            let looked = self.room.look(&case.program, &case.case).await;
            looked.map_err(|error| self.of_desk(error))?;
        }
        Ok(derived)
    }

    /// Looks at all logs that have more than is known of them: at the start of a server.
    pub(crate) async fn catch_up(&self) -> Result<(), Status> {
        let bugs = self.store.bugs(None, MOST_BUGS).await;
        for bug in bugs.map_err(|error| self.of_store(error))? {
            for case in self.cases(&bug.id).await? {
                self.derived(&case).await?;
            }
        }
        Ok(())
    }

    /// A bug as people see it.
    async fn bug(&self, row: BugRow) -> Result<v1::Bug, Status> {
        let cases = self.cases(&row.id).await?;
        let derived = match cases.first() {
            Some(case) => self.derived(case).await?,
            None => None,
        };
        let summary = derived
            .as_ref()
            .map(|derived| serde_json::from_slice(&derived.summary));
        let summary: Summary = summary.transpose().ok().flatten().unwrap_or_default();
        let state = shown_state(&row.state, &summary);
        let builds = cases.iter().map(|case| v1::Build {
            build_id: case.case.build.0.clone().into(),
            failures: case.failures,
            first_seen: case.first_seen,
            last_seen: case.last_seen,
        });
        Ok(v1::Bug {
            id: row.id.0,
            program: row.program,
            signature: row.signature,
            state: state.into(),
            first_seen: row.first_seen,
            last_seen: row.last_seen,
            builds: builds.collect(),
            failures: row.failures,
            runs: row.runs,
            recurrences: summary.recurrences,
            sigma: summary.sigma,
            best: summary.best.unwrap_or_default(),
            hosts: row.hosts,
            revision: derived.map_or(0, |derived| derived.seq),
            explained: Some(summary.clear),
        })
    }
}

/// The state of a bug as people see it: one that is tracked may have nothing more to be found out.
pub(crate) fn shown_state(state: &State, summary: &Summary) -> bug::State {
    match (state, &summary.stopped) {
        (State::Tracking, None) => bug::State::Tracking,
        (State::Tracking, Some(_)) => bug::State::Stable,
        (State::Stopped, _) => bug::State::Stopped,
        (State::Fixed(_), _) => bug::State::Fixed,
        (State::Regressed(_), _) => bug::State::Regressed,
    }
}

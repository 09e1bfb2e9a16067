//! Hosts, failures, plans and runs.

use std::pin::Pin;

use bytes::Bytes;
use diagnosis::tracking::ModuleName;
use program::BuildId;
use proto::v1;
use proto::v1::agents_server::Agents;
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt as _, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{House, build, id, part, path, program, refused};
use crate::access::Identity;
use crate::clock::now;
use crate::desk::Means;
use crate::json;
use crate::limits;
use crate::store::model::{Audit, Case, FailureSeen, HostRow, NewCase, State, debug_key};

/// A host that says nothing for so long is asked to say that it is there.
const AGAIN_SECONDS: u32 = 300;
/// Answers that wait for an agent to read them.
const WAITING: usize = 4;
/// Programs that are noted of a host, and bytes of what it says of itself.
const MOST_PROGRAMS: usize = 64;
const MOST_REGISTRATION: usize = 64 << 10;
/// Files of one process.
const MOST_MODULES: usize = 1024;

/// The service for agents.
pub struct AgentsService(pub House);

#[async_trait]
impl Agents for AgentsService {
    async fn register(
        &self,
        request: Request<v1::RegisterRequest>,
    ) -> Result<Response<v1::RegisterResponse>, Status> {
        let who = Identity::of(&request)?.clone();
        let mut said = request.into_inner();
        who.may_report_something()?;
        id("host", &said.host)?;
        for of in &said.programs {
            who.may_report(&of.name)?;
        }
        // A host that has run for long has run many builds: the first of them do for people who look at it.
        said.programs.truncate(MOST_PROGRAMS);
        let length = prost::Message::encoded_len(&said);
        if length > MOST_REGISTRATION {
            return Err(Status::invalid_argument(format!(
                "what a host says of itself has {length} bytes, and at most {MOST_REGISTRATION} are taken"
            )));
        }
        let row = HostRow {
            id: said.host.clone(),
            registration: Bytes::from(prost::Message::encode_to_vec(&said)),
            seen: now(),
        };
        let standing = self.0.store.host(row, &who.owner()).await;
        self.0.stands(&who, &said.host, standing)?;
        Ok(Response::new(v1::RegisterResponse {
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: proto::PROTOCOL,
            again_after_seconds: AGAIN_SECONDS,
        }))
    }

    async fn report_failure(
        &self,
        request: Request<v1::ReportFailureRequest>,
    ) -> Result<Response<v1::ReportFailureResponse>, Status> {
        let who = Identity::of(&request)?.clone();
        let said = request.into_inner();
        let (name, build) = program(said.program.clone())?;
        who.may_report(&name)?;
        id("host", &said.host)?;
        id("failure", &said.id)?;
        let report = limits::report(&said.report).map_err(refused)?;
        let modules = modules(&said.modules, &build)?;
        self.0.speaks_for(&who, &said.host).await?;
        let mut lacking = self.lacking(&name, &said.modules, &modules).await?;
        lacking.extend(
            self.lacking_debug_files(&name, &said.debug_files, &modules)
                .await?,
        );
        if !lacking.is_empty() {
            return Ok(Response::new(v1::ReportFailureResponse {
                lacking,
                ..Default::default()
            }));
        }
        let identified = self.0.room.identify(&build, &name, &modules, report).await;
        let identified = identified.map_err(|error| self.0.of_desk(error))?;
        let case = Case {
            bug: identified.bug,
            build,
        };
        let seen = FailureSeen {
            id: format!("{}/{}", said.host, said.id),
            host: said.host,
            at: now(),
            counted_for: None,
        };
        let new = NewCase {
            case: case.clone(),
            program: name.clone(),
            signature: identified.signature,
            modules: json(&modules),
            report: said.report,
            runs: said.runs.max(1),
            seen,
        };
        let is_new = self
            .0
            .store
            .open(new)
            .await
            .map_err(|error| self.0.of_store(error))?;
        self.0.metrics.failures.add(1);
        self.regressed(&case, is_new).await?;
        self.0
            .room
            .look(&name, &case)
            .await
            .map_err(|error| self.0.of_desk(error))?;
        Ok(Response::new(v1::ReportFailureResponse {
            bug: case.bug.0,
            is_new,
            lacking: Vec::new(),
        }))
    }

    type PlansStream = Pin<Box<dyn Stream<Item = Result<v1::Plan, Status>> + Send>>;

    async fn plans(
        &self,
        request: Request<Streaming<v1::PlanRequest>>,
    ) -> Result<Response<Self::PlansStream>, Status> {
        let who = Identity::of(&request)?.clone();
        let mut asked = request.into_inner();
        let (answers, answered) = mpsc::channel(WAITING);
        let house = self.0.clone();
        tokio::spawn(async move {
            let mut drained = std::pin::pin!(house.drained());
            loop {
                let request = tokio::select! {
                    request = asked.next() => request,
                    // The agent asks another server, or this one when it is back.
                    () = drained.as_mut() => return,
                };
                let Some(request) = request else { return };
                let plan = match request {
                    Ok(request) => plan(&house, &who, request).await,
                    Err(status) => Err(status),
                };
                let is_over = plan.is_err();
                if answers.send(plan).await.is_err() || is_over {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(answered))))
    }

    async fn report_runs(
        &self,
        request: Request<v1::ReportRunsRequest>,
    ) -> Result<Response<v1::ReportRunsResponse>, Status> {
        let who = Identity::of(&request)?.clone();
        let receipts = super::runs::take(&self.0, &who, request.into_inner()).await?;
        Ok(Response::new(v1::ReportRunsResponse { receipts }))
    }

    async fn upload_module(
        &self,
        request: Request<Streaming<v1::ModuleChunk>>,
    ) -> Result<Response<v1::UploadModuleResponse>, Status> {
        let who = Identity::of(&request)?.clone();
        who.may_report_something()?;
        let known = super::upload::take(&self.0, &who, request.into_inner()).await?;
        Ok(Response::new(v1::UploadModuleResponse { known }))
    }
}

impl AgentsService {
    /// Those of a process's files that were not uploaded yet.
    async fn lacking(
        &self,
        name: &str,
        said: &[v1::Module],
        modules: &[ModuleName],
    ) -> Result<Vec<v1::Module>, Status> {
        let builds: Vec<BuildId> = modules
            .iter()
            .filter_map(|module| module.build_id.clone())
            .collect();
        let known = self.known(name, &builds).await?;
        let lacking = modules.iter().filter_map(|module| module.build_id.as_ref());
        let lacking = lacking.filter(|build| !known.contains(build));
        let asked = lacking.filter_map(|build| said.iter().find(|said| said.build_id == build.0));
        Ok(asked.cloned().collect())
    }

    /// Those of a host's files with debug information that nobody has uploaded yet.
    async fn lacking_debug_files(
        &self,
        name: &str,
        said: &[v1::Module],
        modules: &[ModuleName],
    ) -> Result<Vec<v1::Module>, Status> {
        let builds: Vec<&BuildId> = modules
            .iter()
            .filter_map(|module| module.build_id.as_ref())
            .collect();
        let keyed = said.iter().take(2 * MOST_MODULES).filter_map(|file| {
            let part = part(file.part())?;
            let build = builds.iter().find(|build| build.0 == file.build_id)?;
            Some((debug_key(build, part), file))
        });
        let keyed: Vec<(BuildId, &v1::Module)> = keyed.collect();
        let keys: Vec<BuildId> = keyed.iter().map(|(key, _)| key.clone()).collect();
        let known = self.known(name, &keys).await?;
        let lacking = keyed.into_iter().filter(|(key, _)| !known.contains(key));
        Ok(lacking.map(|(_, file)| file.clone()).collect())
    }

    /// Those of some files of a program that somebody has uploaded who may report on it.
    async fn known(&self, name: &str, builds: &[BuildId]) -> Result<Vec<BuildId>, Status> {
        let known = self.0.store.modules_seen(builds, now()).await;
        let known = known.map_err(|error| self.0.of_store(error))?.into_iter();
        let known = known.filter(|row| row.programs.contain(name));
        Ok(known.map(|row| row.build).collect())
    }

    /// A bug that was said to be fixed fails again, in that build or in one that came after it.
    async fn regressed(&self, case: &Case, is_new: bool) -> Result<(), Status> {
        let store = &self.0.store;
        let bug = store
            .bug(&case.bug)
            .await
            .map_err(|error| self.0.of_store(error))?;
        let Some(State::Fixed(fixed)) = bug.map(|bug| bug.state) else {
            return Ok(());
        };
        if !is_new && fixed != case.build {
            return Ok(());
        }
        let audit = Audit {
            at: now(),
            who: "failsketch".to_owned(),
            bug: case.bug.clone(),
            what: format!("failed again in build {}", case.build),
        };
        let state = State::Regressed(case.build.clone());
        let steered = store.steer(&case.bug, state, 0, audit).await;
        steered.map_err(|error| self.0.of_store(error))
    }
}

async fn plan(house: &House, who: &Identity, request: v1::PlanRequest) -> Result<v1::Plan, Status> {
    let (name, build) = program(request.program)?;
    who.may_report(&name)?;
    let means = Means {
        registers: request.registers as usize,
        attached: request.attached,
    };
    let planned = house.room.plan(&name, &build, means).await;
    let Some(planned) = planned.map_err(|error| house.of_desk(error))? else {
        return Ok(v1::Plan::default());
    };
    house.metrics.plans.add(1);
    Ok(v1::Plan {
        bug: planned.bug.0,
        number: planned.number,
        sigma: planned.sigma,
        assignment: planned.assignment,
        data_flow: planned.mode.to_string(),
        without_control_flow: !planned.flow,
    })
}

/// The files of a process that can be known by their builds, the executable first.
fn modules(said: &[v1::Module], executable: &BuildId) -> Result<Vec<ModuleName>, Status> {
    if said.len() > MOST_MODULES {
        return Err(Status::invalid_argument(format!(
            "a process has at most {MOST_MODULES} files"
        )));
    }
    let named = |module: &v1::Module| -> Result<ModuleName, Status> {
        path(&module.path)?;
        Ok(ModuleName {
            path: module.path.clone(),
            build_id: Some(build(&module.build_id)?),
        })
    };
    let own = said.iter().find(|module| module.executable);
    let own = own.filter(|own| own.build_id == executable.0);
    let own = own.ok_or_else(|| {
        Status::invalid_argument(
            "the files of the process must have the executable, in the build that failed",
        )
    })?;
    let mut modules = vec![named(own)?];
    // What has no build-id cannot be told from other builds; the kernel's page has one, and is no file.
    let is_file = |module: &&v1::Module| module.path.starts_with('/') && !module.build_id.is_empty();
    let others = said.iter().filter(|module| !module.executable);
    for module in others.filter(is_file) {
        modules.push(named(module)?);
    }
    Ok(modules)
}

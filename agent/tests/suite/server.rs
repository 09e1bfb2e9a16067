//! A server that remembers what it got, and answers as a test wants it to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use proto::v1::agents_server::{Agents, AgentsServer};
use proto::v1::run_receipt::Outcome;
use proto::v1::{
    ModuleChunk, Plan, PlanRequest, RegisterRequest, RegisterResponse, ReportFailureRequest,
    ReportFailureResponse, ReportRunsRequest, ReportRunsResponse, Run, RunReceipt, UploadModuleResponse,
};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

/// Makes a plan for a failure, by the number of the run.
pub type MakePlan = Box<dyn Fn(&ReportFailureRequest, u64) -> Plan + Send>;

/// What it got, and how it is to answer.
#[derive(Default)]
pub struct State {
    pub registered: Vec<RegisterRequest>,
    pub failures: Vec<ReportFailureRequest>,
    /// Runs in the order in which they were stored, each once.
    pub runs: Vec<Run>,
    pub duplicates: u64,
    pub dropped: u64,
    /// The files that were uploaded, by build-id.
    pub modules: BTreeMap<Vec<u8>, Vec<u8>>,
    pub questions: Vec<PlanRequest>,
    /// It asks for files until it has them.
    pub wants_modules: bool,
    /// It asks for this file too, which nobody named.
    pub wants_too: Option<proto::v1::Module>,
    /// Answers to come, before anything else is answered.
    pub refusals: VecDeque<Status>,
    /// Uploads that are refused for the time being.
    pub busy_uploads: u64,
    /// Answers to `ReportRuns` are lost after so much was stored.
    pub lose_answers: u64,
    /// What there is to track: a plan for the n-th question.
    pub plan: Option<Box<dyn Fn(u64) -> Plan + Send>>,
    /// What there is to track as soon as a failure is known.
    pub plans_for_failure: Option<MakePlan>,
    /// It has no time for runs.
    pub takes_no_runs: bool,
    /// Streams of plans end after so many answers.
    pub answers_a_stream: Option<usize>,
    /// How long it thinks about each plan.
    pub thinks: Duration,
    /// Who may ask.
    pub token: Option<String>,
    /// It is older than `Plans`.
    pub without_plans: bool,
}

/// A handle on the server's memory, which outlives it.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<State>>);

impl Memory {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Waits until something is so; panics when it does not come to be.
    pub fn until(&self, what: &str, is_so: impl Fn(&State) -> bool) {
        let start = Instant::now();
        while !is_so(&self.lock()) {
            assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn admit<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let mut state = self.lock();
        if let Some(status) = state.refusals.pop_front() {
            return Err(status);
        }
        let Some(token) = &state.token else { return Ok(()) };
        let shown = request.metadata().get("authorization");
        let right = shown.is_some_and(|shown| shown == format!("Bearer {token}").as_str());
        if right {
            Ok(())
        } else {
            Err(Status::unauthenticated("who are you?"))
        }
    }
}

#[tonic::async_trait]
impl Agents for Memory {
    async fn register(
        &self,
        request: Request<RegisterRequest>,
    ) -> Result<Response<RegisterResponse>, Status> {
        self.admit(&request)?;
        self.lock().registered.push(request.into_inner());
        Ok(Response::new(RegisterResponse {
            protocol: proto::PROTOCOL,
            again_after_seconds: 60,
            ..RegisterResponse::default()
        }))
    }

    async fn report_failure(
        &self,
        request: Request<ReportFailureRequest>,
    ) -> Result<Response<ReportFailureResponse>, Status> {
        self.admit(&request)?;
        let request = request.into_inner();
        let mut state = self.lock();
        let mut lacking: Vec<_> = match state.wants_modules {
            true => request
                .modules
                .iter()
                .filter(|module| module.executable)
                .cloned()
                .collect(),
            false => Vec::new(),
        };
        lacking.retain(|module| !state.modules.contains_key(&module.build_id[..]));
        if !lacking.is_empty() {
            lacking.extend(state.wants_too.clone());
        }
        state.failures.push(request);
        let bug = if lacking.is_empty() { "bug-1" } else { "" };
        Ok(Response::new(ReportFailureResponse {
            bug: bug.to_owned(),
            is_new: true,
            lacking,
        }))
    }

    type PlansStream = ReceiverStream<Result<Plan, Status>>;

    async fn plans(
        &self,
        request: Request<Streaming<PlanRequest>>,
    ) -> Result<Response<Self::PlansStream>, Status> {
        self.admit(&request)?;
        if self.lock().without_plans {
            return Err(Status::unimplemented("never heard of it"));
        }
        let mut questions = request.into_inner();
        let (answer, answers) = tokio::sync::mpsc::channel(16);
        let memory = self.clone();
        tokio::spawn(async move {
            let mut answered = 0;
            while let Some(Ok(question)) = questions.next().await {
                let thinks = memory.lock().thinks;
                tokio::time::sleep(thinks).await;
                let plan = {
                    let mut state = memory.lock();
                    state.questions.push(question);
                    let number = state.questions.len() as u64;
                    if state.answers_a_stream.is_some_and(|most| answered >= most) {
                        return;
                    }
                    let made = state.plan.as_ref().map(|plan| plan(number));
                    let failure = state.failures.first();
                    let of_failure = state.plans_for_failure.as_ref().zip(failure);
                    let made = made.or_else(|| of_failure.map(|(plan, failure)| plan(failure, number)));
                    made.unwrap_or_default()
                };
                answered += 1;
                if answer.send(Ok(plan)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(answers)))
    }

    async fn report_runs(
        &self,
        request: Request<ReportRunsRequest>,
    ) -> Result<Response<ReportRunsResponse>, Status> {
        self.admit(&request)?;
        if self.lock().takes_no_runs {
            return Err(Status::resource_exhausted("no time"));
        }
        let request = request.into_inner();
        let mut state = self.lock();
        let mut known: BTreeSet<String> = state.runs.iter().map(|run| run.id.clone()).collect();
        let mut receipts = Vec::new();
        for run in request.runs {
            let (id, reason) = (run.id.clone(), String::new());
            let outcome = match run.bug.as_str() {
                "refused" => Outcome::Refused,
                _ if known.insert(id.clone()) => {
                    state.runs.push(run);
                    Outcome::Stored
                }
                _ => {
                    state.duplicates += 1;
                    Outcome::Duplicate
                }
            };
            let outcome = outcome.into();
            receipts.push(RunReceipt { id, outcome, reason });
        }
        if state.lose_answers > 0 {
            state.lose_answers -= 1;
            return Err(Status::unavailable("stored, but who knows?"));
        }
        state.dropped += request.dropped;
        Ok(Response::new(ReportRunsResponse { receipts }))
    }

    async fn upload_module(
        &self,
        request: Request<Streaming<ModuleChunk>>,
    ) -> Result<Response<UploadModuleResponse>, Status> {
        self.admit(&request)?;
        {
            let mut state = self.lock();
            if state.busy_uploads > 0 {
                state.busy_uploads -= 1;
                return Err(Status::resource_exhausted("too many files at once"));
            }
        }
        let mut pieces = request.into_inner();
        let (mut module, mut bytes) = (None, Vec::new());
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            assert!(piece.data.len() <= proto::CHUNK);
            module = module.or(piece.module);
            bytes.extend_from_slice(&piece.data);
        }
        let module = module.ok_or_else(|| Status::invalid_argument("of which module?"))?;
        let before = self.lock().modules.insert(module.build_id.to_vec(), bytes);
        Ok(Response::new(UploadModuleResponse {
            known: before.is_some(),
        }))
    }
}

/// A server that runs until it is dropped.
pub struct TestServer {
    pub memory: Memory,
    pub address: SocketAddr,
    runtime: Option<Runtime>,
}

impl TestServer {
    pub fn start() -> Self {
        Self::over(Memory::default(), None, None)
    }

    /// With this memory, at this port, with encryption.
    pub fn over(memory: Memory, port: Option<u16>, tls: Option<ServerTlsConfig>) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = std::net::TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let service = AgentsServer::new(memory.clone()).max_decoding_message_size(proto::MOST_MESSAGE);
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        runtime.spawn(async move {
            let incoming = TcpListenerStream::new(TcpListener::from_std(listener).unwrap());
            server.add_service(service).serve_with_incoming(incoming).await
        });
        Self {
            memory,
            address,
            runtime: Some(runtime),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it at once, connections included; gives its memory and its port. Not for a task of a runtime.
    pub fn kill(mut self) -> (Memory, u16) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
        (self.memory.clone(), self.address.port())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

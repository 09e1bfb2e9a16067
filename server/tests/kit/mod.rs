//! A small service behind the listener, and certificates of every kind.

#![allow(dead_code, reason = "each file of tests uses some of it")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;

use proto::v1::agents_client::AgentsClient;
use proto::v1::agents_server::{Agents, AgentsServer};
use proto::v1::bugs_client::BugsClient;
use proto::v1::bugs_server::{Bugs, BugsServer};
use proto::v1::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use server::access::Identity;
use server::access::listener::Listener;
use server::config::Config;
use tokio::sync::oneshot;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::{Certificate, Channel, ClientTlsConfig};
use tonic::{Request, Response, Status, Streaming};

/// Does nothing but ask who it is.
pub struct Nothing;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Bugs for Nothing {
    type WatchBugStream = Answers<Bug>;

    async fn list_bugs(
        &self,
        request: Request<ListBugsRequest>,
    ) -> Result<Response<ListBugsResponse>, Status> {
        Identity::of(&request)?.may_read(&request.get_ref().program)?;
        Ok(Response::new(Default::default()))
    }

    async fn get_bug(&self, request: Request<GetBugRequest>) -> Result<Response<Bug>, Status> {
        let who = Identity::of(&request)?;
        who.may_read(&request.get_ref().bug)?;
        Ok(Response::new(Bug {
            best: who.name.clone(),
            ..Bug::default()
        }))
    }

    async fn get_sketch(&self, _: Request<GetSketchRequest>) -> Result<Response<Sketch>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn watch_bug(&self, _: Request<GetBugRequest>) -> Result<Response<Self::WatchBugStream>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn steer(&self, request: Request<SteerRequest>) -> Result<Response<Bug>, Status> {
        Identity::of(&request)?.may_steer(&request.get_ref().bug)?;
        Ok(Response::new(Default::default()))
    }

    async fn list_audit(&self, _: Request<ListAuditRequest>) -> Result<Response<ListAuditResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

#[tonic::async_trait]
impl Agents for Nothing {
    type PlansStream = Answers<Plan>;

    async fn register(
        &self,
        request: Request<RegisterRequest>,
    ) -> Result<Response<RegisterResponse>, Status> {
        let who = Identity::of(&request)?;
        for program in &request.get_ref().programs {
            who.may_report(&program.name)?;
        }
        Ok(Response::new(Default::default()))
    }

    /// Takes its time.
    async fn report_failure(
        &self,
        request: Request<ReportFailureRequest>,
    ) -> Result<Response<ReportFailureResponse>, Status> {
        Identity::of(&request)?.may_report_something()?;
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        Ok(Response::new(Default::default()))
    }

    async fn plans(
        &self,
        request: Request<Streaming<PlanRequest>>,
    ) -> Result<Response<Self::PlansStream>, Status> {
        Identity::of(&request)?.may_report_something()?;
        let asked = request.into_inner();
        let plans = asked.map(|asked| asked.map(|_| Plan::default()));
        Ok(Response::new(Box::pin(plans)))
    }

    async fn report_runs(
        &self,
        request: Request<ReportRunsRequest>,
    ) -> Result<Response<ReportRunsResponse>, Status> {
        Identity::of(&request)?.may_report_something()?;
        Ok(Response::new(Default::default()))
    }

    async fn upload_module(
        &self,
        _: Request<Streaming<ModuleChunk>>,
    ) -> Result<Response<UploadModuleResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

/// A server, until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    ended: Option<tokio::task::JoinHandle<()>>,
}

impl Server {
    pub async fn start(config: &Config) -> Self {
        let listener = Listener::bind(config).await.unwrap();
        let address = listener.address();
        let agents = AgentsServer::new(Nothing).max_decoding_message_size(config.limits.message_bytes);
        let app = tonic::service::Routes::new(BugsServer::new(Nothing))
            .add_service(agents)
            .into_axum_router()
            .route(
                "/page",
                axum::routing::get(|who: Identity| async move { who.name }),
            )
            .route("/healthz", axum::routing::get(|| async { "ok" }))
            .route("/forgot", axum::routing::get(|| async { "nobody asked" }));
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(listener.serve(app, async move { _ = stopped.await }));
        Self {
            address,
            stop: Some(stop),
            ended: Some(ended),
        }
    }

    /// Ends it, as a signal would.
    pub async fn stop(mut self) {
        _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(ended) = self.ended.take() {
            ended.await.unwrap();
        }
    }

    pub async fn plain(&self) -> Channel {
        let url = format!("http://{}", self.address);
        Channel::from_shared(url).unwrap().connect().await.unwrap()
    }

    /// A channel with TLS, perhaps with a certificate of one's own.
    pub async fn secure(
        &self,
        ca: &str,
        own: Option<(&str, &str)>,
    ) -> Result<Channel, tonic::transport::Error> {
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(ca))
            .domain_name("localhost");
        if let Some((certificate, key)) = own {
            tls = tls.identity(tonic::transport::Identity::from_pem(certificate, key));
        }
        let url = format!("https://{}", self.address);
        Channel::from_shared(url)
            .unwrap()
            .tls_config(tls)?
            .connect()
            .await
    }
}

pub fn config() -> Config {
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        ..Config::default()
    }
}

/// Asks for a bug: who the server says it is.
pub async fn read(channel: Channel, token: Option<&str>, program: &str) -> Result<String, Status> {
    let request = with_token(GetBugRequest { bug: program.into() }, token);
    let bug = BugsClient::new(channel).get_bug(request).await?;
    Ok(bug.into_inner().best)
}

pub async fn steer(channel: Channel, token: Option<&str>, program: &str) -> Result<(), Status> {
    let request = SteerRequest {
        bug: program.into(),
        what: None,
    };
    BugsClient::new(channel).steer(with_token(request, token)).await?;
    Ok(())
}

pub async fn register(channel: Channel, token: Option<&str>, program: &str) -> Result<(), Status> {
    let program = Program {
        name: program.into(),
        ..Program::default()
    };
    let request = RegisterRequest {
        programs: vec![program],
        ..RegisterRequest::default()
    };
    AgentsClient::new(channel)
        .register(with_token(request, token))
        .await?;
    Ok(())
}

pub fn with_token<T>(message: T, token: Option<&str>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    request
}

/// An authority of a test's own.
pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate and its key, valid for so many days from now; before now if they are negative.
    pub fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose, days: i64) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let now = time::OffsetDateTime::now_utc();
        params.not_before = now - time::Duration::days(1000);
        params.not_after = now + time::Duration::days(days);
        (
            params.signed_by(&key, &self.issuer).unwrap().pem(),
            key.serialize_pem(),
        )
    }
}

pub fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

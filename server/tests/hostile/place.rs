//! Servers on one database, and agents with tokens.

use bytes::Bytes;
use failsketch_tests::folder::Folder;
use failsketch_tests::postgres::Postgres;
use failure::report::{Kind, Report, Source};
use proto::v1::agents_client::AgentsClient;
use proto::v1::{Program, RegisterRequest};
use server::access::Secret;
use server::config::{Config, Limits, Role, Token};
use server::serve::{self, Running};
use tokio::sync::oneshot;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// What everybody reports on.
pub const PROGRAM: &str = "compress";

/// A database and a folder for objects.
pub struct Place {
    pub folder: Folder,
    postgres: Option<Postgres>,
    pub limits: Limits,
}

/// Somebody with a token.
pub struct Agent {
    pub name: &'static str,
    pub secret: Secret,
}

/// A server, until it is dropped.
pub struct Server {
    running: Running,
    _stop: oneshot::Sender<()>,
}

impl Place {
    pub fn sqlite() -> Self {
        Self {
            folder: Folder::new("hostile"),
            postgres: None,
            limits: Limits::default(),
        }
    }

    pub fn postgres() -> Self {
        Self {
            postgres: Some(Postgres::start()),
            ..Self::sqlite()
        }
    }

    pub fn config(&self, agents: &[&Agent]) -> Config {
        let token = |agent: &&Agent| Token {
            name: agent.name.to_owned(),
            sha256: agent.secret.hash(),
            roles: vec![Role::Agent, Role::Read, Role::Steer],
            programs: vec![format!("{PROGRAM}*")],
        };
        let store = match &self.postgres {
            Some(postgres) => postgres.url(),
            None => format!("sqlite:{}", self.folder.path().join("store.db").display()),
        };
        Config {
            listen: ([127, 0, 0, 1], 0).into(),
            store,
            objects: self.folder.path().join("objects").into(),
            tokens: agents.iter().map(token).collect(),
            limits: self.limits.clone(),
            ..Config::default()
        }
    }

    /// One more server, which knows these agents.
    pub async fn server(&self, agents: &[&Agent]) -> Server {
        let (stop, stopped) = oneshot::channel();
        let until = async move { _ = stopped.await };
        Server {
            running: serve::start(self.config(agents), until).await.unwrap(),
            _stop: stop,
        }
    }
}

impl Agent {
    pub fn new(name: &'static str) -> Self {
        let secret = Secret::new().unwrap();
        Self { name, secret }
    }

    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let value = format!("Bearer {}", self.secret.text()).parse().unwrap();
        request.metadata_mut().insert("authorization", value);
        request
    }

    pub async fn register(&self, server: &Server, host: &str) -> Result<(), Status> {
        let said = RegisterRequest {
            host: host.to_owned(),
            hostname: format!("of {}", self.name),
            programs: vec![program()],
            ..RegisterRequest::default()
        };
        server.agents().await.register(self.request(said)).await?;
        Ok(())
    }
}

impl Server {
    pub async fn channel(&self) -> Channel {
        let channel = Channel::from_shared(self.url()).unwrap();
        channel.connect().await.unwrap()
    }

    pub async fn agents(&self) -> AgentsClient<Channel> {
        AgentsClient::new(self.channel().await)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.running.address)
    }

    /// A figure of its own.
    pub fn figure(&self, who: &Agent, name: &str) -> u64 {
        let authorization = format!("Bearer {}", who.secret.text());
        let asked = ureq::get(format!("{}/metrics", self.url())).header("authorization", authorization);
        let text = asked.call().unwrap().body_mut().read_to_string().unwrap();
        let start = format!("failsketch_{name}");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap().trim().parse().unwrap()
    }
}

/// A failure of which nothing is known but that it was one.
pub fn report() -> Bytes {
    let report = Report {
        source: Source::Live,
        kind: Kind::Abort,
        signal: None,
        message: None,
        sign: None,
        fault_address: None,
        program: None,
        build_id: None,
        threads: Vec::new(),
        failing: 0,
        notes: Vec::new(),
    };
    serde_json::to_vec(&report).unwrap().into()
}

pub fn program() -> Program {
    Program {
        name: PROGRAM.to_owned(),
        build_id: vec![1; 20].into(),
    }
}

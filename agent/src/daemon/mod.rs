//! An agent at work: programs run here and are watched as the server says, and what they did is reported.
//!
//! - `launch`: a command that is run again and again
//! - `attach`: a process that runs, in windows of time; `guard` waits for its failure, `observing` watches its memory, `window` makes
//!   a record of a window
//! - `follow`: processes as they come and go; `find` looks for them
//! - `ceiling`: what tracking costs, and what to turn off before that is too much
//! - `identity`: which program it is, in which build
//! - `assigned`: from a plan to what is tracked
//! - `report`: from what happened to what is sent
//! - `registration`: says that the host is there
//!
//! Threads that run programs are the operating system's own, because tracing belongs to such; they wait for the network only
//! between runs, and then not for long. Everything that goes over the network happens in a runtime beside them.

mod assigned;
mod attach;
mod ceiling;
mod find;
mod follow;
mod guard;
mod identity;
mod launch;
mod observing;
mod registration;
mod report;
mod window;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto::v1::PlanRequest;
use thiserror::Error;
use tokio::runtime::Builder;
use tracee::files::script::ScriptError;
use tracee::run::Cancel;
use tracee::{HostModules, Pid};

use crate::config::{Config, HostError, Job, host_id};
use crate::courier::Courier;
use crate::link::{AccessError, Backoff, Link, Planner, Planning};
use crate::spool::{Item, Spool, SpoolError};
use crate::tracked::TrackError;
use assigned::Assigned;
use identity::Identity;
pub use identity::IdentityError;
use registration::Registration;

/// How long a plan is waited for.
const PLAN_WITHIN: Duration = Duration::from_secs(2);
/// How long what is left is sent for when the agent ends. The rest waits on disk for the next one.
const FAREWELL: Duration = Duration::from_secs(5);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Why an agent cannot go on.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// There is no way to the server.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The host has no name.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Nothing can be kept until it is sent.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// Nobody can tell what a command executes.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The program cannot be told from others.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The process cannot be followed.
    #[error(transparent)]
    Attach(#[from] tracee::ptrace::TraceError),
    /// The program cannot be run.
    #[error(transparent)]
    Track(#[from] TrackError),
    /// The system refuses what every program needs.
    #[error("cannot start the agent")]
    System(#[source] io::Error),
}

/// What all that an agent does has in common.
pub(crate) struct Agent {
    pub(crate) config: Config,
    pub(crate) host: String,
    pub(crate) spool: Arc<Spool>,
    pub(crate) planner: Planner,
    pub(crate) registration: Arc<Registration>,
    pub(crate) modules: HostModules,
    /// Somebody wants this agent to end.
    pub(crate) asked: Cancel,
}

/// Does what the configuration says until that is done, or somebody asks to end.
///
/// # Errors
/// When it cannot be done at all. A server that is away is no reason.
pub fn run(config: Config, asked: &Cancel) -> Result<(), DaemonError> {
    let host = host_id(&config.host_id)?;
    let spool = Arc::new(Spool::open(&config.spool, config.spool_bytes)?);
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("network")
        .enable_all()
        .build()
        .map_err(DaemonError::System)?;
    let registration = Arc::new(Registration::new(&config, &host));
    let entered = runtime.enter();
    let link = Link::new(&config.access)?;
    let (planner, planning) = Planning::new(link.clone(), Backoff::default());
    runtime.spawn(planning.serve());
    runtime.spawn(Arc::clone(&registration).serve(link.clone()));
    let courier = Courier {
        link,
        spool: Arc::clone(&spool),
        host: host.clone(),
        backoff: Backoff::default(),
    };
    runtime.spawn(courier.serve());
    drop(entered);
    tracing::info!(host, server = config.access.server, "at work");
    let agent = Agent {
        config,
        host,
        spool: Arc::clone(&spool),
        planner,
        registration,
        modules: HostModules::of_this_host(),
        asked: asked.clone(),
    };
    let done = match &agent.config.job {
        Job::Launch(job) => launch::serve(&agent, job),
        Job::Attach(pid) => attach::serve(&agent, Pid(*pid)),
        Job::Follow(followed) => follow::serve(&agent, followed),
    };
    let leaving = Instant::now();
    while !spool.is_empty() && leaving.elapsed() < FAREWELL {
        std::thread::sleep(BETWEEN_LOOKS);
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
    tracing::info!(unsent = spool.len(), "at rest");
    done
}

impl Agent {
    /// What to track of a program now; `None` for nothing.
    fn assignment(&self, identity: &Identity, attached: bool) -> Option<Assigned> {
        let request = PlanRequest {
            host: self.host.clone(),
            program: Some(identity.program()),
            registers: self.config.registers,
            attached,
        };
        let plan = self.planner.ask(request, PLAN_WITHIN)?;
        Assigned::new(plan, identity, &self.config)
    }

    /// Has something sent. What cannot be kept is lost, and counted: the program goes on all the same.
    fn send(&self, item: io::Result<Item>) {
        let kept = item
            .map_err(|error| crate::causes(&error))
            .and_then(|item| self.spool.push(&item).map_err(|error| crate::causes(&error)));
        if let Err(error) = kept {
            tracing::error!(error, "cannot keep what is to be sent");
        }
    }
}

//! What agents and people can ask for, over gRPC.
//!
//! - [`agents`]: hosts, failures, plans; [`hosts`]: whose they are; [`runs`]: what they did; [`upload`]: files of programs
//! - [`bugs`]: bugs and their sketches, for people

pub mod agents;
pub mod bugs;
pub mod hosts;
pub mod runs;
mod upload;

use std::sync::Arc;

use program::BuildId;
use proto::v1;
use tokio::sync::watch;
use tonic::Status;
use tracee::Part;

use crate::access::Identity;
use crate::clock::now;
use crate::config::Limits;
use crate::desk::{DeskError, Room};
use crate::limits::{Refusal, Turn, Turns};
use crate::metrics::Metrics;
use crate::source_places::SourcePlaces;
use crate::store::model::NewObject;
use crate::store::objects::{Objects, Staged};
use crate::store::{Store, StoreError};
use hosts::Claims;
use runs::Known;

/// What all services have in common.
#[derive(Clone)]
pub struct House {
    /// What is known.
    pub store: Arc<dyn Store>,
    /// Files and large runs.
    pub objects: Arc<dyn Objects>,
    /// Builds at work.
    pub room: Arc<Room>,
    /// How much may be asked for.
    pub limits: Arc<Limits>,
    /// Whether it is asked over TLS.
    pub secure: bool,
    /// Where the text of source lines is.
    pub sources: Arc<SourcePlaces>,
    /// Cases that runs came for lately.
    pub known: Arc<Known>,
    /// Hosts that somebody spoke for lately.
    pub claims: Arc<Claims>,
    /// Files that are being uploaded.
    pub uploads: Arc<Turns>,
    /// Streams that are followed.
    pub watchers: Arc<Turns>,
    /// What was done.
    pub metrics: Arc<Metrics>,
    /// Whether the server is about to end: streams that would stay open end then.
    pub draining: watch::Receiver<bool>,
}

impl House {
    /// Ends when the server is about to.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut draining = self.draining.clone();
        async move {
            // A server that is gone is one that has ended.
            let _gone = draining.wait_for(|draining| *draining).await;
        }
    }

    /// Whoever follows what changes is asked for anew with each change: so many may.
    pub(crate) fn watch(&self, who: &Identity) -> Result<Turn, Status> {
        self.watchers.begin(who.owner(), self.limits.watchers, "watchers")
    }

    /// A question that the store has no answer for just now may be asked again.
    pub(crate) fn of_store(&self, error: StoreError) -> Status {
        let figure = match error {
            StoreError::Full { .. } | StoreError::TooManyBugs { .. } => &self.metrics.stored_refused,
            _ => &self.metrics.store_errors,
        };
        figure.add(1);
        tracing::warn!(%error, "the store has no answer");
        match error {
            StoreError::Unavailable(_) => Status::unavailable(error.to_string()),
            // Room comes with days, if at all: to wait for it is no use.
            StoreError::Full { .. } | StoreError::TooManyBugs { .. } => {
                Status::failed_precondition(error.to_string())
            }
            StoreError::Refused(_) => Status::invalid_argument(error.to_string()),
            StoreError::Newer { .. } | StoreError::Damaged(_) => Status::internal(error.to_string()),
        }
    }

    /// Keeps an object that somebody brought; gives its key. It is noted before, so that nobody takes it for one that nothing refers to.
    async fn keep(&self, who: &Identity, staged: Staged) -> Result<String, StoreError> {
        let whole = staged.whole().await?;
        let key = whole.key().to_owned();
        let object = NewObject {
            key: key.clone(),
            bytes: whole.bytes(),
            at: now(),
        };
        self.store.object(object, &who.owner()).await?;
        self.objects.keep(whole).await?;
        Ok(key)
    }

    pub(crate) fn of_desk(&self, error: DeskError) -> Status {
        match error {
            DeskError::Store(error) => self.of_store(error),
            DeskError::Program(_) | DeskError::Inquiry(_) => Status::invalid_argument(error.to_string()),
            DeskError::Damaged { .. } => Status::internal(error.to_string()),
            DeskError::Gone => Status::unavailable(error.to_string()),
        }
    }
}

fn refused(refusal: Refusal) -> Status {
    Status::invalid_argument(refusal.to_string())
}

/// A program that a message names, with the build that everything is about.
fn program(program: Option<v1::Program>) -> Result<(String, BuildId), Status> {
    const LONGEST_NAME: usize = 256;
    let program = program.ok_or_else(|| Status::invalid_argument("the message names no program"))?;
    let build = build(&program.build_id)?;
    if program.name.is_empty() || program.name.len() > LONGEST_NAME || program.name.contains(char::is_control)
    {
        return Err(Status::invalid_argument(format!(
            "a program's name has 1 to {LONGEST_NAME} bytes and no control characters"
        )));
    }
    Ok((program.name, build))
}

pub(crate) fn build(bytes: &[u8]) -> Result<BuildId, Status> {
    match bytes.len() {
        4..=64 => Ok(BuildId(bytes.to_vec())),
        length => Err(Status::invalid_argument(format!(
            "a build-id has 4 to 64 bytes, not {length}: build the program with -Wl,--build-id"
        ))),
    }
}

/// What a file has of another one's debug information; `None` for a file that was mapped itself.
fn part(said: v1::module::Part) -> Option<Part> {
    match said {
        v1::module::Part::File => None,
        v1::module::Part::Debug => Some(Part::Debug),
        v1::module::Part::Supplementary => Some(Part::Supplementary),
    }
}

/// Where a host has a file: it is stored, and shown to people.
fn path(path: &str) -> Result<(), Status> {
    const LONGEST: usize = 4096;
    match path.len() <= LONGEST && !path.contains(char::is_control) {
        true => Ok(()),
        false => Err(Status::invalid_argument(format!(
            "the path of a file has at most {LONGEST} bytes and no control characters"
        ))),
    }
}

/// An id that an agent chose.
fn id(what: &str, id: &str) -> Result<(), Status> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    match !id.is_empty() && id.len() <= 128 && id.chars().all(plain) {
        true => Ok(()),
        false => Err(Status::invalid_argument(format!(
            "the id of a {what} has 1 to 128 letters, digits and -_.:"
        ))),
    }
}

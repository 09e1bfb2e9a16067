//! A build of a program at work: its files, and its bugs under inquiry.
//!
//! A desk has a thread of its own, for an inquiry borrows the program and takes its time. What it knows it has from the log of
//! each case: another server's desk gets the same sketch from the same log, and so does this one after a restart.
//!
//! - [`files`]: the program, from what hosts uploaded
//! - [`held`]: one case, and what its log says; [`growth`]: how much that may be; [`course`]: how it was found out
//! - [`worker`]: the thread that has them all
//! - [`room`]: all desks of a server; [`lately`]: which of them stay

mod course;
mod files;
mod growth;
mod held;
mod lately;
mod room;
mod worker;

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use bytes::Bytes;
use diagnosis::inquiry::InquiryError;
use diagnosis::tracking::ModuleName;
use failure::Report;
use program::BuildId;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tracee::files::ProgramError;

use crate::store::model::BugId;
use crate::store::objects::Objects;
use crate::store::{Store, StoreError};
pub use course::{Course, Share, Turn};
pub use held::Summary;
pub use room::Room;
use worker::{Worker, refuse};

/// Why a desk has no answer.
#[derive(Clone, Debug, Error)]
pub enum DeskError {
    /// The store did not help.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The program cannot be read.
    #[error("the uploaded program cannot be used: {0}")]
    Program(#[from] Arc<ProgramError>),
    /// The report is not about the program.
    #[error(transparent)]
    Inquiry(#[from] Arc<InquiryError>),
    /// What is stored cannot be read.
    #[error("what was stored of bug {bug} cannot be read: {why}")]
    Damaged {
        /// Which bug.
        bug: BugId,
        /// What is wrong.
        why: String,
    },
    /// Its thread has ended.
    #[error("the inquiry was interrupted: try again")]
    Gone,
}

/// Which bug a failure is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identified {
    /// The bug.
    pub bug: BugId,
    /// Its signature in words.
    pub signature: String,
}

/// What a host can do for the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// Debug registers.
    pub registers: usize,
    /// The process runs already.
    pub attached: bool,
}

/// What a run is to track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// For which bug.
    pub bug: BugId,
    /// The number of the run.
    pub number: u64,
    /// How many statements that covers.
    pub sigma: u32,
    /// The assignment, as JSON.
    pub assignment: Bytes,
    /// How memory is watched.
    pub mode: watchpoint::Mode,
    /// Whether control flow is recorded.
    pub flow: bool,
}

type Answer<T> = oneshot::Sender<Result<T, DeskError>>;

enum Ask {
    Identify(Box<Report>, Answer<Identified>),
    Plan(Means, Answer<Option<Planned>>),
    /// A case was opened or steered, or has new entries.
    Look(BugId),
}

/// A way to a desk.
#[derive(Clone)]
pub struct Desk {
    asks: Sender<Ask>,
}

impl Desk {
    /// Which bug a failure is: one that is known, if it is evidently the same.
    ///
    /// # Errors
    /// When the report is not about the program.
    pub async fn identify(&self, report: Report) -> Result<Identified, DeskError> {
        self.ask(|answer| Ask::Identify(Box::new(report), answer)).await
    }

    /// What the next run of a host is to track, if there is anything.
    ///
    /// # Errors
    /// When logs cannot be read.
    pub async fn plan(&self, means: Means) -> Result<Option<Planned>, DeskError> {
        self.ask(|answer| Ask::Plan(means, answer)).await
    }

    /// Says that there is something new about a bug.
    ///
    /// # Errors
    /// When the desk is gone; whoever opens it again finds what is new.
    pub fn look(&self, bug: BugId) -> Result<(), DeskError> {
        self.asks.send(Ask::Look(bug)).map_err(|_| DeskError::Gone)
    }

    async fn ask<T>(&self, ask: impl FnOnce(Answer<T>) -> Ask) -> Result<T, DeskError> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(ask(answer)).map_err(|_| DeskError::Gone)?;
        answered.await.map_err(|_| DeskError::Gone)?
    }
}

/// What a desk works with.
#[derive(Clone)]
struct Shelf {
    store: Arc<dyn Store>,
    objects: Arc<dyn Objects>,
    handle: Handle,
    /// Counts what changed, for whoever shows it.
    changes: watch::Sender<u64>,
}

impl Shelf {
    /// Says that something changed.
    fn tell(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }
}

/// Sets up a desk for a build. Its thread opens the program; questions wait for that.
fn set_up(shelf: Shelf, build: BuildId, name: String, modules: Vec<ModuleName>) -> std::io::Result<Desk> {
    let (asks, asked) = channel();
    std::thread::Builder::new()
        .name(format!("desk {name}"))
        .spawn(move || {
            let files = files::ProgramFiles::default();
            let opened = shelf.handle.block_on(files::places(&shelf, &name, &modules));
            let opened = opened.and_then(|places| {
                let program = files.program_from(files::named(&modules, &places));
                Ok(program.map_err(Arc::new)?)
            });
            match opened {
                Ok(program) => Worker::new(shelf, build, name, modules, &program).serve(&asked),
                Err(error) => refuse(&asked, &name, &error),
            }
        })?;
    Ok(Desk { asks })
}

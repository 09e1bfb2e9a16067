//! A build of a program at work: its files, and its bugs under inquiry.
//!
//! A desk has a thread of its own, for an inquiry borrows the program and takes its time. What it knows it has from the log of
//! each case: another server's desk gets the same sketch from the same log, and so does this one after a restart.
//!
//! - [`files`]: the program, from what hosts uploaded
//! - [`held`]: one case, and what its log says
//! - [`room`]: all desks of a server

mod files;
mod held;
mod room;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use diagnosis::inquiry::InquiryError;
use diagnosis::tracking::ModuleName;
use failure::{Likeness, Report, resolve};
use program::{BuildId, Program};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tracee::files::ProgramError;

use crate::json;
use crate::store::model::{BugId, Case, CaseRow, FailureSeen, NewCase};
use crate::store::objects::Objects;
use crate::store::{Store, StoreError};
use held::Held;
pub use held::Summary;
pub use room::Room;

/// How long a desk waits for questions before it looks whether other servers have stored something.
const LOOK: Duration = Duration::from_secs(1);
/// A log is looked at before a plan is made if that was so long ago: another server may have stored runs.
const FRESH: Duration = Duration::from_millis(300);
/// Nobody has asked for so long: the thread ends, and begins again from the logs when somebody does.
const IDLE: Duration = Duration::from_secs(600);

/// Why a desk has no answer.
#[derive(Debug, Error)]
pub enum DeskError {
    /// The store did not help.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The program cannot be read.
    #[error("the uploaded program cannot be used: {0}")]
    Program(#[from] ProgramError),
    /// The report is not about the program.
    #[error(transparent)]
    Inquiry(#[from] InquiryError),
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
            let opened = shelf.handle.block_on(files::paths(&shelf, &modules));
            let opened = opened.and_then(|paths| Ok(files.program_from(files::named(&modules, &paths))?));
            match opened {
                Ok(program) => Worker::new(shelf, build, name, modules, &program).serve(&asked),
                Err(error) => refuse(&asked, &error.to_string()),
            }
        })?;
    Ok(Desk { asks })
}

/// Tells everybody who asks that there is no program.
fn refuse(asked: &Receiver<Ask>, why: &str) {
    tracing::warn!(why, "a program cannot be opened");
    while let Ok(ask) = asked.try_recv() {
        let damaged = || DeskError::Damaged {
            bug: BugId(String::new()),
            why: why.to_owned(),
        };
        match ask {
            Ask::Identify(_, answer) => drop(answer.send(Err(damaged()))),
            Ask::Plan(_, answer) => drop(answer.send(Err(damaged()))),
            Ask::Look(_) => {}
        }
    }
}

/// The thread of a desk.
struct Worker<'p, 'a> {
    shelf: Shelf,
    build: BuildId,
    name: String,
    modules: Vec<ModuleName>,
    program: &'p Program<'a>,
    held: BTreeMap<BugId, Held<'p, 'a>>,
    looked: Option<Instant>,
    /// Plans that were given out: bugs take turns.
    turns: u64,
}

impl<'p, 'a> Worker<'p, 'a> {
    fn new(
        shelf: Shelf,
        build: BuildId,
        name: String,
        modules: Vec<ModuleName>,
        program: &'p Program<'a>,
    ) -> Self {
        Self {
            shelf,
            build,
            name,
            modules,
            program,
            held: BTreeMap::new(),
            looked: None,
            turns: 0,
        }
    }

    fn serve(mut self, asked: &Receiver<Ask>) {
        let mut last_asked = Instant::now();
        loop {
            let ask = match asked.recv_timeout(LOOK) {
                Ok(ask) => ask,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if last_asked.elapsed() >= IDLE => return,
                Err(RecvTimeoutError::Timeout) => {
                    self.tell(|worker| worker.look_at_all());
                    continue;
                }
            };
            last_asked = Instant::now();
            match ask {
                Ask::Identify(report, answer) => drop(answer.send(self.identify(&report))),
                Ask::Plan(means, answer) => drop(answer.send(self.plan(means))),
                Ask::Look(bug) => self.tell(|worker| worker.look_at(&bug)),
            }
        }
    }

    fn tell(&mut self, act: impl FnOnce(&mut Self) -> Result<(), DeskError>) {
        if let Err(error) = act(self) {
            tracing::warn!(program = self.name, %error, "a log was not taken in");
        }
    }

    fn identify(&mut self, report: &Report) -> Result<Identified, DeskError> {
        self.look_at_all()?;
        let failure = resolve(report, self.program).map_err(InquiryError::from)?;
        let likeness = Likeness::of(&failure, self.program);
        let known = self.held.iter().find(|(_, held)| held.is_like(&likeness));
        Ok(match known {
            Some((bug, held)) => Identified {
                bug: bug.clone(),
                signature: held.signature(),
            },
            None => Identified {
                bug: BugId::of(&self.name, likeness.signature()),
                signature: likeness.signature().to_string(),
            },
        })
    }

    fn plan(&mut self, means: Means) -> Result<Option<Planned>, DeskError> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= FRESH) {
            self.look_at_all()?;
        }
        let open: Vec<BugId> = self
            .held
            .iter()
            .filter(|(_, held)| held.is_tracked())
            .map(|(bug, _)| bug.clone())
            .collect();
        if open.is_empty() {
            return Ok(None);
        }
        self.turns += 1;
        let turn = usize::try_from(self.turns).unwrap_or(0) % open.len();
        let held = self.held.get_mut(&open[turn]);
        Ok(held.map(|held| held.plan(open[turn].clone(), means)))
    }

    /// Takes in what is new of all cases of the build.
    fn look_at_all(&mut self) -> Result<(), DeskError> {
        let cases = self
            .shelf
            .handle
            .block_on(self.shelf.store.cases_of_build(&self.build))?;
        for row in cases {
            self.take_in(&row)?;
        }
        self.looked = Some(Instant::now());
        Ok(())
    }

    fn look_at(&mut self, bug: &BugId) -> Result<(), DeskError> {
        let case = Case {
            bug: bug.clone(),
            build: self.build.clone(),
        };
        match self.shelf.handle.block_on(self.shelf.store.case(&case))? {
            Some(row) => self.take_in(&row),
            None => Ok(()),
        }
    }

    fn take_in(&mut self, row: &CaseRow) -> Result<(), DeskError> {
        let bug = &row.case.bug;
        if !self.held.contains_key(bug) {
            self.held.insert(bug.clone(), Held::open(self.program, row)?);
        }
        let Some(held) = self.held.get_mut(bug) else {
            return Ok(());
        };
        let new = held.take_in(row, &self.shelf)?;
        for (report, run) in new.others {
            self.open_other(report, run)?;
        }
        if new.changed {
            self.shelf.tell();
        }
        Ok(())
    }

    /// A tracked run failed in another way: another bug.
    fn open_other(&mut self, report: Report, seen: FailureSeen) -> Result<(), DeskError> {
        let failure = resolve(&report, self.program).map_err(InquiryError::from)?;
        let likeness = Likeness::of(&failure, self.program);
        let case = |bug: BugId| Case {
            bug,
            build: self.build.clone(),
        };
        let known = self.held.iter().find(|(_, held)| held.is_like(&likeness));
        if let Some((bug, _)) = known {
            let case = case(bug.clone());
            self.shelf.handle.block_on(self.shelf.store.failed(&case, seen))?;
            return Ok(());
        }
        let new = NewCase {
            case: case(BugId::of(&self.name, likeness.signature())),
            program: self.name.clone(),
            signature: likeness.signature().to_string(),
            modules: json(&self.modules),
            report: json(&report),
            runs: 1,
            seen,
        };
        self.shelf.handle.block_on(self.shelf.store.open(new))?;
        Ok(())
    }
}

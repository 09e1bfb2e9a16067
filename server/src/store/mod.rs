//! What the service knows, on disk.
//!
//! Everything about a bug in one build (a [`Case`]) is a log: the failure that opened it, then runs, in the order in which they
//! were stored. Whoever reads the log gets the same sketch from it, so servers need not talk to each other: the database
//! gives each entry its number, and each server takes in what it has not seen. What is derived (the sketch, the state of a
//! search) is kept beside the log with the number of the last entry that it knows, and never overwritten by something that knows less.
//!
//! - [`model`]: what is stored
//! - `sql`: SQLite and PostgreSQL
//! - [`objects`]: modules and large runs, as files or in an S3-compatible store

pub mod model;
pub mod objects;
mod sql;

pub use sql::{open, open_within};

use bytes::Bytes;
use program::BuildId;
use thiserror::Error;
use tonic::async_trait;

use objects::Objects;

use model::{
    Appended, Audit, BugId, BugRow, Case, CaseRow, Derived, FailureSeen, HostRow, HourOf, ModuleRow, NewCase,
    NewObject, NewRun, Overview, Owner, Retention, Retired, RunRow, Standing, State, StoredRun,
};

/// Why the store did not do what it was asked for.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// It may work later: the database is away, busy or out of space.
    #[error("the store cannot be used just now ({0}): try again")]
    Unavailable(String),
    /// It was written by a newer failsketch.
    #[error(
        "the store is of version {found}, and this failsketch knows up to {known}: run the newer failsketch, or give another store"
    )]
    Newer {
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// What is in it cannot be read.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// Somebody has stored as much as he may.
    #[error(
        "{bytes} bytes more are too much: {most} are kept of what one credential brought, `{owner}` here (`limits.stored_bytes`). \
         What no bug and no host is about any more is given back by itself, after `retention.bug_days`"
    )]
    Full {
        /// Who.
        owner: Owner,
        /// What he wants to store.
        bytes: u64,
        /// What he may have stored.
        most: u64,
    },
    /// Somebody's hosts have reported as many bugs as they may.
    #[error(
        "hosts of {owner} have reported {most} bugs in build {build}, and may report no more (`limits.bugs`)"
    )]
    TooManyBugs {
        /// Who.
        owner: Owner,
        /// In which build.
        build: BuildId,
        /// How many may be.
        most: u64,
    },
    /// It never will: there is no such case or bug, or what was given cannot be stored.
    #[error("the store does not take this: {0}")]
    Refused(String),
}

impl From<objects::ObjectError> for StoreError {
    fn from(error: objects::ObjectError) -> Self {
        use objects::ObjectError::{Damaged, Missing, TooLarge, Unavailable};
        match error {
            Unavailable(_) => Self::Unavailable(error.to_string()),
            TooLarge { .. } => Self::Refused(error.to_string()),
            Missing(_) | Damaged(_) => Self::Damaged(error.to_string()),
        }
    }
}

impl StoreError {
    fn no_case(case: &Case) -> Self {
        Self::Refused(format!("there is no bug {} in build {}", case.bug, case.build))
    }
}

/// Where everything is kept. Whatever a method returned `Ok` for is there after the server, or the database, was killed.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Notes a host, or that it is still there. It stays whose it was when it was first heard of.
    async fn host(&self, host: HostRow, owner: &Owner) -> Result<Standing, StoreError>;
    /// Whether somebody may speak for a host. It is his if nobody has spoken for it before.
    async fn claim(&self, host: &str, owner: &Owner, at: u64) -> Result<Standing, StoreError>;
    /// Has a host be whose it is that speaks for it next. Says whether it was somebody's.
    async fn release(&self, host: &str) -> Result<bool, StoreError>;
    /// How many hosts there are.
    async fn host_count(&self) -> Result<u64, StoreError>;
    /// All hosts, by their ids.
    async fn hosts(&self) -> Result<Vec<HostRow>, StoreError>;

    /// Opens a case with the failure that it begins with, unless it is open; counts the failure once by its id. Says whether
    /// the case is new.
    async fn open(&self, case: NewCase) -> Result<bool, StoreError>;
    /// Counts a failure of a case that is open, once by its id. Says whether it was new.
    async fn failed(&self, case: &Case, seen: FailureSeen) -> Result<bool, StoreError>;
    /// Stores runs of a case, in one transaction, each once by its id. Those that failed count as failures of the case, until they turn out to
    /// be of another.
    async fn append(&self, case: &Case, runs: Vec<NewRun>) -> Result<Vec<Appended>, StoreError>;
    /// The next entries of a log after one, in order, at most so many.
    async fn runs_after(&self, case: &Case, seq: u64, most: u32) -> Result<Vec<StoredRun>, StoreError>;

    /// One case.
    async fn case(&self, case: &Case) -> Result<Option<CaseRow>, StoreError>;
    /// The cases of a program in one build, oldest first: what hosts that run it may be asked to track.
    async fn cases_of_build(&self, program: &str, build: &BuildId) -> Result<Vec<CaseRow>, StoreError>;
    /// Keeps what was derived from a log, unless what is there knows more. Says whether it was kept.
    async fn derive(&self, case: &Case, derived: Derived) -> Result<bool, StoreError>;
    /// What was derived last.
    async fn derived(&self, case: &Case) -> Result<Option<Derived>, StoreError>;

    /// Bugs, the last seen first; of one program if that is given.
    async fn bugs(&self, program: Option<&str>, most: u32) -> Result<Vec<BugRow>, StoreError>;
    /// One bug.
    async fn bug(&self, bug: &BugId) -> Result<Option<BugRow>, StoreError>;
    /// The cases of a bug, the one that was active last first.
    async fn cases_of_bug(&self, bug: &BugId) -> Result<Vec<CaseRow>, StoreError>;
    /// Changes the state of a bug, widens it so many times more, and notes who did, in one transaction.
    async fn steer(&self, bug: &BugId, state: State, widen: u32, audit: Audit) -> Result<(), StoreError>;
    /// Who steered, the latest first.
    async fn audit(&self, most: u32) -> Result<Vec<Audit>, StoreError>;

    /// Notes an object that is about to be stored: after that and not before it, for what was there before may just be removed. Whoever
    /// refers to an object that is gone is told to store it again. It counts for whoever brought it first, until it is removed.
    async fn object(&self, object: NewObject, owner: &Owner) -> Result<(), StoreError>;
    /// How many bytes are stored for somebody.
    async fn holding(&self, owner: &Owner) -> Result<u64, StoreError>;
    /// Removes objects that nothing refers to and nobody has meant to since then. Says how many.
    async fn remove_objects(&self, objects: &dyn Objects, before: u64) -> Result<u64, StoreError>;
    /// Notes a module whose bytes are in the object store. It counts for whoever brought it, too, for many may be of one content.
    async fn module(&self, module: ModuleRow, owner: &Owner) -> Result<(), StoreError>;
    /// Which of some modules are known, for whichever programs.
    async fn modules(&self, builds: &[BuildId]) -> Result<Vec<ModuleRow>, StoreError>;
    /// The same for modules that a host has at this time: they are not forgotten for a while.
    async fn modules_seen(&self, builds: &[BuildId], at: u64) -> Result<Vec<ModuleRow>, StoreError>;

    /// Forgets what is older, or more, than is to be kept; objects are removed apart. Says what is gone. The ids of runs stay as
    /// long as their bug, so that none is counted twice.
    async fn retire(&self, retention: Retention, now: u64) -> Result<Retired, StoreError>;
    /// Bugs with these words in what they are found by, the last seen first, with how the search stands.
    async fn overview(&self, words: &[String], most: u32) -> Result<Vec<Overview>, StoreError>;
    /// One bug of these.
    async fn overview_of(&self, bug: &BugId) -> Result<Option<Overview>, StoreError>;
    /// Failures of bugs by the hour, from one on.
    async fn trend(&self, bugs: &[BugId], from_hour: u64) -> Result<Vec<HourOf>, StoreError>;
    /// How many hosts reported on each of some bugs.
    async fn reporters(&self, bugs: &[BugId]) -> Result<Vec<(BugId, u64)>, StoreError>;
    /// Hosts by their ids, as far as they are known.
    async fn hosts_named(&self, ids: &[String]) -> Result<Vec<HostRow>, StoreError>;
    /// Entries of a log by their numbers, without what they say.
    async fn runs_numbered(&self, case: &Case, seqs: &[u64]) -> Result<Vec<RunRow>, StoreError>;
    /// Who steered a bug, the latest first.
    async fn audit_of(&self, bug: &BugId, most: u32) -> Result<Vec<Audit>, StoreError>;

    /// Whether the store answers.
    async fn ping(&self) -> Result<(), StoreError>;
}

/// Bytes that are kept in the log itself; larger runs are objects.
pub const MOST_INLINE: usize = 64 << 10;

/// A run's record, wherever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// In the log.
    Inline(Bytes),
    /// In the object store, by its key.
    Object(String),
}

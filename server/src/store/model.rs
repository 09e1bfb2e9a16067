//! What is stored.

use std::fmt;

use bytes::Bytes;
use failure::Signature;
use program::BuildId;
use tracee::Part;

use super::Body;
use crate::access::Programs;
use crate::config::Limits;

/// A bug: a program's name and a signature, the same in all its builds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BugId(pub String);

impl BugId {
    /// The bug of a program with this signature: sixteen hexadecimal digits, the same on every server.
    #[must_use]
    pub fn of(program: &str, signature: &Signature) -> Self {
        Self(signature.id_in(program))
    }
}

impl fmt::Display for BugId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A bug in one build of its program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Case {
    /// The bug.
    pub bug: BugId,
    /// The build.
    pub build: BuildId,
}

/// What is done about a bug.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum State {
    /// It is tracked until its sketch is stable.
    #[default]
    Tracking,
    /// Somebody stopped it.
    Stopped,
    /// It is said to be fixed in this build, and in builds that are seen after it.
    Fixed(BuildId),
    /// It failed in a build that was to have it fixed.
    Regressed(BuildId),
}

impl State {
    /// As the store writes it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tracking => "tracking",
            Self::Stopped => "stopped",
            Self::Fixed(_) => "fixed",
            Self::Regressed(_) => "regressed",
        }
    }
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRow {
    /// What it calls itself.
    pub id: String,
    /// What it said about itself: the `RegisterRequest`, encoded.
    pub registration: Bytes,
    /// When it said so last, in seconds since 1970.
    pub seen: u64,
}

/// Whoever is known by a credential, as the store tells him from others. A credential that was renewed under the same name is the
/// same one's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub String);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What each owner may have stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Bytes of files, large runs and what bugs were opened with.
    pub bytes: u64,
    /// Hosts.
    pub hosts: u64,
    /// Bugs in one build of a program.
    pub bugs: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self::from(&Limits::default())
    }
}

impl From<&Limits> for Quotas {
    fn from(limits: &Limits) -> Self {
        Self {
            bytes: limits.stored_bytes,
            hosts: limits.hosts,
            bugs: limits.bugs,
        }
    }
}

/// Whether somebody may speak for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is his.
    Own,
    /// It is somebody else's.
    Taken,
    /// It would be his, but he has as many as he may.
    TooMany,
}

/// A case to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCase {
    /// Which one.
    pub case: Case,
    /// The program's name.
    pub program: String,
    /// The signature in words.
    pub signature: String,
    /// The files of the failing process, as JSON.
    pub modules: Bytes,
    /// The report, as JSON.
    pub report: Bytes,
    /// Runs until the failure, with it.
    pub runs: u64,
    /// The failure.
    pub seen: FailureSeen,
}

/// A failure that somebody saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureSeen {
    /// The reporter's id for it.
    pub id: String,
    /// The host.
    pub host: String,
    /// When, in seconds since 1970.
    pub at: u64,
    /// The case whose run it was, if it turned out to be of another: there it counts no more.
    pub counted_for: Option<Case>,
}

/// A run to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The reporter's id for it.
    pub id: String,
    /// The host.
    pub host: String,
    /// When it came, in seconds since 1970.
    pub at: u64,
    /// Whether it failed.
    pub failed: bool,
    /// Its record, as JSON.
    pub body: Body,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is the log's entry with this number, from 1.
    Stored(u64),
    /// It was there before.
    Duplicate,
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    /// Its number, from 1.
    pub seq: u64,
    /// The reporter's id for it.
    pub id: String,
    /// The host.
    pub host: String,
    /// Whose that was when it first reported on the case, if anybody had spoken for it.
    pub owner: Option<Owner>,
    /// When it came.
    pub at: u64,
    /// Its record.
    pub body: Body,
}

/// What is known of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseRow {
    /// Which one.
    pub case: Case,
    /// The program's name.
    pub program: String,
    /// The state of its bug.
    pub state: State,
    /// How often somebody asked for twice as many statements.
    pub widened: u32,
    /// The files of the failing process, as JSON.
    pub modules: Bytes,
    /// The report that it was opened with, as JSON.
    pub report: Bytes,
    /// Runs until that failure, with it.
    pub runs_until: u64,
    /// The last entry of its log.
    pub last_seq: u64,
    /// Entries that were forgotten by age or number: the log begins after this one.
    pub retired_seq: u64,
    /// Failures that were reported, tracked or not.
    pub failures: u64,
    /// First and last failure, in seconds since 1970.
    pub first_seen: u64,
    /// The last one.
    pub last_seen: u64,
}

/// A bug with what its cases have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BugRow {
    /// Which one.
    pub id: BugId,
    /// The program's name.
    pub program: String,
    /// The signature in words.
    pub signature: String,
    /// What is done about it.
    pub state: State,
    /// First failure, in seconds since 1970.
    pub first_seen: u64,
    /// Last failure.
    pub last_seen: u64,
    /// Failures that were reported, tracked or not.
    pub failures: u64,
    /// Tracked runs.
    pub runs: u64,
    /// Hosts that reported on it.
    pub hosts: u64,
}

/// What follows from a log up to an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// The last entry that is in it.
    pub seq: u64,
    /// How the bug was steered when it was derived: with more of that, it is newer.
    pub widened: u32,
    /// The sketch, as JSON.
    pub sketch: Bytes,
    /// How the search stands, as JSON.
    pub summary: Bytes,
    /// How it went, as JSON; nothing if that was derived before anybody wrote it down.
    pub course: Option<Bytes>,
    /// What the bug is found by, besides its program and its signature.
    pub words: String,
}

/// A bug as lists have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// Which one.
    pub id: BugId,
    /// The program's name.
    pub program: String,
    /// The signature in words.
    pub signature: String,
    /// What is done about it.
    pub state: State,
    /// How often somebody asked for twice as many statements.
    pub widened: u32,
    /// First failure, in seconds since 1970.
    pub first_seen: u64,
    /// Last failure.
    pub last_seen: u64,
    /// Failures that were reported, tracked or not.
    pub failures: u64,
    /// Tracked runs.
    pub runs: u64,
    /// Builds that it was seen in.
    pub builds: u64,
    /// The build that it was active in last.
    pub build: BuildId,
    /// The last entry that the sketch of that build knows.
    pub seq: u64,
    /// How the search stands in it, as JSON, if there is anything.
    pub summary: Option<Bytes>,
}

/// Failures of a bug in one hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourOf {
    /// Which bug.
    pub bug: BugId,
    /// The hour, counted from 1970.
    pub hour: u64,
    /// How many.
    pub failures: u64,
}

/// An entry of a log without what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Its number, from 1.
    pub seq: u64,
    /// The reporter's id for it.
    pub id: String,
    /// The host.
    pub host: String,
    /// When it came.
    pub at: u64,
    /// Its record is still there.
    pub is_kept: bool,
}

/// Somebody steered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// When, in seconds since 1970.
    pub at: u64,
    /// Who.
    pub who: String,
    /// What about.
    pub bug: BugId,
    /// What they did, in words.
    pub what: String,
}

/// An object that is about to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewObject {
    /// Its key.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// A file of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleRow {
    /// What tells it from others.
    pub build: BuildId,
    /// The programs that whoever uploaded it may report on: it is believed to be that build for these.
    pub programs: Programs,
    /// Where some host had it.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its key in the object store.
    pub object: String,
    /// When some host was last seen to have it, in seconds since 1970.
    pub seen: u64,
}

/// What there may be of debug information beside a module.
pub const PARTS: [Part; 2] = [Part::Debug, Part::Supplementary];

/// What a file with debug information is kept under: as a module of its own, with an id that no build has, so that it comes and goes
/// with the module that it is about.
#[must_use]
pub fn debug_key(build: &BuildId, part: Part) -> BuildId {
    let ending: &[u8] = match part {
        Part::Debug => b".debug",
        Part::Supplementary => b".supplementary",
    };
    BuildId([build.0.as_slice(), ending].concat())
}

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Entries of each log: the oldest of more are forgotten, once a sketch knows them.
    pub runs_of_a_case: u64,
    /// Bugs that nobody has seen for so many seconds are forgotten with all their runs, and modules that no bug is about.
    pub seconds: u64,
}

/// What was forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// Runs.
    pub runs: u64,
    /// Bugs.
    pub bugs: u64,
    /// Modules.
    pub modules: u64,
}

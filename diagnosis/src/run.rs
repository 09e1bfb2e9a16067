//! One execution as evidence.
//!
//! What is the same in every run (statements, locations, variables) has a number in the bug's [`Catalogue`]; a
//! [`Run`] speaks of it by number. Addresses, thread ids and times belong to one run and are only ever compared
//! within it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::sketch::Why;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);
    };
}

number!(
    /// A statement, by its number in the catalogue.
    StatementId
);
number!(
    /// A watched location of the plan (one variable, one field: not one address), by its number in the catalogue.
    LocationId
);
number!(
    /// A branching instruction, by its number in the catalogue.
    BranchId
);
number!(
    /// A thread of one run, by its place in [`Run::threads`].
    ThreadIx
);

/// What the runs of one bug have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalogue {
    /// Statements that were tracked, that runs showed, or that are in the slice.
    pub statements: Vec<StatementInfo>,
    /// What was watched in some run.
    pub locations: Vec<LocationInfo>,
    /// Branches that were traced in some run.
    pub branches: Vec<BranchInfo>,
    /// Reads of which the first decides, by being zero or not, whether the second is made: a check and its use.
    #[serde(default)]
    pub guards: BTreeSet<(StatementId, StatementId)>,
    /// The failure is that threads wait for news, such as a condition.
    #[serde(default)]
    pub waits: bool,
}

/// A statement of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatementInfo {
    /// The function's name as people write it.
    pub function: Arc<str>,
    /// The source file, as the compiler recorded it.
    pub file: Option<Arc<str>>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// One of its instructions: the module's build-id or name is in [`StatementInfo::module`].
    pub pc: u64,
    /// The module, where it is not the executable.
    pub module: Option<Arc<str>>,
    /// Its source text.
    pub text: Option<Arc<str>>,
    /// Its number in the static slice and its distance from the failure there; `None` for one that only runs showed.
    pub slice: Option<SlicePlace>,
    /// What it is there for: the statement that depends on it, and how. `None` for the failing statement, and for one
    /// that only runs showed. A call of a function in which a run showed a statement has one: that statement.
    #[serde(default)]
    pub because: Option<Because>,
    /// It creates a thread that the slice goes through the beginning of.
    #[serde(default)]
    pub creates: bool,
    /// It takes a lock, and may have taken one that a thread waits for.
    #[serde(default)]
    pub takes: bool,
    /// What came from there that the failing thread failed of.
    #[serde(default)]
    pub gave: Option<Gave>,
}

/// What a thread may fail of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Gave {
    /// A pointer that a crash went through.
    Pointer,
    /// What it divided by.
    Divisor,
}

/// Why a statement is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Because {
    /// The statement that depends on it.
    pub of: StatementId,
    /// How.
    pub why: Why,
}

/// Where a statement stands in the static slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SlicePlace {
    /// Its number, nearest first.
    pub number: u32,
    /// Statements between the failing one (0) and this.
    pub distance: u32,
}

/// A location that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocationInfo {
    /// Its source name, where one is known: `fifo->mut`.
    pub variable: Option<Arc<str>>,
    /// Bytes.
    pub width: u32,
    /// What its bytes are.
    pub shape: Shape,
    /// Nothing in the program has a name for it: a library's inlined code keeps it for itself.
    #[serde(default)]
    pub of_library: bool,
}

/// What the bytes of a value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Not known: an unsigned number.
    #[default]
    Unknown,
    /// A number without a sign.
    Unsigned,
    /// A number with a sign.
    Signed,
    /// A pointer. Its value is one run's own; only whether it is null, and whether it is the same as another of
    /// the same run, says something across runs.
    Pointer,
    /// True or false.
    Bool,
    /// A floating-point number.
    Float,
}

/// A conditional or indirect branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchInfo {
    /// Its statement.
    pub statement: StatementId,
    /// The instruction.
    pub pc: u64,
    /// It is in a library's function that was inlined there: no decision that the statement names.
    #[serde(default)]
    pub of_library: bool,
}

/// One execution under a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its number in the series of runs.
    pub number: u64,
    /// The failure, if it ended with the one that is looked into. A run that ended with another failure is no
    /// evidence at all and is not here.
    pub failed: Option<Failed>,
    /// How many statements of the slice were tracked.
    pub sigma: u32,
    /// Its threads.
    pub threads: Vec<RunThread>,
    /// What happened, in the order in which it happened as far as that is known.
    pub events: Vec<Event>,
    /// The locations that this run watched from early enough on. A run says nothing about any other.
    pub watched: BTreeSet<LocationId>,
    /// Of these, the ones that were armed when accesses may have happened already.
    pub late: BTreeSet<LocationId>,
    /// The branches whose outcomes this run recorded.
    pub traced: BTreeSet<BranchId>,
    /// Tracking was cut short, or data was lost: what is not here may still have happened.
    pub incomplete: Option<String>,
    /// Where control flow or data flow has holes.
    pub gaps: Vec<Gap>,
    /// What threads waited for when the run failed, each at most once.
    #[serde(default)]
    pub waits: Vec<Waits>,
}

/// What a thread waited for, for as long as it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Who.
    pub thread: ThreadIx,
    /// For what.
    pub wanted: Wanted,
}

/// What threads wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// A lock.
    Lock {
        /// Where it is.
        addr: u64,
        /// Who has it, where the lock says so.
        holder: Option<ThreadIx>,
    },
    /// The end of a thread.
    End(ThreadIx),
    /// Somebody's signal, or whatever else somebody does to a word of memory.
    Word(u64),
}

/// How a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The thread, if it is one of those that were seen.
    pub thread: Option<ThreadIx>,
    /// The failing statement.
    pub statement: StatementId,
    /// Where the bug was first seen to fail, if that was elsewhere.
    #[serde(default)]
    pub instead_of: Option<StatementId>,
    /// The run did not die: it did not go on.
    #[serde(default)]
    pub hang: bool,
    /// No thread is held by a call: those that do not get on go round.
    #[serde(default)]
    pub polls: bool,
}

/// A thread of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunThread {
    /// Its start routine's name (`main` for the first thread); the same for every thread of a kind, in every run.
    pub role: Arc<str>,
    /// Where it was when the run failed: the statements of the program's own code on its stack, innermost first. Empty
    /// where nobody looked.
    #[serde(default)]
    pub stack: Vec<StatementId>,
    /// It was over when the run failed.
    #[serde(default)]
    pub ended: bool,
    /// By which calls it came to a statement where its stack was looked at, innermost first.
    #[serde(default)]
    pub calls: BTreeMap<StatementId, Vec<StatementId>>,
}

/// Something that a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Who.
    pub thread: ThreadIx,
    /// Where.
    pub statement: StatementId,
    /// When, by the monotonic clock of the host.
    pub time_ns: Option<u64>,
    /// Its place among the events of *other* threads is not certain. Within a thread, order always is.
    pub uncertain: bool,
    /// What.
    pub what: What,
}

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// The statement was executed, control flow says.
    Executed,
    /// A branch went one way.
    Branch(BranchId, Way),
    /// Watched memory was accessed.
    Access(Access),
}

/// Which way a branch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// A conditional jump jumped.
    Taken,
    /// It did not.
    NotTaken,
    /// An indirect jump or call went to this statement.
    To(StatementId),
}

/// An access to watched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Which location.
    pub location: LocationId,
    /// Where it was in this run: accesses of one location at different addresses are about different objects.
    pub addr: u64,
    /// What it did.
    pub kind: AccessKind,
    /// The value after it; what a read returned.
    pub value: Option<u64>,
    /// The value before it.
    pub before: Option<u64>,
}

/// What an access did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AccessKind {
    /// It read.
    #[serde(rename = "R")]
    Read,
    /// It wrote.
    #[serde(rename = "W")]
    Write,
    /// It read and wrote.
    #[serde(rename = "RW")]
    ReadWrite,
}

impl AccessKind {
    /// Whether it read.
    #[must_use]
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Whether it wrote.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// Something that is missing from a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Of which thread, if of one.
    pub thread: Option<ThreadIx>,
    /// Before which event of [`Run::events`].
    pub before: usize,
    /// What is missing, and why.
    pub what: String,
}

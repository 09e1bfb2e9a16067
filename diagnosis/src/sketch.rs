//! The sketch: what a person reads, and what is kept of a diagnosis. Its JSON is version 1 of the contract.

use program::{Pc, Program};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::statistics::Counts;

/// Of a deadlock: the thread that waits has what it waits for.
pub const ITSELF: &str = "held by itself";
/// Of a deadlock: who has what a thread waits for is over.
pub const ENDED: &str = "held by a thread that has ended";
/// Of a deadlock: who has what a thread waits for waits for a signal.
pub const SIGNAL: &str = "held by a thread that waits for a signal";
/// Of a read before another thread's write (`RW`): it was the thread's last.
pub const LAST_READ: &str = "read for the last time";

/// Of a value: where the thread that wrote it then read it.
#[must_use]
pub fn read_by(read: &StatementRef) -> String {
    let file = read.file.as_deref().and_then(|file| file.rsplit('/').next());
    let place = match (file, read.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        _ => format!("{:#x}", read.pc),
    };
    format!("{READ_BY}{} ({place})", read.function)
}

/// What stands before the reader in the predicate of such a value; before that, what the value is not.
pub const READ_BY: &str = "read by ";

/// The version of the JSON.
pub const VERSION: u32 = 1;

/// A failure sketch. One that was made without watching any run has no predictors, and all its steps are inferred.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sketch {
    /// [`VERSION`].
    pub version: u32,
    /// The bug's id: its signature's.
    pub bug: Option<String>,
    /// What failed.
    pub program: ProgramRef,
    /// How.
    pub failure: Failure,
    /// How many statements of the slice were tracked in the end.
    pub sigma: u32,
    /// Runs behind it.
    pub runs: Runs,
    /// By what means.
    pub backends: Backends,
    /// The lanes.
    pub threads: Vec<Thread>,
    /// Statements, in order.
    pub steps: Vec<Step>,
    /// What separates failing from successful runs, best first.
    pub predictors: Vec<Predictor>,
    /// What is missing.
    pub gaps: Vec<String>,
    /// What a reader must know to judge it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What tells the right source files from others, where something does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SourceFile>,
    /// Source text around the statements, as far as the files were there to read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceExcerpt>,
}

impl Sketch {
    /// Changes every statement: the failing one, those on stacks, of steps and of predictors.
    pub fn statements_mut(&mut self, mut change: impl FnMut(&mut StatementRef)) {
        self.failure.statement.iter_mut().for_each(&mut change);
        let frames = self.failure.stacks.iter_mut().flatten();
        frames.for_each(|frame| change(&mut frame.statement));
        self.steps.iter_mut().for_each(|step| change(&mut step.statement));
        for predictor in &mut self.predictors {
            let statements = predictor.statements.iter_mut().chain(&mut predictor.missing);
            statements.for_each(|of| change(&mut of.statement));
            if let Some(examples) = &mut predictor.examples {
                let steps = examples.failing.iter_mut().chain(&mut examples.successful);
                steps.for_each(|step| change(&mut step.statement));
            }
        }
    }
}

/// What is known of a source file without having it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// The file, as statements name it.
    pub file: String,
    /// The build-id of what was compiled from it; in a sketch, where that is not the executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// The MD5 of its content when it was compiled, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub md5: Option<String>,
}

impl SourceFile {
    /// A file that the code at an address was compiled from.
    #[must_use]
    pub fn of(program: &Program<'_>, file: &str, pc: Pc) -> Self {
        let module = program.module(pc.module);
        let md5 = module.and_then(|module| module.sources().md5_of(file, pc.addr));
        let digits = |md5: [u8; 16]| md5.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            file: file.to_owned(),
            build_id: module
                .and_then(|module| module.elf().build_id())
                .map(|build| build.to_string()),
            md5: md5.map(digits),
        }
    }
}

/// Some lines of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceExcerpt {
    /// The file, as statements name it.
    pub file: String,
    /// The number of the first of `lines`, from 1.
    pub first: u32,
    /// The lines, without their ends.
    pub lines: Vec<String>,
}

/// The program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRef {
    /// Its file.
    pub name: String,
    /// Its build-id.
    pub build_id: Option<String>,
}

/// The failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// `signal`, `assertion`, `abort`, `hang`, `exit-status` or `oracle`.
    pub kind: String,
    /// The signal, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// What the program or its runtime said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The data address that a fault was about.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_hex",
        deserialize_with = "from_optional_hex"
    )]
    pub fault_address: Option<u64>,
    /// The failing statement in the program's own code.
    pub statement: Option<StatementRef>,
    /// Every thread's frames, innermost first.
    pub stacks: Vec<Vec<Frame>>,
}

/// A frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// What it executes.
    #[serde(flatten)]
    pub statement: StatementRef,
    /// The module that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// It is an inlined call of the frame after it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub inlined: bool,
    /// It is the program's own code.
    #[serde(default)]
    pub own: bool,
    /// How it was found: `text`, `context`, `cfi`, `frame-pointer`, `signal-frame`, `tail-call`, `returned`,
    /// `printed` or `scan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl From<StatementRef> for Frame {
    fn from(statement: StatementRef) -> Self {
        Self {
            statement,
            own: true,
            ..Self::default()
        }
    }
}

/// How many runs there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// Tracked runs that failed with this bug.
    pub failing: u64,
    /// Tracked runs that did not fail.
    pub successful: u64,
    /// Failures after the first.
    pub recurrences: u64,
}

/// By what means control flow and data flow were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backends {
    /// `intel-pt`, `software-pt`, `single-step` or `none`.
    pub control_flow: String,
    /// `observe`, `exact`, `compat` or `none`.
    pub data_flow: String,
}

/// A lane of the sketch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its number in this sketch, from 0.
    pub id: u32,
    /// Its start routine.
    pub role: Option<String>,
    /// What a debugger calls it, where one run is shown as it was: `Thread 12 (app)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A statement.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StatementRef {
    /// The function around it.
    pub function: String,
    /// The source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// One of its instructions.
    #[serde(serialize_with = "hex", deserialize_with = "from_hex")]
    pub pc: u64,
    /// Its source text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The memory that its code reads and writes, by the names that the source gives it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<NamedAccess>,
}

/// A memory access with its source name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedAccess {
    /// What it does.
    pub access: crate::run::AccessKind,
    /// Such as `f->mut`.
    pub variable: String,
}

/// A step of the sketch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its number, from 0. A step whose place among the other threads' steps is not known says so in `after`.
    pub n: u32,
    /// The lane.
    pub thread: u32,
    /// The statement.
    pub statement: StatementRef,
    /// What it did to `variable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<crate::run::AccessKind>,
    /// The variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// Its value then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// What put it into the sketch.
    pub source: Source,
    /// How it is known to have run.
    pub evidence: Evidence,
    /// The rank of the best predictor that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictor: Option<u32>,
    /// The failure.
    #[serde(default, skip_serializing_if = "is_false")]
    pub failing: bool,
    /// The steps of other threads that are known to come before this one do not end with the one above it: only
    /// those up to this number are known to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unordered_after: Option<u32>,
    /// What of this thread is missing right before it, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_before: Option<String>,
    /// Statements between the failing one and this in the slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<u32>,
    /// What put it into the slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
}

/// Why a statement is in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// It produced a value that is used.
    Data,
    /// It decided that something ran.
    Control,
    /// It called the function or passed an argument.
    Call,
    /// It created the thread or passed its argument.
    Thread,
}

/// What put a step into the sketch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The static slice.
    #[default]
    Slice,
    /// A watchpoint caught it.
    Watchpoint,
}

/// How a step is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// A failing run was seen to do it.
    Traced,
    /// It follows from the code.
    #[default]
    Inferred,
}

/// A value as a person reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Integer(i64),
    /// A number beyond those.
    Large(u64),
    /// A fraction.
    Float(f64),
    /// An address, a name, bytes.
    Text(String),
}

/// Something that separates failing from successful runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictor {
    /// From 1.
    pub rank: u32,
    /// What it is about.
    pub kind: PredictorKind,
    /// `WR`, `RWR`, `-R`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// `== 0`, `taken`, …; of a deadlock that is no cycle of several threads, whom the lock is [held by](ITSELF); of a read
    /// in a thread that waits, that it was [the last](LAST_READ).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<String>,
    /// The statements, in the order of the pattern.
    pub statements: Vec<PredictorStatement>,
    /// Accesses that come first in successful runs, and did not here: the writes that a read did not wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<PredictorStatement>,
    /// F-measure, β = 0.5.
    pub f: f64,
    /// Failing runs with it / runs with it.
    pub precision: f64,
    /// Failing runs with it / failing runs.
    pub recall: f64,
    /// Confidence interval of the precision (95 %).
    pub precision_interval: [f64; 2],
    /// Confidence interval of the recall (95 %).
    pub recall_interval: [f64; 2],
    /// Failing runs in which it held.
    pub failing_with: u64,
    /// Failing runs that could have shown it.
    pub failing: u64,
    /// Successful runs in which it held.
    pub successful_with: u64,
    /// Successful runs that could have shown it.
    pub successful: u64,
    /// What happened at these statements in a failing run, and in a successful one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examples: Option<Examples>,
    /// Runs in which it held, by their numbers.
    #[serde(default, skip_serializing_if = "RunsBehind::is_empty")]
    pub runs: RunsBehind,
}

impl Predictor {
    /// In how many runs it held.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            failing_with: self.failing_with,
            failing: self.failing,
            successful_with: self.successful_with,
            successful: self.successful,
        }
    }
}

/// The latest runs in which a predictor held: the last one first, a few of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunsBehind {
    /// Failing ones.
    pub failing: Vec<u64>,
    /// Successful ones.
    pub successful: Vec<u64>,
}

impl RunsBehind {
    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.failing.is_empty() && self.successful.is_empty()
    }
}

/// A failing and a successful run beside one another, at the statements of one predictor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Examples {
    /// Steps of a failing run.
    pub failing: Vec<Step>,
    /// Steps of a successful run.
    pub successful: Vec<Step>,
}

/// What a predictor is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PredictorKind {
    /// Which way a branch went.
    Branch,
    /// A value that a statement saw.
    Value,
    /// Two threads' accesses in one order.
    Order,
    /// Two accesses of a thread with another thread's between.
    Atomicity,
}

/// A statement of a predictor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictorStatement {
    /// The statement.
    #[serde(flatten)]
    pub statement: StatementRef,
    /// The role of the thread that executes it.
    pub thread_role: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<crate::run::AccessKind>,
}

// serde hands over a reference.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn hex<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:#x}"))
}

#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn optional_hex<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => hex(value, serializer),
        None => serializer.serialize_none(),
    }
}

fn from_optional_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    from_hex(deserializer).map(Some)
}

fn from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
    let digits = text.strip_prefix("0x").unwrap_or(&text);
    u64::from_str_radix(digits, 16).map_err(serde::de::Error::custom)
}

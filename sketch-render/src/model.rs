//! What gets rendered: plain data with the field names of the JSON contract.

use serde::{Serialize, Serializer};

/// A statement (`S` in the contract).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatementRef {
    /// The function, demangled.
    pub function: String,
    /// The source file as recorded by the compiler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The instruction's link-time address.
    #[serde(serialize_with = "hex")]
    pub pc: u64,
    /// The source line's text, where the file is there to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The memory that it reads and writes, by the names that the source gives it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<NamedAccess>,
}

/// A memory access with its source name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NamedAccess {
    /// `R`, `W` or `RW`.
    pub access: &'static str,
    /// Such as `f->mut`.
    pub variable: String,
}

/// Why a statement is in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// It produced a value that is used.
    Data,
    /// It decided that something ran.
    Control,
    /// It called the function or passed an argument.
    Call,
    /// It created the thread or passed its argument.
    Thread,
}

/// One statement of a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SliceStatement {
    /// Statements between the failing one and this.
    pub distance: u32,
    /// What put it there.
    pub why: Reason,
    /// The statement.
    pub statement: StatementRef,
}

/// What `slice` found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SliceResult {
    /// The statement that the slice starts from.
    pub criterion: StatementRef,
    /// Nearest first.
    pub statements: Vec<SliceStatement>,
    /// There were more statements than were asked for.
    pub more: bool,
    /// How long it took.
    pub elapsed_ms: f64,
    /// What a reader must know to judge it (missing debug information, another build, …).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A frame of a stack, as a line of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FrameLine {
    /// The statement, as far as it is known.
    #[serde(flatten)]
    pub statement: StatementRef,
    /// The file that the code is in, where it is not the program itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Inlined into the next frame.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
    /// Code of the program itself, not of a library.
    pub own: bool,
    /// How the frame was found.
    pub origin: &'static str,
}

/// A thread's stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadStack {
    /// What to call the thread.
    pub label: String,
    /// This is the thread that failed.
    pub failed: bool,
    /// Innermost first.
    pub frames: Vec<FrameLine>,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// signal, assertion, abort, hang, exit status or oracle.
    pub kind: &'static str,
    /// The signal's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// What the program or its runtime said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The data address that a fault was about.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_hex")]
    pub fault_address: Option<u64>,
    /// The failing statement in the program's own code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<StatementRef>,
}

/// A sketch made without watching any run: the failure, every thread's stack, and the slice.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticSketch {
    /// The program's name.
    pub program: String,
    /// Its build-id.
    pub build_id: Option<String>,
    /// What failed.
    pub failure: Failure,
    /// The threads.
    pub threads: Vec<ThreadStack>,
    /// What the failing statement depends on, nearest first.
    pub statements: Vec<SliceStatement>,
    /// There were more statements than were asked for.
    pub more: bool,
    /// What a reader must know to judge it.
    pub notes: Vec<String>,
}

pub(crate) fn hex<S: Serializer>(addr: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{addr:#x}"))
}

fn optional_hex<S: Serializer>(addr: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match addr {
        Some(addr) => hex(addr, serializer),
        None => serializer.serialize_none(),
    }
}

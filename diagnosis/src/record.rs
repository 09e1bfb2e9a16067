//! A run as a host reports it: raw, with addresses of one process. [`crate::reading`] makes evidence of it.
//!
//! This is what is kept of a run, so that it can be diagnosed again: everything that diagnosis needs is in here and
//! in the program's files.

use failure::report::Report;
use program::{BuildId, LinkAddr, Pc, RunAddr};
use pt_driver_client::recorder::Recording;
use serde::{Deserialize, Serialize};
use slicer::plan::PcRange;

use crate::run::AccessKind;

/// One execution under a plan, or without one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its number in the series of runs.
    pub number: u64,
    /// Its process, whose first thread has the same number.
    pub pid: u32,
    /// How many statements of the slice were tracked; 0 for a run that nobody tracked.
    pub sigma: u32,
    /// How it ended.
    pub end: RunEnd,
    /// How long it took.
    pub elapsed_ns: u64,
    /// The files that were mapped.
    pub modules: Vec<ModuleRecord>,
    /// The threads that were seen doing something, each as often as it was looked at.
    pub threads: Vec<ThreadRecord>,
    /// What was to be watched. [`HitRecord::location`] is the place in this list.
    pub watched: Vec<WatchedRecord>,
    /// How many locations its plan had, if that was only the host's share of them; 0 if it was all.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub planned: u32,
    /// Accesses, in their order.
    pub hits: Vec<HitRecord>,
    /// Accesses that happened and could not be reported.
    pub lost: u64,
    /// How memory was watched.
    pub data_flow: Option<String>,
    /// Tracking was cut short.
    pub cut_short: Option<String>,
    /// The control flow, where it was recorded.
    pub flow: Option<FlowRecord>,
    /// Where memory that was touched comes from, where somebody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<AllocationsRecord>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// Not in a failure.
    Succeeded,
    /// In a failure.
    Failed(Box<Report>),
    /// Somebody ended it before it could tell.
    Inconclusive,
}

/// A mapped file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleRecord {
    /// Its path.
    pub path: String,
    /// Its build-id.
    pub build_id: Option<BuildId>,
    /// Where it begins.
    pub start: RunAddr,
    /// Where it ends.
    pub end: RunAddr,
    /// Run-time minus link-time address.
    pub bias: u64,
    /// The executable.
    pub executable: bool,
}

impl ModuleRecord {
    /// An address of the process as linked, if it is in this module.
    #[must_use]
    pub fn to_link(&self, addr: RunAddr) -> Option<LinkAddr> {
        (self.start <= addr && addr < self.end).then(|| LinkAddr(addr.0.wrapping_sub(self.bias)))
    }
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRecord {
    /// The kernel's id for it.
    pub tid: u32,
    /// Its stack when it was looked at, innermost first: where it was, then where calls return to.
    pub stack: Vec<RunAddr>,
}

/// A location that was to be watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WatchedRecord {
    /// The module of the access that it is watched for; `None` for the executable.
    pub module: Option<String>,
    /// That access's instruction, or the call that has it made.
    pub access: LinkAddr,
    /// For a call: behind which of its arguments, from 0, and how far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<(u8, i64)>,
    /// Bytes.
    pub width: u32,
    /// How far into what is accessed they begin.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub within: u32,
    /// Where it is in the access's module, if the code tells that it is always there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_at: Option<LinkAddr>,
    /// Where it is, if it is watched there from the start on because an earlier failing run had it there: the
    /// module (`None` for the executable), and the address in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<(Option<String>, LinkAddr)>,
    /// It was armed when accesses may have happened already.
    pub late: bool,
    /// It was touched so often that it was given up before the run ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
    /// The statements that were found to store to it had probes: such a write was not missed, though one by `memcpy` or another access
    /// may have been.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stores: bool,
    /// It is no memory, but what the call at [`WatchedRecord::access`] returns: whoever had a probe there made hits of it, one a return.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub result: bool,
    /// In how many places it was found: for most of them a thread had to be stopped.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub found: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_nothing(number: &u32) -> bool {
    *number == 0
}

/// An access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HitRecord {
    /// The thread.
    pub tid: u32,
    /// When, by the monotonic clock.
    pub time_ns: u64,
    /// The accessing instruction, or the one after it where that is not known.
    pub pc: RunAddr,
    /// Where calls return to that led there, innermost first, as far as somebody looked: a library makes accesses for others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<RunAddr>,
    /// What it did, where the instruction is known.
    pub access: Option<AccessKind>,
    /// Where the location was.
    pub addr: RunAddr,
    /// Which one.
    pub location: u32,
    /// The value after it.
    pub value: Option<u64>,
    /// The value before it.
    pub before: Option<u64>,
    /// Its place among the hits of other threads is not certain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
    /// If it was in the stack of the only thread, where another variable may be by then: behind the frames of how many functions,
    /// counted from the one that made the access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_frame: Option<u32>,
}

/// Where memory comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationsRecord {
    /// The blocks of which a watched place was touched.
    pub blocks: Vec<BlockRecord>,
    /// There were so many allocations that not all were noted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_short: bool,
}

/// A block of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRecord {
    /// Where it begins.
    pub addr: RunAddr,
    /// How many bytes were asked for.
    pub size: u64,
    /// Where the calls return to that led to its allocation, the allocator's own first.
    pub stack: Vec<RunAddr>,
    /// For each of them, how many blocks of the run were allocated by the same calls up to this one.
    pub alike: Vec<u32>,
    /// The how manieth of these it was, from 1.
    #[serde(default)]
    pub nth: Vec<u32>,
}

/// Recorded control flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// The traces.
    pub recording: Recording,
    /// The code that was to be traced.
    pub ranges: Vec<PcRange>,
    /// The branches in it.
    pub branches: Vec<Pc>,
    /// When the run failed, if the program went on after it: what it did then is of no interest.
    #[serde(default)]
    pub until_ns: Option<u64>,
}

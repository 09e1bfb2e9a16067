//! The hardware behind a trait: whoever owns the debug registers hands over raw hits.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use failure::image::Registers;
use program::{LinkAddr, RunAddr};

use crate::hit::{Mode, WatchedSpan};
use crate::location::{LocationError, Trigger};

/// Whom to watch.
#[derive(Debug)]
pub enum Target {
    /// A process that runs already.
    Process(u32),
    /// A process to start.
    Launch(Command),
}

/// How the caller wants it watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ModeRequest {
    /// Exact for what we start, observe for what runs already, else what works.
    #[default]
    Auto,
    /// This one or none.
    Only(Mode),
}

/// Where a location is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address of the process.
    Run(RunAddr),
    /// A place in a file that the process has mapped, or will.
    Static {
        /// The file; `None` for the executable.
        module: Option<PathBuf>,
        /// The address as linked.
        addr: LinkAddr,
    },
}

/// A location to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchSpec {
    /// Where.
    pub address: Address,
    /// How many bytes.
    pub len: u32,
    /// Which accesses.
    pub trigger: Trigger,
}

/// How many bytes are kept of the memory at each hit.
pub const SNAPSHOT: usize = 8;

/// A watched piece of memory as it was when a hit was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Where.
    pub addr: RunAddr,
    /// How many bytes were read; zero when none could.
    pub len: u8,
    /// The bytes.
    pub bytes: [u8; SNAPSHOT],
}

/// A trap as the kernel reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawHit {
    /// When, by the monotonic clock.
    pub time_ns: u64,
    /// The thread.
    pub tid: u32,
    /// The watched address that the kernel says was touched. An instruction that touched several reports one.
    pub watched: RunAddr,
    /// The registers after the access.
    pub registers: Registers,
    /// Whether `fs_base` and `gs_base` are among what is known.
    pub has_segment_bases: bool,
    /// The eight bytes at the stack pointer.
    pub stack_top: Option<u64>,
    /// The watched pieces at the time of the report, the reported one among them.
    pub memory: Vec<Snapshot>,
}

/// What a watcher has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An access.
    Hit(Box<RawHit>),
    /// A location is watched from now on, perhaps instead of another address.
    Armed(WatchedSpan),
    /// So many hits could not be reported.
    Lost(u64),
    /// The process ended: its wait status where we are its parent or tracer.
    Ended(Option<i32>),
}

/// Somebody who owns debug registers of a process.
pub trait Watcher: Send {
    /// How it watches.
    fn mode(&self) -> Mode;

    /// The next events, waiting at most so long for the first; none when the time is over.
    ///
    /// # Errors
    /// When the process can no longer be watched.
    fn next(&mut self, timeout: Duration) -> Result<Vec<Event>, WatchError>;

    /// Takes every watch away and leaves the process to itself. What had been hit before comes back.
    ///
    /// # Errors
    /// When the process could not be left as it was.
    fn stop(self: Box<Self>) -> Result<Vec<Event>, WatchError>;
}

/// Why something cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The location cannot be watched.
    #[error(transparent)]
    Location(#[from] LocationError),
}

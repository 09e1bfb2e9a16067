//! perf events: debug registers, uprobes and the news of a process's life, all owned by the kernel.
//!
//! An event ends with its file descriptor. Whoever holds it may be killed at any instant: the kernel clears
//! the debug register, takes the probe out of the text and lets the target go on. That is why everything here
//! that touches another process is a perf event, and nothing is written into it.
//!
//! - [`Breakpoint`]: a debug register on a thread and on the threads it will create.
//! - [`Uprobe`]: a probe on an instruction of a file.
//! - [`Sideband`]: threads that start and end, files that get mapped, names.
//! - [`Rings`]: what those report, one buffer per processor, as [`Record`]s in order of time.

mod breakpoint;
mod error;
mod event;
mod file_limit;
pub mod intel_pt;
mod own_files;
mod record;
mod ring;
mod rings;
mod sideband;
mod uprobe;

pub use breakpoint::{
    Breakpoint, DEBUG_REGISTERS, Delivery, Follow, Range, Start, Trigger, free_registers, free_registers_on,
};
pub use error::PerfError;
pub(crate) use event::try_open_pmu;
pub use file_limit::{FileLimit, original_file_limit};
pub use record::{Mapping, Origin, Record, Sample, Task};
pub(crate) use rings::poll;
pub use rings::{Rings, Stamped};
pub use sideband::{News, Sideband};
pub use uprobe::{ProbeEnd, ProbeFile, ProbeTarget, Uprobe};

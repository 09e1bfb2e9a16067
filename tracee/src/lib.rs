//! This host: its files, its processes and threads, and the stops of those that we trace.
//!
//! Architecture invariant: all `unsafe` code of the workspace is here, each block with the reason why it is
//! sound, behind calls that are safe to use.

pub mod bpf;
pub mod capability;
mod clock;
pub mod files;
mod ids;
pub mod libipt;
pub mod perf;
mod prefetch;
pub mod process;
pub mod ptrace;
mod registers;
pub mod run;

pub use clock::{ClockPoint, monotonic_ns};
pub use files::{
    FileError, HostFiles, HostModules, MappedFile, Part, Parts, ProgramError, ProgramFiles, Stored, build_id,
    is_system_path,
};
pub use ids::{Pid, Tid};
pub use prefetch::prefetch;

//! This host: its files today; its processes, threads and perf events as they get watched.
//!
//! Architecture invariant: all `unsafe` code of the workspace is here, each block with the reason why it is
//! sound, behind calls that are safe to use.

pub mod files;
mod ids;

pub use files::{FileError, HostFiles, HostModules, MappedFile, is_system_path};
pub use ids::{Pid, Tid};

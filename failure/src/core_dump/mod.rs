//! Core dumps of Linux x86-64 processes: as the kernel writes them, as `gcore` does, and what
//! systemd-coredump keeps (unpacked).
//!
//! [`CoreDump`] reads the file; it is a [`ProcessImage`](crate::image::ProcessImage).

mod dump;
mod error;
mod memory;
mod notes;

pub use dump::CoreDump;
pub use error::CoreError;

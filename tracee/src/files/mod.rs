//! The host's files: executables, libraries and their debug information, mapped read-only.

mod host;
mod lookup;
mod mapped;

pub use host::HostFiles;
pub use mapped::{FileError, MappedFile};

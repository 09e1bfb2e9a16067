//! The host's files: executables, libraries and their debug information, mapped read-only.

mod host;
mod lookup;
mod mapped;
mod modules;
mod program;

pub use host::HostFiles;
pub use mapped::{FileError, MappedFile};
pub use modules::{HostModules, is_system_path};
pub use program::{ProgramError, ProgramFiles};

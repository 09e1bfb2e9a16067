//! The host's files: executables, libraries and their debug information, mapped read-only.

mod host;
mod lookup;
mod mapped;
mod modules;
mod parts;
mod program;
pub mod script;

pub use host::HostFiles;
pub use mapped::{FileError, MappedFile};
pub use modules::{HostModules, is_system_path};
pub use parts::{Part, Parts};
pub use program::{ProgramError, ProgramFiles, Stored, build_id};

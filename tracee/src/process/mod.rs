//! Processes as seen from outside: facts, modules, memory, their end. Nothing here stops a thread.

mod barrier;
mod error;
mod exit;
mod facts;
mod image;
mod maps;
mod memory;
mod modules;
mod session;
mod status;
mod waits;

pub use barrier::Barrier;
pub use error::ProcessError;
pub use exit::ExitWatch;
pub use facts::Process;
pub use image::StoppedProcess;
pub use memory::Memory;
pub use modules::{Module, ModuleChanges, ModuleMap};
pub use session::leave_session;
pub use status::{SignalSet, Status, ThreadState};
pub use waits::Wait;

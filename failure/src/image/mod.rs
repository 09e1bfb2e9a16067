//! A process at one moment: stopped, or dead and in a core.
//!
//! [`ProcessImage`] is what is known of it: threads with registers, the signal, the files that were mapped,
//! memory. [`Image`] joins it with those files, which a core mostly leaves out, and unwinds. [`report()`]
//! makes the [`crate::Report`].
//!
//! Unwinding goes by call-frame information with all registers. An unwinder made for profilers (framehop)
//! tracks three, falls back to frame pointers without saying so, and cannot follow expressions that read
//! memory; here every register is known, and what is known is told from what is guessed.

mod abort_message;
pub(crate) mod bytes;
mod cfi;
mod cfi_table;
pub(crate) mod elf;
mod exception;
mod headers;
mod joined;
mod modules;
mod panic_payload;
mod panicked;
mod process;
mod registers;
mod report;
mod return_address;
mod symbols;
mod unwind;
mod waits;

pub use headers::ModuleHeaders;
pub use joined::{Image, ModuleFiles};
pub use modules::{MappedModule, modules};
pub use panic_payload::panic_message;
pub use process::{
    Mapping, Memory, ProcessImage, ProcessState, ProgramInfo, Region, SignalInfo, StoppedThread,
};
pub use registers::Registers;
pub use report::{Limits, report};

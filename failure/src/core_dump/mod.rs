//! Core dumps of Linux x86-64 processes: as the kernel writes them, as `gcore` does, and what
//! systemd-coredump keeps (unpacked).
//!
//! [`CoreDump`] reads the file: threads, signal, mapped files, memory. [`Image`] joins it with the files that
//! were mapped, which a core mostly leaves out, and unwinds. [`report()`] makes the [`crate::Report`].
//!
//! Unwinding goes by call-frame information with all registers. An unwinder made for profilers (framehop)
//! tracks three, falls back to frame pointers without saying so, and cannot follow expressions that read
//! memory; a core has every register and deserves to be told what is known from what is guessed.

mod abort_message;
mod bytes;
mod cfi;
mod cfi_table;
mod dump;
mod elf;
mod error;
mod headers;
mod image;
mod memory;
mod modules;
mod process;
mod registers;
mod report;
mod return_address;
mod unwind;

pub use dump::CoreDump;
pub use error::CoreError;
pub use headers::ModuleHeaders;
pub use image::{Image, ModuleFiles};
pub use modules::CoreModule;
pub use process::{CoreThread, Mapping, ProgramInfo, SignalInfo};
pub use registers::Registers;
pub use report::{Limits, report};

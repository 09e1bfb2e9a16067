//! Why a file cannot be read as a core.

use thiserror::Error;

/// Why these bytes are not a core that can be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CoreError {
    /// No ELF file at all.
    #[error("not a core dump: the file does not start as an ELF file does")]
    NotElf,
    /// A core as systemd-coredump and others keep it.
    #[error("the core is compressed with {format}: unpack it first ({command})")]
    Compressed {
        /// Which compression.
        format: &'static str,
        /// What unpacks it.
        command: &'static str,
    },
    /// Somebody gave the executable.
    #[error(
        "this is {what}, not a core dump: give the core that the crash left, and this file as its binary"
    )]
    NotCore {
        /// "an executable", "an object file", …
        what: &'static str,
    },
    /// A core of another kind of machine.
    #[error("the core is of a {machine} process; only x86-64 cores can be read")]
    WrongMachine {
        /// Its name, or its number in ELF.
        machine: String,
    },
    /// Cut before anything useful.
    #[error(
        "the core is cut off in its headers: {present} of at least {needed} bytes are there; get the whole file"
    )]
    HeadersCut {
        /// Bytes present.
        present: u64,
        /// Bytes that the headers alone take.
        needed: u64,
    },
    /// Nothing to unwind.
    #[error(
        "the core holds no thread (no NT_PRSTATUS note): it is damaged or was not written by the kernel or gcore"
    )]
    NoThreads,
}

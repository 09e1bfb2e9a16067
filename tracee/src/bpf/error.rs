//! Why a BPF program could not be had.

use std::io;

use thiserror::Error;

/// A BPF map or program that could not be made or read.
#[derive(Debug, Error)]
pub enum BpfError {
    /// The kernel does not let this user do it.
    #[error("{what} is not permitted: run as root or with CAP_BPF and CAP_PERFMON")]
    NotPermitted {
        /// What was tried.
        what: &'static str,
    },
    /// The verifier does not accept a program.
    #[error("the kernel's verifier refuses a program ({source}): {log}")]
    Refused {
        /// What the kernel said.
        source: io::Error,
        /// What the verifier said: the end of it.
        log: String,
    },
    /// A location is too long to be copied at a hit.
    #[error("at most {most} bytes of a location are copied at a hit, not {len}")]
    TooLong {
        /// How many were asked for.
        len: u64,
        /// How many it can be.
        most: u64,
    },
    /// Anything else.
    #[error("{what} failed: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl BpfError {
    pub(super) fn from_io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { what },
            _ => Self::System { what, source },
        }
    }
}

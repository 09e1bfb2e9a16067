//! A loaded program.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::error::BpfError;
use super::syscall::{ProgramKind, load};

/// A program that the verifier accepted.
#[derive(Debug)]
pub(super) struct Program(OwnedFd);

impl Program {
    pub(super) fn load(kind: ProgramKind, code: &[u64]) -> Result<Self, BpfError> {
        /// Enough for a few hundred instructions, each with the state that the verifier is in.
        const LOG: usize = 1 << 18;
        let error = match load(kind, code, &mut []) {
            Ok(fd) => return Ok(Self(fd)),
            Err(error) => error,
        };
        if error.raw_os_error() == Some(libc::EPERM) {
            return Err(BpfError::NotPermitted {
                what: "loading a BPF program",
            });
        }
        // Once more, to hear why: keeping the log costs time, and almost every program is accepted.
        let mut log = vec![0; LOG];
        match load(kind, code, &mut log) {
            Ok(fd) => Ok(Self(fd)),
            Err(source) => Err(BpfError::Refused {
                source,
                log: last_lines(&log),
            }),
        }
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The verifier says at the end what it does not like.
fn last_lines(log: &[u8]) -> String {
    const LINES: usize = 4;
    let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with("processed "))
        .collect();
    lines[lines.len().saturating_sub(LINES)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::{BpfError, Program, ProgramKind};

    #[test]
    fn a_refused_program_comes_with_the_verifiers_reason() {
        // Only an exit: R0 was never written.
        match Program::load(ProgramKind::PerfEvent, &[0x95]) {
            Err(BpfError::Refused { log, .. }) => assert!(log.contains("R0 !read_ok"), "{log}"),
            Err(BpfError::NotPermitted { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

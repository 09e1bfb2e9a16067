//! Probes on many instructions of a file at once.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use program::FileOffset;

use super::error::BpfError;
use super::hit_program::HitProgram;
use super::syscall::link_probes;
use crate::Pid;
use crate::perf::{ProbeEnd, ProbeFile};

/// Probes in one process, threads to come included. Gone with this value, or with this process, whatever ends it.
///
/// The kernel waits for all processors before it lets a probe go, about 150 ms, and for one of perf's probes after the
/// other ([`crate::perf::Uprobe`]); for these it waits once. Linux 6.6 or later.
#[derive(Debug)]
pub struct ManyProbes {
    link: Option<OwnedFd>,
}

impl ManyProbes {
    /// Sets the probes; they are live when this returns. The program is one of [`HitProgram::for_many_probes`].
    ///
    /// # Errors
    /// When the kernel has no such probes, the file is not there, or one of the instructions takes no probe.
    pub fn open(
        program: &HitProgram,
        file: &ProbeFile,
        offsets: &[FileOffset],
        pid: Pid,
    ) -> Result<Self, BpfError> {
        Self::link(program, file, offsets, pid, ProbeEnd::Entry)
    }

    /// The same where the functions return that begin at these places. As long as a thread is in one of them, its stack has
    /// the kernel's address in place of the one that it returns to.
    ///
    /// # Errors
    /// When the kernel has no such probes, the file is not there, or one of the instructions takes no probe.
    pub fn at_returns(
        program: &HitProgram,
        file: &ProbeFile,
        offsets: &[FileOffset],
        pid: Pid,
    ) -> Result<Self, BpfError> {
        Self::link(program, file, offsets, pid, ProbeEnd::Return)
    }

    fn link(
        program: &HitProgram,
        file: &ProbeFile,
        offsets: &[FileOffset],
        pid: Pid,
        end: ProbeEnd,
    ) -> Result<Self, BpfError> {
        let failed = BpfError::from_io;
        let path = CString::new(file.path().as_os_str().as_bytes());
        let path = path.map_err(|error| failed("naming a file to probe")(error.into()))?;
        let offsets: Vec<u64> = offsets.iter().map(|offset| offset.0).collect();
        let link = link_probes(program.fd(), &path, &offsets, pid.0, end == ProbeEnd::Return);
        Ok(Self {
            link: Some(link.map_err(failed("setting probes"))?),
        })
    }
}

impl Drop for ManyProbes {
    fn drop(&mut self) {
        let link = self.link.take();
        // Nobody needs to wait for the processors; without a thread the link is closed right here.
        let _detached = std::thread::Builder::new()
            .name("close-probes".to_owned())
            .spawn(move || drop(link));
    }
}

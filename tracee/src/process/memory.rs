//! The memory of a running process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;

use program::RunAddr;

use super::error::ProcessError;
use super::facts::Process;
use crate::ids::{Pid, Tid};

const PAGE: u64 = 4096;

/// Reads the memory of a process, whether it runs or is stopped.
///
/// Nothing keeps the process from changing what is read: only what a stopped process has is all of one
/// moment.
#[derive(Debug)]
pub struct Memory {
    pid: Pid,
    /// Opened when first needed; `process_vm_readv` does not read what the process itself may not.
    file: OnceLock<Option<File>>,
}

impl Memory {
    /// The memory of a process. After an `exec`, make a new one: the old one may see the old memory.
    #[must_use]
    pub fn of(pid: Pid) -> Self {
        Self {
            pid,
            file: OnceLock::new(),
        }
    }

    /// Whose memory.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Reads as many bytes as are mapped from `addr` on without a gap, at most the buffer's length; says how
    /// many. Zero: nothing is mapped there.
    ///
    /// # Errors
    /// When the process is gone or not ours to read.
    pub fn read_some(&self, addr: RunAddr, buffer: &mut [u8]) -> Result<usize, ProcessError> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = addr.0.checked_add(done as u64) else {
                break;
            };
            // A piece that is not mapped may make the whole call fail; what lies before it is then found by
            // going from page to page.
            let count = match self.read_once(at, rest) {
                Ok(count) if count > 0 => count,
                _ => {
                    let in_page = usize::try_from(PAGE - at % PAGE).unwrap_or(1).min(rest.len());
                    match self.read_once(at, rest.get_mut(..in_page).unwrap_or_default()) {
                        Ok(count) => count,
                        Err(error) if is_unmapped(&error) => 0,
                        Err(error) => return Err(ProcessError::of(self.pid, "the memory", error)),
                    }
                }
            };
            if count == 0 {
                break;
            }
            done += count;
        }
        Ok(done)
    }

    /// `len` bytes at an address; `None` unless all of them are mapped and the process can be read.
    #[must_use]
    pub fn read(&self, addr: RunAddr, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        let count = self.read_some(addr, &mut bytes).ok()?;
        (count == len).then_some(bytes)
    }

    /// The eight bytes at an address.
    #[must_use]
    pub fn read_word(&self, addr: RunAddr) -> Option<u64> {
        let mut bytes = [0; 8];
        let count = self.read_some(addr, &mut bytes).ok()?;
        (count == bytes.len()).then(|| u64::from_le_bytes(bytes))
    }

    fn read_once(&self, addr: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let first = self.pid.first_thread();
        match vm_read(first, addr, buffer) {
            Ok(count) => Ok(count),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                let living = Process::new(self.pid).living_thread();
                if living == first {
                    Err(error)
                } else {
                    vm_read(living, addr, buffer)
                }
            }
            Err(error) => {
                let opened = self
                    .file
                    .get_or_init(|| File::open(format!("/proc/{}/mem", self.pid)).ok());
                opened
                    .as_ref()
                    .map_or(Err(error), |file| file.read_at(buffer, addr))
            }
        }
    }
}

fn is_unmapped(error: &io::Error) -> bool {
    // EINVAL: an address that is none of a process, taken for a negative offset.
    matches!(
        error.raw_os_error(),
        Some(libc::EFAULT | libc::EIO | libc::EINVAL)
    )
}

fn vm_read(tid: Tid, addr: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: addr as *mut libc::c_void,
        iov_len: buffer.len(),
    };
    // SAFETY: the local vector describes `buffer`, which is ours to write; the remote one is only looked at
    // by the kernel, in the other process.
    let count = unsafe { libc::process_vm_readv(tid.raw(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

//! A signal as the kernel describes it.

use std::fmt;

use failure::Signal;
use failure::image::SignalInfo;
use program::RunAddr;

use crate::bpf::STOPPED_BY;
use crate::ids::Pid;

/// `si_code` of a SIGTRAP that a perf event with `sigtrap` sent.
const TRAP_PERF: i32 = 6;
/// `si_code` of a SIGTRAP that a debug register raised.
const TRAP_HWBKPT: i32 = 4;

/// `siginfo_t`, as x86-64 has it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct SigInfo([u8; 128]);

/// What a perf event says with its SIGTRAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfTrap {
    /// The watched address.
    pub address: RunAddr,
    /// `sig_data` of the event: the cookie of whoever opened it.
    pub data: u64,
    /// The type of the event (`PERF_TYPE_BREAKPOINT`, …).
    pub kind: u32,
    /// The signal came late, because it was blocked when the event happened: the thread is somewhere else.
    pub asynchronous: bool,
}

impl SigInfo {
    pub(super) fn empty() -> Self {
        Self([0; 128])
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut found = [0; N];
        for (to, from) in found.iter_mut().zip(self.0.iter().skip(at)) {
            *to = *from;
        }
        found
    }

    fn int(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.bytes(at))
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }

    /// Which signal.
    #[must_use]
    pub fn signal(&self) -> Signal {
        Signal(self.int(0))
    }

    /// Why it was sent: positive for the kernel's reasons, zero or negative for a sender's.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.int(8)
    }

    fn is_fault(&self) -> bool {
        let faults = [
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGSEGV,
        ];
        faults.contains(&self.signal().0) && self.code() > 0 && self.code() != libc::SI_KERNEL
    }

    fn is_sent(&self) -> bool {
        matches!(self.code(), libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL)
    }

    /// The address that the kernel raised it for.
    #[must_use]
    pub fn address(&self) -> Option<RunAddr> {
        self.is_fault().then(|| RunAddr(self.word(16)))
    }

    /// The process that sent it.
    #[must_use]
    pub fn sender(&self) -> Option<Pid> {
        let pid = u32::from_le_bytes(self.bytes(16));
        self.is_sent().then_some(Pid(pid))
    }

    /// Whether a program of ours that a probe runs stopped the thread: whoever else stops one is named as the sender.
    #[must_use]
    pub fn is_of_probe(&self) -> bool {
        self.signal().0 == STOPPED_BY && self.sender().is_none()
    }

    /// The value that was queued with it (`sigqueue`).
    #[must_use]
    pub fn value(&self) -> Option<u64> {
        (self.code() == libc::SI_QUEUE).then(|| self.word(24))
    }

    /// What a perf event says with it, if one sent it.
    #[must_use]
    pub fn perf(&self) -> Option<PerfTrap> {
        const ASYNC: u32 = 1;
        (self.signal().0 == libc::SIGTRAP && self.code() == TRAP_PERF).then(|| PerfTrap {
            address: RunAddr(self.word(16)),
            data: self.word(24),
            kind: u32::from_le_bytes(self.bytes(32)),
            asynchronous: u32::from_le_bytes(self.bytes(36)) & ASYNC != 0,
        })
    }

    /// Whether a debug register of this thread raised it.
    #[must_use]
    pub fn is_debug_register(&self) -> bool {
        self.signal().0 == libc::SIGTRAP && self.code() == TRAP_HWBKPT
    }

    /// Whether the thread was asked for one step and this is its end.
    pub(super) fn is_step(&self) -> bool {
        self.signal().0 == libc::SIGTRAP && matches!(self.code(), libc::TRAP_BRKPT | libc::TRAP_TRACE)
    }
}

impl From<&SigInfo> for SignalInfo {
    fn from(info: &SigInfo) -> Self {
        Self {
            signal: info.signal(),
            code: info.code(),
            address: info.address(),
            sender: info.sender().map(|pid| pid.0),
        }
    }
}

impl fmt::Debug for SigInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigInfo")
            .field("signal", &self.signal().0)
            .field("code", &self.code())
            .field("address", &self.address())
            .field("sender", &self.sender())
            .field("perf", &self.perf())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(size_of::<SigInfo>(), size_of::<libc::siginfo_t>());
        assert_eq!(align_of::<SigInfo>(), align_of::<libc::siginfo_t>());
    }

    fn info(signal: i32, code: i32) -> SigInfo {
        let mut info = SigInfo::empty();
        info.0[..4].copy_from_slice(&signal.to_le_bytes());
        info.0[8..12].copy_from_slice(&code.to_le_bytes());
        info.0[16..24].copy_from_slice(&0x1234_u64.to_le_bytes());
        info.0[24..32].copy_from_slice(&0xfeed_u64.to_le_bytes());
        info.0[36] = 1;
        info
    }

    #[test]
    fn the_union_depends_on_signal_and_code() {
        let fault = info(libc::SIGSEGV, 1);
        assert_eq!((fault.address(), fault.sender()), (Some(RunAddr(0x1234)), None));
        let sent = info(libc::SIGSEGV, libc::SI_USER);
        assert_eq!((sent.address(), sent.sender()), (None, Some(Pid(0x1234))));
        assert_eq!(info(libc::SIGUSR1, libc::SI_QUEUE).value(), Some(0xfeed));
        let perf = info(libc::SIGTRAP, TRAP_PERF).perf().unwrap();
        assert_eq!(
            (perf.address, perf.data, perf.asynchronous),
            (RunAddr(0x1234), 0xfeed, true)
        );
        assert_eq!(info(libc::SIGTRAP, libc::SI_USER).perf(), None);
    }
}

//! Whether a thread waits for something that only threads of its own process can do.

use std::fs;

use program::RunAddr;

use super::facts::Process;
use super::maps;
use super::memory::Memory;
use super::status::SignalSet;
use crate::ids::Tid;

/// Signals that timers and devices send: a handler of one may be what everybody waits for.
const FROM_OUTSIDE: [i32; 4] = [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF, libc::SIGIO];

/// Signals that a program has from what it does itself; the last two are how glibc ends threads and changes their user.
const OWN: [i32; 9] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
    32,
    33,
];

/// The bits of a word with a thread's number that are the number.
const TID_MASK: u32 = 0x3fff_ffff;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For a word of memory, for as long as it takes. `shared` if it may be another process's, too.
    Futex {
        /// Where the word is.
        at: RunAddr,
        /// Whether other processes may wake it.
        shared: bool,
    },
    /// For the end of a child process.
    Child,
}

impl Wait {
    /// The numbers of the threads that may have what a word of memory is waited for. In glibc's mutexes the owner is two words
    /// behind the word that is waited for, in its locks for readers and writers the writer is three or four words behind; locks
    /// that inherit priorities and the descriptors of threads have a thread's number in the word itself. Which of these it is, if any,
    /// the memory does not say.
    #[must_use]
    pub fn may_have(memory: &Memory, at: RunAddr) -> Vec<u32> {
        let mut bytes = [0; 20];
        let read = memory.read_some(at, &mut bytes).unwrap_or(0);
        let words = bytes.get(..read).unwrap_or_default().chunks_exact(4);
        let words = words.map(|word| word.try_into().map_or(0, u32::from_le_bytes));
        let holders = words.enumerate().filter(|(number, _)| *number != 1);
        let numbers = holders.map(|(number, word)| if number == 0 { word & TID_MASK } else { word });
        numbers.filter(|tid| *tid != 0).collect()
    }
}

impl Process {
    /// What a thread waits for, if that is nothing from outside and takes as long as it takes: `None` for one that runs, sleeps,
    /// has a time limit, or waits for input.
    #[must_use]
    pub fn wait_of(self, tid: Tid) -> Option<Wait> {
        let path = format!("/proc/{}/task/{tid}/syscall", self.pid());
        parse(&fs::read_to_string(path).ok()?)
    }

    /// Whether memory is this process's alone.
    #[must_use]
    pub fn is_private(self, at: RunAddr) -> bool {
        let Ok(text) = fs::read_to_string(format!("/proc/{}/maps", self.pid())) else {
            return false;
        };
        // Memory that is shared has a file, if only one of the kernel's own.
        maps::parse_all(&text).any(|line| line.inode == 0 && line.mapping.range.contains(&at))
    }

    /// Whether a timer or a device may make the process go on although all its threads wait.
    #[must_use]
    pub fn may_be_signalled(self) -> bool {
        let timers = fs::read_to_string(format!("/proc/{}/timers", self.pid()));
        let caught = self.status().map(|status| status.caught).unwrap_or_default();
        timers.is_ok_and(|timers| !timers.is_empty())
            || FROM_OUTSIDE.iter().any(|&signal| caught.contains(signal))
    }

    /// Whether somebody may send the process a signal that makes it go on although all its threads wait.
    #[must_use]
    pub fn handles_signals(self) -> bool {
        let own = |caught: SignalSet| OWN.iter().fold(caught, |left, &signal| left.without(signal));
        let caught = self.status().map(|status| own(status.caught));
        caught.is_ok_and(|caught| caught != SignalSet::default())
    }

    /// Whether a thread has child processes; one that cannot be asked may have some.
    #[must_use]
    pub fn has_children(self, tid: Tid) -> bool {
        let children = fs::read_to_string(format!("/proc/{}/task/{tid}/children", self.pid()));
        children.map_or(true, |children| !children.trim().is_empty())
    }
}

/// `202 0x7f01 0x189 0x2 0x0 0x0 0xffffffff 0x7ffc 0x7f02`; `running`; `-1 0x7ffc 0x7f02` outside of system calls.
fn parse(text: &str) -> Option<Wait> {
    const WAIT: u64 = libc::FUTEX_WAIT as u64;
    const LOCK_PI: u64 = libc::FUTEX_LOCK_PI as u64;
    const WAIT_BITSET: u64 = libc::FUTEX_WAIT_BITSET as u64;
    const LOCK_PI2: u64 = libc::FUTEX_LOCK_PI2 as u64;
    const PRIVATE: u64 = libc::FUTEX_PRIVATE_FLAG as u64;
    const CLOCK: u64 = libc::FUTEX_CLOCK_REALTIME as u64;
    let mut fields = text.split_whitespace();
    let number: i64 = fields.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let arguments = [argument()?, argument()?, argument()?, argument()?];
    match (number, arguments) {
        (libc::SYS_futex, [at, operation, _, timeout]) => {
            let waits = matches!(
                operation & !(PRIVATE | CLOCK),
                WAIT | LOCK_PI | WAIT_BITSET | LOCK_PI2
            );
            (waits && timeout == 0).then_some(Wait::Futex {
                at: RunAddr(at),
                shared: operation & PRIVATE == 0,
            })
        }
        (libc::SYS_wait4, [_, _, options, _]) | (libc::SYS_waitid, [_, _, _, options]) => {
            (options & libc::WNOHANG as u64 == 0).then_some(Wait::Child)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_without_an_end_of_their_own_count() {
        let futex = |shared| {
            Some(Wait::Futex {
                at: RunAddr(0x7f01),
                shared,
            })
        };
        for (text, expected) in [
            (
                "202 0x7f01 0x80 0x2 0x0 0x0 0xffffffff 0x7ffc 0x7f02\n",
                futex(false),
            ),
            (
                "202 0x7f01 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc 0x7f02\n",
                futex(false),
            ),
            // pthread_join
            (
                "202 0x7f01 0x109 0x63 0x0 0x0 0xffffffff 0x7ffc 0x7f02\n",
                futex(true),
            ),
            // pthread_cond_timedwait
            ("202 0x7f01 0x189 0x0 0x7f33 0x0 0xffffffff 0x7ffc 0x7f02\n", None),
            // FUTEX_WAKE
            ("202 0x7f01 0x81 0x1 0x0 0x0 0x0 0x7ffc 0x7f02\n", None),
            (
                "61 0xffffffff 0x7ffc 0x0 0x0 0x8 0x0 0x7ffc 0x7f02\n",
                Some(Wait::Child),
            ),
            ("61 0xffffffff 0x7ffc 0x1 0x0 0x8 0x0 0x7ffc 0x7f02\n", None),
            ("230 0x0 0x0 0x7ffc 0x0 0x0 0x0 0x7ffc 0x7f02\n", None),
            ("7 0x7ffc 0x1 0xffffffff 0x0 0x0 0x0 0x7ffc 0x7f02\n", None),
            ("running\n", None),
            ("-1 0x7ffc 0x7f02\n", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}

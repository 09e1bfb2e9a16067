//! What a thread waits for, and who has it.
//!
//! A thread that waits is in the system call `futex`, whose first argument is the word that it waits for. glibc notes in a mutex who
//! took it, in a lock for readers and writers who writes, and in a thread's descriptor, which whoever joins it waits for,
//! which thread that is: together this is who waits for whom, at the moment of the failure. Which kind of thing a word belongs to, the
//! function says that waits. The locks of other libraries name no holder, and neither does a lock that is held for reading.

use program::RunAddr;

use super::bytes::u32_at;
use super::joined::Image;
use super::process::StoppedThread;
use super::registers::Registers;
use super::symbols;
use super::unwind::Unwound;
use crate::report::{Position, Wanted};

const SYS_FUTEX: u64 = 202;
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_LOCK_PI2: u64 = 13;
const FUTEX_PRIVATE_FLAG: u64 = 128;
const FUTEX_CLOCK_REALTIME: u64 = 256;
/// The bits of a word with a thread's number that are the number.
const FUTEX_TID_MASK: u32 = 0x3fff_ffff;

const MUTEX: [&[u8]; 3] = [
    b"pthread_mutex_lock",
    b"__pthread_mutex_lock",
    b"___pthread_mutex_lock",
];
const RWLOCK: [&[u8]; 6] = [
    b"pthread_rwlock_rdlock",
    b"__pthread_rwlock_rdlock",
    b"___pthread_rwlock_rdlock",
    b"pthread_rwlock_wrlock",
    b"__pthread_rwlock_wrlock",
    b"___pthread_rwlock_wrlock",
];

/// `__owner` in glibc's `pthread_mutex_t`, behind `__lock` and `__count`.
const OWNER: u64 = 8;
/// `__wrphase_futex` and `__writers_futex` in glibc's `pthread_rwlock_t`: what readers and writers wait for.
const WRITE_PHASE: u64 = 8;
const WRITERS: u64 = 12;
/// `__cur_writer`.
const WRITER: u64 = 24;
/// What locks are aligned to.
const ALIGNMENT: u64 = 8;

/// The functions that wait for a lock are among the innermost.
const INNERMOST: usize = 4;

/// A wait without a time limit.
struct Futex {
    at: u64,
    operation: u64,
    expected: u64,
}

/// What a thread waits for; `None` for one that runs, waits for a time, or for something outside the process.
pub(super) fn wanted(image: &Image<'_>, thread: &StoppedThread, frames: &[Unwound]) -> Option<Wanted> {
    let futex = futex(&thread.registers)?;
    let word = |at: u64| u32_at(&image.process.read(RunAddr(at), 4)?, 0);
    let known = |tid: &u32| {
        image
            .process
            .state()
            .threads
            .iter()
            .any(|thread| thread.tid == *tid)
    };
    let content = word(futex.at)?;
    if matches!(futex.operation, FUTEX_LOCK_PI | FUTEX_LOCK_PI2) {
        return Some(Wanted::Lock {
            at: RunAddr(futex.at),
            holder: holder(content & FUTEX_TID_MASK),
        });
    }
    // The kernel writes and wakes that word when the thread is over, for all who may wait.
    if u64::from(content) == futex.expected && content != thread.tid && known(&content) {
        return Some(Wanted::End {
            of: u64::from(content),
        });
    }
    let in_function = |names: &[&[u8]]| {
        frames.iter().take(INNERMOST).any(|frame| {
            let inside = match frame.position {
                Position::Exact => frame.registers.rip,
                Position::Return => frame.registers.rip.wrapping_sub(1),
            };
            let module = image.loaded_at(inside);
            module.is_some_and(|module| symbols::is_inside(module, inside, names))
        })
    };
    if in_function(&MUTEX) {
        return Some(Wanted::Lock {
            at: RunAddr(futex.at),
            holder: word(futex.at.checked_add(OWNER)?).and_then(holder),
        });
    }
    if in_function(&RWLOCK) {
        let into = if futex.at.is_multiple_of(ALIGNMENT) {
            WRITE_PHASE
        } else {
            WRITERS
        };
        let lock = futex.at.checked_sub(into)?;
        return Some(Wanted::Lock {
            at: RunAddr(lock),
            holder: word(lock.checked_add(WRITER)?).and_then(holder),
        });
    }
    Some(Wanted::Word {
        at: RunAddr(futex.at),
    })
}

fn holder(tid: u32) -> Option<u64> {
    (tid != 0).then_some(u64::from(tid))
}

/// The system call that a thread is stopped in, if it waits there for as long as it takes. A stop leaves the arguments as they were.
fn futex(registers: &Registers) -> Option<Futex> {
    let operation = registers.rsi & !(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
    let waits = matches!(
        operation,
        FUTEX_WAIT | FUTEX_LOCK_PI | FUTEX_WAIT_BITSET | FUTEX_LOCK_PI2
    );
    let without_limit = registers.r10 == 0;
    (registers.orig_rax == SYS_FUTEX && waits && without_limit).then_some(Futex {
        at: registers.rdi,
        operation,
        expected: registers.rdx & u64::from(u32::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_without_an_end_of_their_own_count() {
        let registers = |orig_rax, rsi, r10| Registers {
            orig_rax,
            rdi: 0x7f01,
            rsi,
            rdx: 2,
            r10,
            ..Registers::default()
        };
        let waits = |registers| futex(&registers).map(|futex| (futex.at, futex.operation));
        assert_eq!(waits(registers(202, 0x80, 0)), Some((0x7f01, FUTEX_WAIT)));
        assert_eq!(waits(registers(202, 0x189, 0)), Some((0x7f01, FUTEX_WAIT_BITSET)));
        assert_eq!(waits(registers(202, 0x86, 0)), Some((0x7f01, FUTEX_LOCK_PI)));
        assert_eq!(waits(registers(202, 0x189, 0x7f33)), None, "it has a time limit");
        assert_eq!(waits(registers(202, 0x81, 0)), None, "it wakes others");
        assert_eq!(
            waits(registers(u64::MAX, 0x80, 0)),
            None,
            "outside of system calls"
        );
    }
}

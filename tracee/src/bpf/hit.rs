//! A hit, as our programs write it down.
//!
//! The record is a row of 64-bit words: time, process and thread, watched address, cookie, whether the kernel did
//! it, the room for the stack and how many bytes of it could be read, how many hits had found no room, the time at which
//! the locations had been read, the instruction that was last run in the place of a probe, the 21 words of `struct pt_regs`, then for each of the locations, four at most, its
//! address, how many bytes of it were read, and room for them; last the stack, from its pointer on.

use failure::image::Registers;
use program::RunAddr;

use super::brief;
use crate::registers::{PT_REGS_WORDS, from_pt_regs};
use crate::{Pid, Tid};

pub(super) const TIME: usize = 0;
pub(super) const PID_TGID: usize = 8;
pub(super) const ADDR: usize = 16;
pub(super) const COOKIE: usize = 24;
pub(super) const IN_KERNEL: usize = 32;
pub(super) const STACK_ROOM: usize = 40;
pub(super) const STACK_READ: usize = 48;
pub(super) const LOST_BEFORE: usize = 56;
pub(super) const LOOKED: usize = 64;
pub(super) const PROBED: usize = 72;
pub(super) const REGISTERS: usize = 80;
pub(super) const VALUES: usize = REGISTERS + PT_REGS_WORDS * 8;
/// Bytes before a value: its address and its length.
pub(super) const VALUE_HEAD: usize = 16;
/// Bytes of a stack that are read at a breakpoint: the frames of a library's functions that call one another, and who called them.
pub const STACK_BYTES: usize = 512;

/// A hit of a breakpoint or a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawHit {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// The process, by its number where we are; of a container within ours, by its number on the host.
    pub pid: Pid,
    /// The thread, likewise.
    pub tid: Tid,
    /// The watched address; for a probe, the probed instruction's, or where the function returns to.
    pub addr: RunAddr,
    /// The program's cookie.
    pub cookie: u64,
    /// The kernel made the access, in a system call of the thread: `read` into a buffer, say.
    pub in_kernel: bool,
    /// The registers after the access; for a probe, before the instruction; for an access by the kernel, at
    /// the system call. The bases of `fs` and `gs` are not known and 0; see also [`super::HitProgram::for_branches`].
    pub registers: Registers,
    /// The stack, from its pointer on: as much as there was room for, or a word where less could be read. Nothing at probes.
    pub stack: Vec<u8>,
    /// The instruction under the last probe that the thread ran into, of whoever set it: it runs in a page that the kernel made. Zero
    /// where there was none or the kernel does not tell.
    pub probed: RunAddr,
    /// How many hits had found no room in the ring when this one was written: more than the hit before it says
    /// means that some are missing between the two.
    pub lost_before: u64,
    /// The locations that could be read, right after the access: from `time_ns` on,
    pub values: Vec<Value>,
    /// and by this time. Reading what is watched for reads traps, which takes the kernel as long again as the hit.
    pub looked_ns: u64,
}

/// Memory at a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Where.
    pub addr: RunAddr,
    len: u8,
    bytes: [u8; Value::MOST],
}

impl Value {
    /// How many bytes of a location are copied at most.
    pub const MOST: usize = 64;

    fn new(addr: u64, bytes: &[u8]) -> Option<Self> {
        let mut value = Self {
            addr: RunAddr(addr),
            len: u8::try_from(bytes.len()).ok()?,
            bytes: [0; Self::MOST],
        };
        value.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(value)
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }

    /// The number that up to eight bytes stand for.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..self.len.into())?.copy_from_slice(self.bytes());
        Some(u64::from_le_bytes(word))
    }
}

impl RawHit {
    /// The value of a location, if it was read.
    #[must_use]
    pub fn value_at(&self, addr: RunAddr) -> Option<&Value> {
        self.values.iter().find(|value| value.addr == addr)
    }

    /// Reads a record with room for `room` bytes of each value.
    pub(super) fn parse(bytes: &[u8], room: usize) -> Option<Self> {
        if bytes.len() == brief::BYTES {
            return brief::parse(bytes);
        }
        let word = |at: usize| {
            let bytes = bytes.get(at..at.checked_add(8)?)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        let mut registers = [0; PT_REGS_WORDS];
        for (at, register) in (REGISTERS..).step_by(8).zip(&mut registers) {
            *register = word(at)?;
        }
        let stack_room = usize::try_from(word(STACK_ROOM)?).ok()?;
        let stack_at = bytes.len().checked_sub(stack_room)?;
        let stack = bytes.get(stack_at..)?;
        let values = bytes
            .get(VALUES..stack_at)?
            .chunks_exact(VALUE_HEAD.checked_add(room)?);
        let values = values.filter_map(|slot| {
            let (addr, rest) = slot.split_first_chunk::<8>()?;
            let (len, rest) = rest.split_first_chunk::<8>()?;
            let len = usize::try_from(u64::from_ne_bytes(*len))
                .ok()
                .filter(|&len| len > 0)?;
            Value::new(u64::from_ne_bytes(*addr), rest.get(..len)?)
        });
        let pid_tgid = word(PID_TGID)?;
        Some(Self {
            time_ns: word(TIME)?,
            pid: Pid((pid_tgid >> 32) as u32),
            tid: Tid(pid_tgid as u32),
            addr: RunAddr(word(ADDR)?),
            cookie: word(COOKIE)?,
            in_kernel: word(IN_KERNEL)? != 0,
            registers: from_pt_regs(&registers),
            stack: stack.get(..usize::try_from(word(STACK_READ)?).ok()?)?.to_vec(),
            probed: RunAddr(word(PROBED)?),
            lost_before: word(LOST_BEFORE)?,
            values: values.collect(),
            looked_ns: word(LOOKED)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{RawHit, VALUES};
    use crate::{Pid, Tid};
    use program::RunAddr;
    use proptest::prelude::*;

    #[test]
    fn a_record_is_read_as_it_was_laid_out() {
        let mut words = vec![1, 5 << 32 | 6, 0x1000, 99, 0, 16, 8, 3, 4, 0x55];
        words.extend(200..221);
        words.extend([0x1000, 4, 0xdead_beef, 0x2000, 0, 7]);
        words.extend([0x7777, 9]);
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        let hit = RawHit::parse(&bytes, 8).unwrap();
        assert_eq!((hit.time_ns, hit.pid, hit.tid), (1, Pid(5), Tid(6)));
        assert_eq!((hit.addr, hit.cookie), (RunAddr(0x1000), 99));
        assert_eq!(
            (hit.registers.r15, hit.registers.rip, hit.registers.eflags),
            (200, 216, 218)
        );
        assert_eq!(
            (hit.stack.as_slice(), hit.lost_before),
            (&0x7777_u64.to_ne_bytes()[..], 3)
        );
        assert_eq!((hit.looked_ns, hit.probed), (4, RunAddr(0x55)));
        assert_eq!(hit.values.len(), 1, "the second was not readable");
        assert_eq!(hit.value_at(RunAddr(0x1000)).unwrap().number(), Some(0xdead_beef));
        assert_eq!(hit.value_at(RunAddr(0x2000)), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_hit_or_none(
            bytes in prop::collection::vec(any::<u8>(), 0..VALUES + 200),
            room in 0_usize..100,
        ) {
            let _ = RawHit::parse(&bytes, room);
        }
    }
}

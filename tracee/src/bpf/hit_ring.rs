//! Where hits are written to, and read from.

use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use program::RunAddr;

use super::error::BpfError;
use super::hit::{RawHit, VALUE_HEAD, VALUES, Value};
use super::map::SharedWords;
use super::ring::RingBuffer;
use crate::Pid;
use crate::ids::FIRST_PID_NAMESPACE;

/// How many locations are read at each hit: as many as there are debug registers.
pub const LOCATIONS: usize = 4;

/// Memory to read at each hit, whichever location was hit: one consistent view of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Where.
    pub addr: RunAddr,
    /// How many bytes.
    pub len: u64,
}

/// Where hits are written to: one ring for all processors, so one order for all hits.
#[derive(Debug)]
pub struct HitRing {
    ring: RingBuffer,
    control: SharedWords,
    /// Room for each value.
    room: usize,
    namespace: Option<PidNamespace>,
    malformed: u64,
}

/// The words that we share with the programs: how many hits found no room, whose hits count, address and
/// length of the locations, and the places in the code whose hits need no memory.
pub(super) const LOST: usize = 0;
pub(super) const ONLY_PID: usize = 1;
pub(super) const TABLE: usize = 2;
pub(super) const SPARED: usize = TABLE + 2 * LOCATIONS;
/// A power of two; a place's low bits are its number among them.
pub(super) const SPARED_PLACES: usize = 256;
const CONTROL_WORDS: usize = SPARED + SPARED_PLACES;

/// How long a reader sleeps at most before it looks again. Waking it for each hit would cost an interrupt for
/// each; programs wake it when a quarter of the ring has filled.
const TICK: Duration = Duration::from_millis(20);

impl HitRing {
    /// Makes a ring of at least this many bytes (a hit takes about 300) with room for `value_bytes` of each
    /// location: 8, or up to 64 for locations that are longer than a register.
    ///
    /// # Errors
    /// When it is not permitted.
    pub fn new(bytes: usize, value_bytes: usize) -> Result<Self, BpfError> {
        if value_bytes > Value::MOST {
            return Err(BpfError::TooLong {
                len: value_bytes as u64,
                most: Value::MOST as u64,
            });
        }
        let room = value_bytes.max(1).next_multiple_of(8);
        Ok(Self {
            ring: RingBuffer::new(bytes).map_err(BpfError::from_io("making a BPF ring buffer"))?,
            control: SharedWords::new(CONTROL_WORDS).map_err(BpfError::from_io("making a BPF map"))?,
            room,
            namespace: PidNamespace::of_us(),
            malformed: 0,
        })
    }

    /// Counts only the hits of one process, or of all.
    pub fn only(&self, pid: Option<Pid>) {
        self.set(ONLY_PID, pid.map_or(0, |pid| pid.0.into()));
    }

    /// Has a location read at each hit from now on, or none, in one of the four slots.
    ///
    /// # Errors
    /// When it is longer than the ring has room for, or there is no such slot.
    pub fn set_location(&self, slot: usize, location: Option<Location>) -> Result<(), BpfError> {
        let (addr, len) = location.map_or((0, 0), |location| (location.addr.0, location.len));
        let most = if slot < LOCATIONS { self.room as u64 } else { 0 };
        if len > most {
            return Err(BpfError::TooLong { len, most });
        }
        // A hit in between reads nothing rather than a length of the one at the address of the other.
        self.set(TABLE + 2 * slot + 1, 0);
        self.set(TABLE + 2 * slot, addr);
        self.set(TABLE + 2 * slot + 1, len);
        Ok(())
    }

    /// Has no memory read at hits that are reported at this place any more: their registers tell enough.
    ///
    /// Reading what is watched for reads is itself an access. The processor traps in the kernel for it, with some
    /// kernels once for each byte, and that costs the target several times what its own access does.
    pub fn spare_memory_at(&self, pc: RunAddr) {
        self.set(SPARED + (pc.0 as usize & (SPARED_PLACES - 1)), pc.0);
    }

    /// How many hits found no room in the ring. The kernel runs no program on a processor on which somebody
    /// else's BPF map operation was interrupted: what was lost by that, [`crate::perf::Breakpoint::count`] tells.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let word = self.control.words().get(LOST);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// How many records made no sense.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Hands over all hits that are there, in their order.
    pub fn read(&mut self, mut take: impl FnMut(RawHit)) {
        let room = self.room;
        let malformed = &mut self.malformed;
        self.ring.drain(|bytes| match RawHit::parse(bytes, room) {
            Some(hit) => take(hit),
            None => *malformed += 1,
        });
    }

    /// Waits until there is a hit to read, or the time is up; says whether there is one.
    ///
    /// # Errors
    /// When waiting fails; a signal only ends it early.
    pub fn wait(&self, timeout: Duration) -> Result<bool, BpfError> {
        let started = Instant::now();
        loop {
            if !self.ring.is_empty() {
                return Ok(true);
            }
            let left = timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            self.ring
                .wait(left.min(TICK))
                .map_err(BpfError::from_io("waiting for hits"))?;
        }
    }

    /// For waiting for hits and other things together: readable when the ring fills, not at every hit.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    fn set(&self, word: usize, value: u64) {
        if let Some(word) = self.control.words().get(word) {
            word.store(value, Ordering::Release);
        }
    }

    /// How many bytes a record with so many values has.
    pub(super) fn record_bytes(&self, values: usize) -> usize {
        VALUES + values * (VALUE_HEAD + self.room)
    }

    /// Room for each value.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Whose numbers processes and threads are to have, if not the host's.
    pub(super) fn namespace(&self) -> Option<PidNamespace> {
        self.namespace
    }

    /// How programs name the ring, and how big it is.
    pub(super) fn ring(&self) -> (i32, usize) {
        (self.ring.raw_fd(), self.ring.size())
    }

    /// How programs name the words that we share with them.
    pub(super) fn control(&self) -> i32 {
        self.control.raw_fd()
    }
}

/// The namespace that our process numbers are of, in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PidNamespace {
    /// The device, as the kernel writes it inside.
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl PidNamespace {
    /// Ours, unless it is the host's.
    pub(super) fn of_us() -> Option<Self> {
        let namespace = fs::metadata("/proc/self/ns/pid").ok()?;
        let (major, minor) = (libc::major(namespace.dev()), libc::minor(namespace.dev()));
        (namespace.ino() != FIRST_PID_NAMESPACE).then_some(Self {
            device: u64::from(major) << 20 | u64::from(minor),
            inode: namespace.ino(),
        })
    }
}

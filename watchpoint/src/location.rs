//! Bytes to watch, as the aligned pieces that a debug register takes.

use program::RunAddr;
use serde::{Deserialize, Serialize};

/// How many debug registers a thread has.
pub const REGISTERS: usize = 4;

/// Where the memory of programs ends.
const END_OF_USER_SPACE: u64 = (1 << 47) - 4096;

/// Which accesses to report. The processor has no way to report reads alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Trigger {
    /// Writes.
    Write,
    /// Reads and writes.
    ReadWrite,
}

/// Bytes to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The first byte.
    pub addr: RunAddr,
    /// How many.
    pub len: u32,
    /// Which accesses.
    pub trigger: Trigger,
}

/// What one debug register watches: 1, 2, 4 or 8 bytes at a multiple of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// The first byte.
    pub addr: RunAddr,
    /// 1, 2, 4 or 8.
    pub len: u8,
}

/// Why a location cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// Nothing to watch.
    #[error("a watched location must have at least one byte: give ADDR:LEN with LEN from 1 to 32")]
    Empty,
    /// The end of the address space.
    #[error("{addr}:{len} reaches beyond the address space: check the address")]
    OutOfSpace {
        /// The first byte.
        addr: RunAddr,
        /// How many.
        len: u32,
    },
    /// More pieces than registers.
    #[error(
        "watching {len} bytes at {addr} takes {needed} debug registers and a thread has {REGISTERS}: \
         watch at most 32 aligned bytes, or a part of them"
    )]
    TooWide {
        /// The first byte.
        addr: RunAddr,
        /// How many.
        len: u32,
        /// Registers that it would take.
        needed: u64,
    },
    /// Several locations together take more registers than there are.
    #[error(
        "the locations take {needed} debug registers together and a thread has {REGISTERS}: \
         watch fewer of them at a time"
    )]
    TooMany {
        /// Registers that they would take.
        needed: usize,
    },
}

impl Location {
    /// The address after the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.addr.0.saturating_add(u64::from(self.len))
    }

    /// Whether an access of `len` bytes at `addr` touches the location.
    #[must_use]
    pub fn touches(&self, addr: RunAddr, len: u32) -> bool {
        addr.0 < self.end() && self.addr.0 < addr.0.saturating_add(u64::from(len))
    }

    /// Whether a watch of this tells of all accesses that one of the other would: of the same bytes, and as many kinds.
    #[must_use]
    pub(crate) fn covers(&self, other: &Self) -> bool {
        (self.addr, self.len) == (other.addr, other.len)
            && (self.trigger == other.trigger || self.trigger == Trigger::ReadWrite)
    }

    /// The fewest registers that watch exactly these bytes.
    ///
    /// # Errors
    /// When there are none, or more than a thread has.
    pub fn slots(&self) -> Result<Vec<Slot>, LocationError> {
        if self.len == 0 {
            return Err(LocationError::Empty);
        }
        let (addr, len) = (self.addr, self.len);
        // Beyond is nothing, or the kernel, which refuses to watch it: a wild pointer leads there.
        let end = addr
            .0
            .checked_add(u64::from(len))
            .filter(|end| *end <= END_OF_USER_SPACE);
        let end = end.ok_or(LocationError::OutOfSpace { addr, len })?;
        let (mut slots, mut at) = (Vec::new(), addr.0);
        while at < end {
            if slots.len() == REGISTERS {
                let needed = REGISTERS as u64 + (end - at).div_ceil(8);
                return Err(LocationError::TooWide { addr, len, needed });
            }
            let fits = |size: &&u8| {
                let size = u64::from(**size);
                at.is_multiple_of(size) && size <= end - at
            };
            let size = [8, 4, 2].iter().find(fits).copied().unwrap_or(1);
            slots.push(Slot {
                addr: RunAddr(at),
                len: size,
            });
            at += u64::from(size);
        }
        Ok(slots)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(addr: u64, len: u32) -> Location {
        Location {
            addr: RunAddr(addr),
            len,
            trigger: Trigger::ReadWrite,
        }
    }

    fn pieces(addr: u64, len: u32) -> Vec<(u64, u8)> {
        let slots = at(addr, len).slots().unwrap();
        slots.into_iter().map(|slot| (slot.addr.0, slot.len)).collect()
    }

    #[test]
    fn aligned_locations_take_one_register() {
        assert_eq!(pieces(0x1000, 8), [(0x1000, 8)]);
        assert_eq!(pieces(0x1004, 4), [(0x1004, 4)]);
        assert_eq!(pieces(0x1003, 1), [(0x1003, 1)]);
    }

    #[test]
    fn others_take_several() {
        assert_eq!(pieces(0x1002, 4), [(0x1002, 2), (0x1004, 2)]);
        assert_eq!(pieces(0x1001, 4), [(0x1001, 1), (0x1002, 2), (0x1004, 1)]);
        assert_eq!(
            pieces(0x1000, 32),
            [(0x1000, 8), (0x1008, 8), (0x1010, 8), (0x1018, 8)]
        );
        assert_eq!(pieces(0x1000, 3), [(0x1000, 2), (0x1002, 1)]);
    }

    #[test]
    fn what_does_not_fit_says_so() {
        assert_eq!(at(0x1000, 0).slots(), Err(LocationError::Empty));
        assert!(matches!(
            at(0x1000, 33).slots(),
            Err(LocationError::TooWide { needed: 5, .. })
        ));
        assert!(matches!(
            at(u64::MAX, 8).slots(),
            Err(LocationError::OutOfSpace { .. })
        ));
        assert!(matches!(
            at(0xffff_ffff_8000_0000, 8).slots(),
            Err(LocationError::OutOfSpace { .. })
        ));
        assert!(matches!(
            at(0x0123_4567_89ab_cdef, 8).slots(),
            Err(LocationError::OutOfSpace { .. })
        ));
    }

    proptest! {
        #[test]
        fn slots_cover_exactly_the_location(addr in any::<u64>(), len in any::<u32>()) {
            let location = at(addr, len);
            if let Ok(slots) = location.slots() {
                prop_assert!(slots.len() <= REGISTERS);
                let mut next = addr;
                for slot in slots {
                    prop_assert_eq!(slot.addr.0, next);
                    prop_assert!([1, 2, 4, 8].contains(&slot.len));
                    prop_assert_eq!(slot.addr.0 % u64::from(slot.len), 0);
                    next += u64::from(slot.len);
                }
                prop_assert_eq!(next, location.end());
            }
        }
    }
}

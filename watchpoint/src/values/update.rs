//! A read-modify-write as a function of what was there before.

use crate::registers::low_bytes;

/// What an instruction does to a whole location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Update {
    /// Adds, wrapping.
    Add(u64),
    /// Keeps these bits.
    And(u64),
    /// Sets these bits.
    Or(u64),
    /// Turns these bits over.
    Xor(u64),
    /// Changes the sign.
    Negate,
}

impl Update {
    /// The value after, for the value before, of a location of `len` bytes.
    #[must_use]
    pub fn apply(self, before: u64, len: u32) -> u64 {
        let after = match self {
            Self::Add(added) => before.wrapping_add(added),
            Self::And(kept) => before & kept,
            Self::Or(set) => before | set,
            Self::Xor(turned) => before ^ turned,
            Self::Negate => before.wrapping_neg(),
        };
        low_bytes(after, len as usize)
    }

    /// The value before, for the value after, where only one leads to it.
    #[must_use]
    pub fn undo(self, after: u64, len: u32) -> Option<u64> {
        let back = match self {
            Self::Add(added) => Self::Add(added.wrapping_neg()),
            Self::Xor(_) | Self::Negate => self,
            Self::And(_) | Self::Or(_) => return None,
        };
        Some(back.apply(after, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_stay_inside_the_location() {
        assert_eq!(Update::Add(u64::MAX).apply(0, 4), 0xffff_ffff);
        assert_eq!(Update::Add(1).apply(0xff, 1), 0);
        assert_eq!(Update::Xor(u64::MAX).apply(0x0f, 1), 0xf0);
        assert_eq!(Update::Negate.apply(1, 8), u64::MAX);
        assert_eq!(Update::And(3).apply(7, 2), 3);
        assert_eq!(Update::Or(8).apply(7, 2), 15);
    }

    #[test]
    fn what_can_be_undone_is() {
        for update in [Update::Add(200), Update::Xor(0xa5), Update::Negate] {
            for before in 0..=0xff {
                assert_eq!(
                    update.undo(update.apply(before, 1), 1),
                    Some(before),
                    "{update:?}"
                );
            }
        }
        assert_eq!(Update::And(1).undo(0, 1), None);
        assert_eq!(Update::Or(1).undo(1, 1), None);
    }
}

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
}

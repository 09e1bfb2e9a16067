//! What an instruction's flags say about the memory it worked on.

use crate::registers::{CF, SF, ZF};

/// A number of so many bytes, cut to them.
pub(super) fn cut(value: u128, width: u32) -> u128 {
    match width {
        0..16 => value & ((1 << (width * 8)) - 1),
        _ => value,
    }
}

/// An immediate or register, extended with its sign from `from` bytes and cut to `width`.
pub(super) fn sign_extended(value: u64, from: u32, width: u32) -> u128 {
    let bits = 64 - from.clamp(1, 8) * 8;
    let signed = (value << bits).cast_signed() >> bits;
    cut(i128::from(signed).cast_unsigned(), width)
}

fn sign(value: u128, width: u32) -> bool {
    width > 0 && value >> (width.min(16) * 8 - 1) & 1 == 1
}

/// Whether a result is what the flags say it was: zero, negative.
pub(super) fn agree_with(flags: u64, result: u128, width: u32) -> bool {
    let result = cut(result, width);
    (flags & ZF != 0) == (result == 0) && (flags & SF != 0) == sign(result, width)
}

/// Whether `left - right` gives the flags.
pub(super) fn agree_with_comparison(flags: u64, left: u128, right: u128, width: u32) -> bool {
    let (left, right) = (cut(left, width), cut(right, width));
    let carry = (flags & CF != 0) == (left < right);
    carry && agree_with(flags, left.wrapping_sub(right), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_and_cuts() {
        assert_eq!(cut(0x1ff, 1), 0xff);
        assert_eq!(sign_extended(0xff, 1, 4), 0xffff_ffff);
        assert_eq!(sign_extended(0x7f, 1, 4), 0x7f);
        assert!(agree_with(SF, 0x80, 1));
        assert!(!agree_with(0, 0x80, 1));
        assert!(agree_with(ZF, 0x100, 1));
    }

    #[test]
    fn comparisons() {
        assert!(agree_with_comparison(ZF, 5, 5, 4));
        assert!(agree_with_comparison(CF | SF, 4, 5, 4));
        assert!(!agree_with_comparison(0, 4, 5, 4));
        assert!(
            agree_with_comparison(CF, 1, 0x8000_0001, 4) || agree_with_comparison(CF | SF, 1, 0x8000_0001, 4)
        );
    }
}

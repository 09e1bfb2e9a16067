//! Memory that is going to be read soon.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Has the processor bring memory near, at a distance from the start of some bytes. It need not be inside them, nor be
/// memory at all: nothing depends on it but time.
#[inline]
pub fn prefetch(near: &[u8], distance: isize) {
    // SAFETY: a prefetch is a hint; it reads nothing as far as a program can tell, and no address makes it fail.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(near.as_ptr().wrapping_offset(distance).cast()) };
}

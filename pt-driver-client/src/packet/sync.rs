//! Where in the middle of a trace decoding can begin.

use memchr::memmem::Finder;

/// The packet that no other bytes look like.
pub const PSB: [u8; 16] = [
    0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
];

/// The offset of the next PSB at or after an offset.
///
/// A packet in front of a PSB can end in bytes that look like its beginning; the PSB is then the last sixteen
/// bytes of the pattern, not the first.
#[must_use]
pub fn next_psb(trace: &[u8], from: usize) -> Option<usize> {
    let rest = trace.get(from..)?;
    let mut at = from + Finder::new(&PSB).find(rest)?;
    while trace
        .get(at + PSB.len()..)
        .is_some_and(|after| after.starts_with(&PSB[..2]))
    {
        at += 2;
    }
    Some(at)
}

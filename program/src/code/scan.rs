//! Finding displacements that lead to an address, without decoding.
//!
//! Every byte of the code may begin a displacement of four bytes. Read at each of the four alignments, the code is a row of
//! 32-bit words, and one addition and one comparison a word tell whether it leads to the wanted range: a loop
//! that the compiler vectorises. Hits are few, and are checked by decoding.

use rayon::prelude::*;

use crate::addr::{LinkAddr, LinkRange};

/// Immediates of up to four bytes may stand between a displacement and the end of its instruction.
pub(super) const MAX_TRAILING: u64 = 4;

/// Bytes that are tested at once.
const BLOCK: usize = 512;

/// Bytes that one thread takes at a time.
const CHUNK: usize = 1 << 20;

/// What a displacement is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relative {
    /// The end of its instruction.
    ToInstruction,
    /// Nothing: it is an address (in files with fixed addresses).
    ToZero,
}

/// Positions of displacements that may lead into `wanted`, in order.
pub(super) fn scan(code: &[u8], start: LinkAddr, wanted: &LinkRange, relative: Relative) -> Vec<LinkAddr> {
    let (from, len) = match relative {
        // position + 4 + trailing + displacement in wanted
        Relative::ToInstruction => {
            let len = wanted
                .end
                .0
                .saturating_sub(wanted.start.0)
                .saturating_add(MAX_TRAILING);
            (
                start
                    .0
                    .wrapping_add(4 + MAX_TRAILING)
                    .wrapping_sub(wanted.start.0),
                len,
            )
        }
        Relative::ToZero => (
            0u64.wrapping_sub(wanted.start.0),
            wanted.end.0.saturating_sub(wanted.start.0),
        ),
    };
    // Displacements are 32 bits wide, so everything can be reckoned modulo 2^32.
    let test = Test {
        from: from as u32,
        len: u32::try_from(len).unwrap_or(u32::MAX),
        step: u32::from(relative == Relative::ToInstruction),
    };
    let chunk_hits = |index: usize| {
        let at = index * CHUNK;
        let end = (at + CHUNK + 3).min(code.len());
        let mut hits = Vec::new();
        test.chunk(code.get(at..end).unwrap_or_default(), at, &mut hits);
        hits
    };
    let chunks = code.len().div_ceil(CHUNK);
    let hits: Vec<Vec<usize>> = if chunks > 1 {
        (0..chunks).into_par_iter().map(chunk_hits).collect()
    } else {
        (0..chunks).map(chunk_hits).collect()
    };
    hits.into_iter()
        .flatten()
        .map(|at| LinkAddr(start.0.wrapping_add(at as u64)))
        .collect()
}

/// Positions of what may be jumps, conditional or not, with one byte of displacement that leads to `to`.
pub(super) fn short_jumps(code: &[u8], start: LinkAddr, to: LinkAddr) -> impl Iterator<Item = LinkAddr> {
    code.windows(2).enumerate().filter_map(move |(at, bytes)| {
        let &[0x70..=0x7f | 0xeb, displacement] = bytes else {
            return None;
        };
        let place = start.0.checked_add(at as u64)?;
        let target = place
            .checked_add(2)?
            .checked_add_signed(i64::from(displacement.cast_signed()))?;
        (target == to.0).then_some(LinkAddr(place))
    })
}

#[derive(Clone, Copy)]
struct Test {
    from: u32,
    len: u32,
    /// How much the position counts.
    step: u32,
}

impl Test {
    fn holds(self, word: u32, at: u32) -> bool {
        word.wrapping_add(at.wrapping_mul(self.step))
            .wrapping_add(self.from)
            < self.len
    }

    fn chunk(self, code: &[u8], base: usize, hits: &mut Vec<usize>) {
        let mut at = 0;
        while let Some(block) = code.get(at..at + BLOCK + 3) {
            if self.any(block, (base + at) as u32) {
                self.each(block, base + at, BLOCK, hits);
            }
            at += BLOCK;
        }
        let rest = code.get(at..).unwrap_or_default();
        self.each(rest, base + at, rest.len().saturating_sub(3), hits);
    }

    fn any(self, block: &[u8], at: u32) -> bool {
        let mut any = false;
        for phase in 0..4u32 {
            let Some(words) = block.get(phase as usize..phase as usize + BLOCK) else {
                return true;
            };
            let mut position = at
                .wrapping_add(phase)
                .wrapping_mul(self.step)
                .wrapping_add(self.from);
            let step = 4 * self.step;
            for word in words.as_chunks::<4>().0 {
                any |= u32::from_le_bytes(*word).wrapping_add(position) < self.len;
                position = position.wrapping_add(step);
            }
        }
        any
    }

    fn each(self, code: &[u8], base: usize, count: usize, hits: &mut Vec<usize>) {
        let words = code.windows(4).take(count).enumerate();
        hits.extend(words.filter_map(|(at, word)| {
            let word = u32::from_le_bytes(word.try_into().ok()?);
            self.holds(word, (base + at) as u32).then_some(base + at)
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(code: &[u8], start: u64, wanted: &LinkRange) -> Vec<LinkAddr> {
        let places = code.windows(4).enumerate().filter_map(|(at, word)| {
            let displacement = i64::from(i32::from_le_bytes(word.try_into().unwrap()));
            let place = start + at as u64;
            let leads = (0..=4).any(|trailing| {
                wanted.contains(&LinkAddr(
                    (place + 4 + trailing).wrapping_add_signed(displacement),
                ))
            });
            leads.then_some(LinkAddr(place))
        });
        places.collect()
    }

    #[test]
    fn agrees_with_the_plain_search() {
        let mut seed = 1u32;
        let mut code: Vec<u8> = (0..3 * BLOCK + 77)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            })
            .collect();
        let wanted = LinkAddr(0x9000)..LinkAddr(0x9010);
        for at in [0usize, 5, BLOCK - 2, BLOCK, 2 * BLOCK - 1, code.len() - 4] {
            let displacement = (0x9004 - (0x1000 + at as i64 + 4)) as i32;
            code[at..at + 4].copy_from_slice(&displacement.to_le_bytes());
        }
        let found = scan(&code, LinkAddr(0x1000), &wanted, Relative::ToInstruction);
        assert_eq!(found, slow(&code, 0x1000, &wanted));
        assert!(found.len() >= 4, "{found:?}");
    }

    #[test]
    fn short_jumps_reach_as_far_as_a_byte_says() {
        let mut code = [0x90u8; 0x200];
        // Before and behind the target at its limits, conditional, and one that leads elsewhere.
        for (at, bytes) in [
            (0x7f, [0xeb, 0x7f]),
            (0x17e, [0xeb, 0x80]),
            (0xf0, [0x75, 0x0e]),
            (0xf8, [0xeb, 0x07]),
        ] {
            code[at..at + 2].copy_from_slice(&bytes);
        }
        let found: Vec<LinkAddr> = short_jumps(&code, LinkAddr(0x1000), LinkAddr(0x1100)).collect();
        assert_eq!(found, [0x107f, 0x10f0, 0x117e].map(LinkAddr));
        assert_eq!(short_jumps(&code, LinkAddr(u64::MAX - 4), LinkAddr(3)).count(), 0);
    }
}

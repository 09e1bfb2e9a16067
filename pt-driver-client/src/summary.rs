//! A trace in a few numbers, to compare decoders by.

use crate::code::{BlockId, Blocks};
use crate::flow::{Consumer, Gap, Part};
use crate::reference::Instructions;

/// What ran, in numbers. For one decoder alone: it knows blocks by their numbers.
#[derive(Debug, Clone)]
pub struct Summary {
    /// How many instructions.
    pub instructions: u64,
    /// The first one.
    pub first: Option<u64>,
    /// The last one.
    pub last: Option<u64>,
    /// FNV-1a over the addresses of all of them, each as eight little-endian bytes.
    pub fnv1a: u64,
    /// What is not known.
    pub gaps: Vec<Gap>,
    lengths: Lengths,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            instructions: 0,
            first: None,
            last: None,
            fnv1a: 1_469_598_103_934_665_603,
            gaps: Vec::new(),
            lengths: Lengths::default(),
        }
    }
}

/// The lengths of the instructions of each block, read once: a trace goes through most blocks again and again.
#[derive(Debug, Clone, Default)]
struct Lengths {
    /// By the width of the code and the number of the block: where its lengths begin.
    from: [Vec<Option<usize>>; 3],
    all: Vec<u8>,
}

impl Lengths {
    fn of(&mut self, code: &Blocks<'_>, id: BlockId, start: u64, count: u32) -> &[u8] {
        let known = &mut self.from[code.mode() as usize];
        let index = id.0 as usize;
        if known.len() <= index {
            known.resize(code.len().max(index + 1), None);
        }
        let from = *known[index].get_or_insert_with(|| {
            let from = self.all.len();
            let mut addresses = code.addresses(start, count + 1);
            let mut before = addresses.next().unwrap_or(start);
            // No instruction is longer than fifteen bytes.
            self.all.extend(addresses.map(|at| {
                let length = at.wrapping_sub(before) as u8;
                before = at;
                length
            }));
            from
        });
        &self.all[from..from + count as usize]
    }
}

const PRIME: u64 = 1_099_511_628_211;

/// One more address.
#[inline]
fn fnv1a(hash: u64, address: u64) -> u64 {
    // Each byte waits for the one before it. The last two of addresses in user space are zero, and so one step.
    let bytes = address.to_le_bytes();
    let (low, high) = bytes.split_at(6);
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    let hash = low.iter().fold(hash, step);
    if high == [0, 0] {
        hash.wrapping_mul(PRIME.wrapping_mul(PRIME))
    } else {
        high.iter().fold(hash, step)
    }
}

impl Instructions for Summary {
    fn instruction(&mut self, address: u64) {
        self.instructions += 1;
        self.first.get_or_insert(address);
        self.last = Some(address);
        self.fnv1a = fnv1a(self.fnv1a, address);
    }

    fn gap(&mut self, gap: Gap) {
        self.gaps.push(gap);
    }
}

impl Consumer for Summary {
    const EVENTS: bool = false;

    fn blocks(&mut self, code: &Blocks<'_>, blocks: &[BlockId]) {
        for &id in blocks {
            let block = code.block(id);
            if block.instructions == 0 {
                continue;
            }
            let lengths = self.lengths.of(code, id, block.start, block.instructions);
            let (mut hash, mut at) = (self.fnv1a, block.start);
            for &length in lengths {
                hash = fnv1a(hash, at);
                at = at.wrapping_add(length.into());
            }
            self.fnv1a = hash;
            self.instructions += u64::from(block.instructions);
            self.first.get_or_insert(block.start);
            self.last = Some(block.last);
        }
    }

    fn part(&mut self, code: &Blocks<'_>, part: Part) {
        for address in code.addresses(part.start, part.instructions) {
            self.instruction(address);
        }
    }

    fn gap(&mut self, gap: Gap) {
        self.gaps.push(gap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_of_every_byte() {
        for address in [0, 1, 0x47_3fb0, 0x7fff_f785_08e0, 0xffff_ffff_8100_0000, u64::MAX] {
            let expected = address
                .to_le_bytes()
                .iter()
                .fold(1, |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
            assert_eq!(fnv1a(1, address), expected, "{address:#x}");
        }
    }
}

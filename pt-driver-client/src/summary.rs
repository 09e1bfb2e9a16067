//! A trace in a few numbers, to compare decoders by.

use crate::code::{BlockId, Blocks};
use crate::flow::{Consumer, Gap, Part};
use crate::reference::Instructions;

/// What ran, in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            instructions: 0,
            first: None,
            last: None,
            fnv1a: 1_469_598_103_934_665_603,
            gaps: Vec::new(),
        }
    }
}

impl Instructions for Summary {
    fn instruction(&mut self, address: u64) {
        self.instructions += 1;
        self.first.get_or_insert(address);
        self.last = Some(address);
        for byte in address.to_le_bytes() {
            self.fnv1a = (self.fnv1a ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
        }
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
            for address in code.addresses(block.start, block.instructions) {
                self.instruction(address);
            }
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

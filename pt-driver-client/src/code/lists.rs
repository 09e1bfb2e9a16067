//! Lists of blocks, one behind the other, with room behind the last one.

use super::blocks::BlockId;

/// Whoever copies a list may copy this many blocks: a copy of a fixed length is fast.
const SLACK: usize = 16;

/// Lists of blocks.
#[derive(Debug)]
pub struct Lists {
    /// The lists, and at least [`SLACK`] more.
    blocks: Vec<BlockId>,
    used: usize,
}

impl Default for Lists {
    fn default() -> Self {
        Self {
            blocks: vec![BlockId(0); 4096],
            used: 0,
        }
    }
}

impl Lists {
    /// Where the next block will be.
    #[inline]
    pub fn end(&self) -> usize {
        self.used
    }

    /// The blocks from a place on, and whatever is behind.
    #[inline]
    pub fn from(&self, place: usize) -> &[BlockId] {
        &self.blocks[place..]
    }

    /// Adds a block to the last list.
    #[inline]
    pub fn push(&mut self, block: BlockId) {
        if self.used + SLACK >= self.blocks.len() {
            self.blocks.resize(self.blocks.len() * 2, BlockId(0));
        }
        self.blocks[self.used] = block;
        self.used += 1;
    }
}

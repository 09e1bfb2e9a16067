//! Lists of blocks, one behind the other, with room behind the last one.

use super::block::BlockId;

/// Chains up to this length are kept as lists.
pub const MAX_LISTED: usize = 16;

/// Whoever copies a list may copy this many blocks: a copy of a fixed length is fast.
const SLACK: usize = MAX_LISTED;

/// What is copied at once.
const AT_ONCE: usize = 8;

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
            self.grow(1);
        }
        self.blocks[self.used] = block;
        self.used += 1;
    }

    /// Adds the first `count` of some blocks to the last list; fast when there are [`AT_ONCE`] of them.
    #[inline(always)]
    pub fn extend(&mut self, blocks: &[BlockId], count: usize) {
        if self.used + count + SLACK >= self.blocks.len() {
            self.grow(count);
        }
        let to = &mut self.blocks[self.used..];
        if count <= AT_ONCE
            && let (Some(to), Some(from)) = (to.first_chunk_mut::<AT_ONCE>(), blocks.first_chunk())
        {
            *to = *from;
        } else {
            to[..count].copy_from_slice(&blocks[..count]);
        }
        self.used += count;
    }

    /// Adds as many blocks as are listed from a place on, at most [`MAX_LISTED`], to the last list.
    #[inline]
    pub fn repeat(&mut self, place: usize, count: usize) {
        if self.used + 2 * SLACK >= self.blocks.len() {
            self.grow(SLACK);
        }
        self.blocks.copy_within(place..place + SLACK, self.used);
        self.used += count;
    }

    #[cold]
    fn grow(&mut self, by: usize) {
        let wanted = self.used + by + SLACK;
        let doubled = (self.blocks.len() * 2).max(wanted.next_power_of_two());
        self.blocks.resize(doubled, BlockId(0));
    }
}

//! Blocks on their way to the consumer.
//!
//! Steps are a few blocks each, and how many is hard to foresee. So each is copied as if it were [`PADDING`] blocks,
//! without a branch on its length, and the consumer gets many at a time.

use super::consumer::Consumer;
use crate::code::{BlockId, Blocks};

/// What is copied at once.
pub const PADDING: usize = 8;

const CAPACITY: usize = 512;
/// No step is longer: there is always room for one more.
const LONGEST: usize = 256;
/// A power of two above both: what is below it needs no check.
const ROOM: usize = 1024;

/// Blocks that ran.
#[derive(Debug)]
pub struct Batch {
    blocks: Box<[BlockId; ROOM + PADDING]>,
    count: usize,
}

const _: () = assert!(CAPACITY + LONGEST <= ROOM);

impl Default for Batch {
    fn default() -> Self {
        Self {
            blocks: Box::new([BlockId(0); ROOM + PADDING]),
            count: 0,
        }
    }
}

impl Batch {
    /// Whether it has to be flushed before more is added.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.count >= CAPACITY
    }

    /// Adds the first `count` of some blocks, at most [`LONGEST`]; fast when there are [`PADDING`] of them.
    #[inline]
    pub fn extend(&mut self, blocks: &[BlockId], count: usize) {
        let to = &mut self.blocks[self.count % ROOM..];
        if count <= PADDING
            && let (Some(to), Some(from)) = (to.first_chunk_mut::<PADDING>(), blocks.first_chunk::<PADDING>())
        {
            *to = *from;
            self.count += count;
        } else {
            self.extend_many(&blocks[..count]);
        }
    }

    /// Apart, or the compiler makes one copy of both, of a length that is not known.
    #[cold]
    #[inline(never)]
    fn extend_many(&mut self, blocks: &[BlockId]) {
        self.blocks[self.count..][..blocks.len()].copy_from_slice(blocks);
        self.count += blocks.len();
    }

    /// Where the next block will be.
    #[inline]
    pub fn mark(&self) -> usize {
        self.count
    }

    /// The blocks from a mark on, and whatever is behind them.
    #[inline]
    pub fn from(&self, mark: usize) -> &[BlockId] {
        &self.blocks[mark..]
    }

    /// Adds blocks, and hands over what does not fit.
    pub fn extend_slice<C: Consumer>(&mut self, blocks: &[BlockId], code: &Blocks<'_>, consumer: &mut C) {
        for some in blocks.chunks(LONGEST) {
            self.extend(some, some.len());
            if self.is_full() {
                self.flush(code, consumer);
            }
        }
    }

    /// Hands everything over.
    pub fn flush<C: Consumer>(&mut self, code: &Blocks<'_>, consumer: &mut C) {
        let count = std::mem::take(&mut self.count);
        if count > 0 {
            consumer.blocks(code, &self.blocks[..count]);
        }
    }
}

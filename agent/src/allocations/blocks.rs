//! The blocks that a run allocated, and what of them is worth telling.

use std::collections::{BTreeMap, BTreeSet};

use diagnosis::record::{BlockRecord, HitRecord};
use failure::image::{ModuleFiles, Registers};
use program::RunAddr;
use tracee::process::ModuleMap;

use crate::snapshot::calls;

/// Blocks that are told of.
const MOST_TOLD: usize = 32;
/// Calls that are told of: what wraps an allocator is a few deep, and a container more.
const FRAMES: usize = 16;

/// A block, and the thread when it got it.
pub(super) struct Block {
    pub(super) time_ns: u64,
    pub(super) addr: RunAddr,
    pub(super) size: u64,
    /// After the return.
    pub(super) registers: Registers,
    /// From the stack pointer on.
    pub(super) stack: Vec<u8>,
}

impl Block {
    fn word(&self, number: usize) -> Option<u64> {
        let bytes = self.stack.get(number.checked_mul(8)?..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }

    fn contains(&self, addr: RunAddr) -> bool {
        addr.0
            .checked_sub(self.addr.0)
            .is_some_and(|into| into < self.size)
    }
}

/// Blocks that came by the same calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alike {
    blocks: u32,
    /// Which of them one is, from 1.
    nth: u32,
}

/// All of a run, in the order in which they were allocated.
#[derive(Default)]
pub(super) struct Blocks {
    all: Vec<Block>,
}

impl Blocks {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn add(&mut self, block: Block) {
        self.all.push(block);
    }

    /// The blocks that these accesses were in: memory that was given back belongs to whoever got it last.
    pub(super) fn touched(
        &self,
        hits: &[HitRecord],
        modules: &ModuleMap,
        files: &dyn ModuleFiles,
    ) -> Vec<BlockRecord> {
        let mut first: BTreeMap<RunAddr, u64> = BTreeMap::new();
        for hit in hits {
            let time_ns = first.entry(hit.addr).or_insert(hit.time_ns);
            *time_ns = hit.time_ns.min(*time_ns);
        }
        let found = first.into_iter().filter_map(|(addr, time_ns)| {
            let around = |block: &Block| block.time_ns <= time_ns && block.contains(addr);
            self.all.iter().rposition(around)
        });
        let found: BTreeSet<usize> = found.collect();
        let found = found.into_iter().filter_map(|at| self.all.get(at));
        let told = found.take(MOST_TOLD).map(|block| {
            let stack = calls(&block.registers, &block.stack, modules, files, FRAMES);
            let alike = self.alike(block, &stack);
            BlockRecord {
                addr: block.addr,
                size: block.size,
                alike: alike.iter().map(|alike| alike.blocks).collect(),
                nth: alike.iter().map(|alike| alike.nth).collect(),
                stack,
            }
        });
        told.collect()
    }

    /// How many blocks came by the same calls, up to each of them, and which of these this is. A call that was made from the same place by the same callers
    /// has its return address at the same distance from the top of the stack, so nobody else's stack has to be unwound.
    fn alike(&self, block: &Block, stack: &[RunAddr]) -> Vec<Alike> {
        let Some((first, outer)) = stack.split_first() else {
            return Vec::new();
        };
        let mut same: Vec<&Block> = self.all.iter().collect();
        same.retain(|other| other.registers.rip == first.0);
        let mut counts = vec![Alike::of(block, &same)];
        let mut from = 0;
        for back in outer {
            let Some(at) = (from..)
                .map_while(|at| Some((at, block.word(at)?)))
                .find(|(_, word)| *word == back.0)
            else {
                break;
            };
            from = at.0 + 1;
            same.retain(|other| other.word(at.0) == Some(back.0));
            counts.push(Alike::of(block, &same));
        }
        counts
    }
}

impl Alike {
    fn of(block: &Block, same: &[&Block]) -> Self {
        let before = same.iter().take_while(|other| !std::ptr::eq(**other, block));
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            blocks: number(same.len()),
            nth: number(before.count() + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block whose allocator returned to 1, with these words on the stack.
    fn block(words: &[u64]) -> Block {
        Block {
            time_ns: 0,
            addr: RunAddr(0x1000),
            size: 16,
            registers: Registers {
                rip: 1,
                ..Registers::default()
            },
            stack: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        }
    }

    #[test]
    fn blocks_are_alike_as_far_as_their_calls_are() {
        let mut blocks = Blocks::default();
        for words in [[7, 2, 3], [8, 2, 3], [7, 2, 4], [2, 7, 3]] {
            blocks.add(block(&words));
        }
        let stack = [1, 2, 3].map(RunAddr);
        let alike = |of: usize, stack: &[RunAddr]| -> Vec<(u32, u32)> {
            let alike = blocks.alike(&blocks.all[of], stack).into_iter();
            alike.map(|alike| (alike.blocks, alike.nth)).collect()
        };
        assert_eq!(alike(0, &stack), [(4, 1), (3, 1), (2, 1)]);
        assert_eq!(alike(2, &[1, 2, 4].map(RunAddr)), [(4, 3), (3, 3), (1, 1)]);
        // What is further out than the part of the stack that was kept is not known.
        assert_eq!(alike(0, &[1, 2, 9].map(RunAddr)), [(4, 1), (3, 1)]);
    }

    #[test]
    fn an_address_is_in_the_block_that_was_allocated_there_last_before_it_was_used() {
        let at = |time_ns, addr| Block {
            time_ns,
            addr: RunAddr(addr),
            ..block(&[])
        };
        let inside = [at(1, 0x1000), at(5, 0x1000), at(9, 0x1000), at(2, 0x2000)];
        let last = inside
            .iter()
            .rposition(|block| block.time_ns <= 6 && block.contains(RunAddr(0x100f)));
        assert_eq!(last, Some(1));
        assert!(!inside[0].contains(RunAddr(0x1010)));
    }
}

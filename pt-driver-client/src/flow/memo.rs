//! What several outcomes of branches lead to, remembered.
//!
//! Programs repeat themselves: the six outcomes of a TNT packet lead from one block over the same blocks to the same
//! block as the last time. Such a step is one lookup, and its blocks are one slice.

use super::returns::DEPTH;
use crate::code::BlockId;
use crate::code::lists::Lists;

/// Six outcomes with a bit in front that marks where they begin: 2 to 127.
pub type Outcomes = u32;

/// No outcomes are left.
pub const NONE_LEFT: Outcomes = 1;

/// In place of the next block: the one after the call that was remembered last.
pub const POP: u32 = u32::MAX;

/// A step, and what it leads to.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    key: u32,
    /// The block after it, or [`POP`].
    pub next: u32,
    from: u32,
    blocks: u8,
    calls: u8,
    depth: u8,
    rest: u8,
}

impl Step {
    /// How many of its calls were remembered at the same time: at most [`DEPTH`].
    #[inline]
    pub fn depth(&self) -> usize {
        self.depth.into()
    }

    /// How many blocks ran.
    #[inline]
    pub fn blocks(&self) -> usize {
        self.blocks.into()
    }

    /// How many calls were not returned from.
    #[inline]
    pub fn calls(&self) -> usize {
        self.calls.into()
    }

    /// The outcomes that were not used.
    #[inline]
    pub fn rest(&self) -> Outcomes {
        self.rest.into()
    }
}

const EMPTY: u32 = u32::MAX;
const OUTCOME_BITS: u32 = 7;
const OUTCOMES: u32 = (1 << OUTCOME_BITS) - 1;
/// Steps are kept for so many times the number of blocks, so that memory depends on the code and not on the trace.
const STEPS_PER_BLOCK: usize = 16;
const ALWAYS: usize = 4096;

/// The steps that were made.
#[derive(Debug)]
pub struct Memo {
    slots: Vec<Step>,
    shift: u32,
    taken: usize,
    /// The blocks of each step, followed by its calls.
    runs: Lists,
}

impl Default for Memo {
    fn default() -> Self {
        // Eight times the steps of a small trace: most are found where they are looked for first, and whether there is a
        // second look is hard to foresee.
        let bits = 13;
        Self {
            slots: vec![Step::EMPTY; 1 << bits],
            shift: u32::BITS - bits,
            taken: 0,
            runs: Lists::default(),
        }
    }
}

impl Step {
    const EMPTY: Self = Self {
        key: EMPTY,
        next: 0,
        from: 0,
        blocks: 0,
        calls: 0,
        depth: 0,
        rest: 0,
    };
}

impl Memo {
    /// What these outcomes lead to from a block.
    #[inline]
    pub fn get(&self, block: u32, outcomes: Outcomes) -> Option<Step> {
        let key = key(block, outcomes);
        let mask = self.slots.len() - 1;
        let mut slot = self.slot(key);
        loop {
            let step = &self.slots[slot & mask];
            if step.key == key {
                return Some(*step);
            }
            if step.key == EMPTY {
                return None;
            }
            slot += 1;
        }
    }

    /// The blocks of a step, and whatever comes behind them.
    #[inline]
    pub fn from(&self, step: &Step) -> &[BlockId] {
        self.runs.from(step.from as usize)
    }

    /// The calls of a step that were not returned from, and whatever comes behind them.
    #[inline]
    pub fn calls(&self, step: &Step) -> &[BlockId] {
        self.runs.from(step.from as usize + step.blocks())
    }

    /// Remembers a step, unless it is too long or enough are known.
    #[inline]
    pub fn insert(&mut self, known_blocks: usize, block: u32, outcomes: Outcomes, made: &Made<'_>) {
        let (Ok(blocks), Ok(calls)) = (u8::try_from(made.count), u8::try_from(made.call_count)) else {
            return;
        };
        let (Ok(depth), Ok(rest)) = (u8::try_from(made.depth), u8::try_from(made.rest)) else {
            return;
        };
        if made.depth > DEPTH {
            return;
        }
        if block >> (u32::BITS - OUTCOME_BITS) != 0 || self.taken >= known_blocks * STEPS_PER_BLOCK + ALWAYS {
            return;
        }
        let Ok(from) = u32::try_from(self.runs.end()) else {
            return;
        };
        self.runs.extend(made.blocks, made.count);
        self.runs.extend(made.calls, made.call_count);
        if (self.taken + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.place(Step {
            key: key(block, outcomes),
            next: made.next,
            from,
            blocks,
            calls,
            depth,
            rest,
        });
        self.taken += 1;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let larger = vec![Step::EMPTY; self.slots.len() * 2];
        self.shift -= 1;
        let old = std::mem::replace(&mut self.slots, larger);
        for step in old.into_iter().filter(|step| step.key != EMPTY) {
            self.place(step);
        }
    }

    #[inline]
    fn place(&mut self, step: Step) {
        let mask = self.slots.len() - 1;
        let mut slot = self.slot(step.key) & mask;
        while self.slots[slot].key != EMPTY {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = step;
    }

    /// Where a step is looked for first. The outcomes are scattered, the block is added: everything waits for the block,
    /// which the step before told, and nothing for the outcomes, which are in the trace.
    #[inline]
    fn slot(&self, key: u32) -> usize {
        let (block, outcomes) = (key >> OUTCOME_BITS, key & OUTCOMES);
        let scattered = outcomes.wrapping_mul(0x9e37_79b1) >> self.shift;
        block.wrapping_add(scattered) as usize
    }
}

#[inline]
fn key(block: u32, outcomes: Outcomes) -> u32 {
    block << OUTCOME_BITS | outcomes
}

/// A step that was made.
#[derive(Debug)]
pub struct Made<'a> {
    /// The blocks that ran, and whatever is behind them.
    pub blocks: &'a [BlockId],
    /// How many ran.
    pub count: usize,
    /// The calls that were not returned from, and whatever is behind them.
    pub calls: &'a [BlockId],
    /// How many there are.
    pub call_count: usize,
    /// The most calls at the same time.
    pub depth: usize,
    /// The block after it, or [`POP`].
    pub next: u32,
    /// The outcomes that were not used.
    pub rest: Outcomes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_depends_on_the_code_and_not_on_the_trace() {
        const BLOCKS: usize = 10;
        let mut memo = Memo::default();
        let ran = [BlockId(7); 8];
        let made = Made {
            blocks: &ran,
            count: 3,
            calls: &ran,
            call_count: 1,
            depth: 1,
            next: 0,
            rest: NONE_LEFT,
        };
        let most = (BLOCKS * STEPS_PER_BLOCK + ALWAYS) as u32;
        // As many ways as a hostile trace can find.
        for way in 0..2 * most {
            memo.insert(BLOCKS, way / 126, 2 + way % 126, &made);
        }
        assert_eq!(memo.taken, most as usize);
        assert!(memo.slots.len() <= 2 * memo.taken && memo.runs.end() == 4 * memo.taken);
        let step = memo.get(0, 2).expect("the first one is kept");
        assert_eq!(
            (memo.calls(&step)[0], step.calls(), step.blocks()),
            (BlockId(7), 1, 3)
        );
        let last = 2 * most - 1;
        assert!(memo.get(last / 126, 2 + last % 126).is_none());
    }
}

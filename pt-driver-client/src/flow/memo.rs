//! What several outcomes of branches lead to, remembered.
//!
//! Programs repeat themselves: the six outcomes of a TNT packet lead from one block over the same blocks to the same
//! block as the last time. Such a step is one lookup, and its blocks are one slice.

use super::batch::PADDING;
use super::returns::DEPTH;
use crate::code::BlockId;

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

    /// The outcomes that were not used.
    #[inline]
    pub fn rest(&self) -> Outcomes {
        self.rest.into()
    }
}

const EMPTY: u32 = u32::MAX;
const OUTCOME_BITS: u32 = 7;
/// Steps are kept for so many times the number of blocks, so that memory depends on the code and not on the trace.
const STEPS_PER_BLOCK: usize = 16;
const ALWAYS: usize = 4096;

/// Room for the blocks of the steps of a small trace.
const RESERVED: usize = 4096;

/// The steps that were made.
#[derive(Debug)]
pub struct Memo {
    slots: Vec<Step>,
    shift: u32,
    taken: usize,
    /// The blocks of each step, followed by its calls.
    runs: Vec<BlockId>,
}

impl Default for Memo {
    fn default() -> Self {
        // Four times the steps of a small trace: most are found where they are looked for first, and whether there is a
        // second look is hard to foresee.
        let bits = 12;
        Self {
            slots: vec![Step::EMPTY; 1 << bits],
            shift: u32::BITS - bits,
            taken: 0,
            runs: Vec::with_capacity(RESERVED),
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
        &self.runs[step.from as usize..]
    }

    /// The calls of a step that were not returned from.
    #[inline]
    pub fn calls(&self, step: &Step) -> &[BlockId] {
        let from = step.from as usize + usize::from(step.blocks);
        &self.runs[from..from + usize::from(step.calls)]
    }

    /// Remembers a step, unless it is too long or enough are known.
    #[inline]
    pub fn insert(&mut self, known_blocks: usize, block: u32, outcomes: Outcomes, made: &Made<'_>) {
        let (Ok(blocks), Ok(calls)) = (u8::try_from(made.count), u8::try_from(made.calls.len())) else {
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
        let from = self.runs.len();
        match made.blocks.first_chunk::<PADDING>() {
            // A copy of a length that is known needs no call.
            Some(first) if made.count <= PADDING => {
                self.runs.extend_from_slice(first);
                self.runs.truncate(from + made.count);
            }
            _ => self
                .runs
                .extend_from_slice(made.blocks.get(..made.count).unwrap_or_default()),
        }
        self.runs.extend(made.calls.iter().map(|&call| BlockId(call)));
        let Ok(from) = u32::try_from(from) else {
            return;
        };
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

    #[inline]
    fn slot(&self, key: u32) -> usize {
        (key.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
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
    /// The calls that were not returned from.
    pub calls: &'a [u32],
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
        let ran = [BlockId(7); PADDING];
        let made = Made {
            blocks: &ran,
            count: 3,
            calls: &[7],
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
        assert!(memo.slots.len() <= 2 * memo.taken && memo.runs.len() == 4 * memo.taken);
        let step = memo.get(0, 2).expect("the first one is kept");
        assert_eq!((memo.calls(&step), step.blocks()), (&[BlockId(7)][..], 3));
        let last = 2 * most - 1;
        assert!(memo.get(last / 126, 2 + last % 126).is_none());
    }
}

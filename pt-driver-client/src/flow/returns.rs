//! Which calls a compressed return can come back from.
//!
//! Steps have a call or two, and how many is hard to foresee. So they are copied as if they were [`AT_ONCE`], without a
//! branch on their number.

use crate::code::BlockId;

/// The processor remembers this many calls.
pub const DEPTH: usize = 64;

/// What is copied at once.
const AT_ONCE: usize = 2;

/// Calls are written in a circle, which has room for more than are remembered: what is copied in vain overwrites none.
const ROOM: usize = 2 * DEPTH;

const _: () = assert!(DEPTH + AT_ONCE <= ROOM);

/// The last calls, by the block that each ends.
#[derive(Debug, Clone)]
pub struct Returns {
    calls: [BlockId; ROOM],
    top: usize,
    count: usize,
}

impl Default for Returns {
    fn default() -> Self {
        Self {
            calls: [BlockId(0); ROOM],
            top: 0,
            count: 0,
        }
    }
}

impl Returns {
    /// A call. The oldest one is forgotten when there are too many.
    #[inline]
    pub fn push(&mut self, caller: u32) {
        self.push_if(caller, true);
    }

    /// A call, if it is one: without a branch on that.
    #[inline]
    pub fn push_if(&mut self, caller: u32, is_call: bool) {
        self.calls[self.top % ROOM] = BlockId(caller);
        self.added(is_call.into());
    }

    /// The first `count` of some calls, the oldest first; fast when there are [`AT_ONCE`] of them.
    #[inline]
    pub fn extend(&mut self, calls: &[BlockId], count: usize) {
        if count <= AT_ONCE
            && let Some(calls) = calls.first_chunk::<AT_ONCE>()
        {
            for (offset, &call) in calls.iter().enumerate() {
                self.calls[(self.top + offset) % ROOM] = call;
            }
            self.added(count);
        } else {
            calls.iter().take(count).for_each(|call| self.push(call.0));
        }
    }

    #[inline]
    fn added(&mut self, count: usize) {
        self.top = (self.top + count) % ROOM;
        self.count = (self.count + count).min(DEPTH);
    }

    /// The call that a return comes back from.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        self.top = (self.top + ROOM - 1) % ROOM;
        Some(self.calls[self.top % ROOM].0)
    }

    /// Forgets all but the youngest calls.
    #[inline]
    pub fn keep(&mut self, count: usize) {
        self.count = self.count.min(count);
    }
}

/// The calls of one step that were not returned from.
#[derive(Debug)]
pub struct Calls {
    calls: [BlockId; DEPTH + AT_ONCE],
    count: usize,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            calls: [BlockId(0); DEPTH + AT_ONCE],
            count: 0,
        }
    }
}

impl Calls {
    /// Forgets all.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// A call. The oldest one is forgotten when there are too many. How many there were with it.
    #[inline]
    pub fn push(&mut self, caller: u32) -> usize {
        let count = self.count + 1;
        if count > DEPTH {
            self.calls.copy_within(1.., 0);
        }
        self.count = count.min(DEPTH);
        self.calls[self.count - 1] = BlockId(caller);
        count
    }

    /// The call that a return comes back from.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        Some(self.calls[self.count].0)
    }

    /// The calls, the oldest first, with more behind them, and how many there are.
    #[inline]
    pub fn and_more(&self) -> (&[BlockId], usize) {
        (&self.calls, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left, the youngest first.
    fn left(mut returns: Returns) -> Vec<u32> {
        std::iter::from_fn(|| returns.pop()).collect()
    }

    #[test]
    fn copies_in_vain_overwrite_no_call() {
        let calls: Vec<BlockId> = (0..AT_ONCE as u32).map(|id| BlockId(1000 + id)).collect();
        let mut returns = Returns::default();
        for id in 0..3 * ROOM as u32 {
            returns.push(id);
            returns.extend(&calls, 0);
            returns.push_if(1000, false);
        }
        let last = 3 * ROOM as u32;
        let youngest: Vec<u32> = (last - DEPTH as u32..last).rev().collect();
        assert_eq!(left(returns), youngest);
    }

    #[test]
    fn many_calls_at_once_are_those_calls_one_by_one() {
        let calls: Vec<BlockId> = (0..100).map(BlockId).collect();
        for count in 0..calls.len() {
            let (mut at_once, mut one_by_one) = (Returns::default(), Returns::default());
            at_once.extend(&calls, count);
            calls.iter().take(count).for_each(|call| one_by_one.push(call.0));
            assert_eq!(left(at_once), left(one_by_one));
        }
    }

    #[test]
    fn a_step_forgets_its_oldest_calls() {
        let mut calls = Calls::default();
        let counts: Vec<usize> = (0..DEPTH as u32 + 2).map(|id| calls.push(id)).collect();
        assert_eq!(counts[DEPTH - 1..], [DEPTH, DEPTH + 1, DEPTH + 1]);
        let (kept, count) = calls.and_more();
        assert_eq!(
            kept[..count],
            (2..DEPTH as u32 + 2).map(BlockId).collect::<Vec<_>>()
        );
        assert_eq!(calls.pop(), Some(DEPTH as u32 + 1));
    }
}

//! The parts of one function that can run before, or beside, a point of it.

use super::ended::Ended;
use crate::cfg::{Cfg, Direction};

/// An instruction by its block and its place in the function's instruction stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The block.
    pub block: usize,
    /// The instruction's number; grows along a block.
    pub instruction: u32,
}

/// A set of a function's instructions: whole blocks, and blocks up to some instruction.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    whole: Vec<bool>,
    /// The points that the function can stand at: of their blocks, what comes before them, and themselves.
    beginnings: Vec<Position>,
}

impl Parts {
    pub(super) fn none(cfg: &Cfg) -> Self {
        Self {
            whole: vec![false; cfg.len()],
            beginnings: Vec::new(),
        }
    }

    pub(super) fn contains(&self, position: Position) -> bool {
        self.has_passed(position) || self.stands_at(position)
    }

    /// Whether `position` can lie behind: it ran, and control went on from there.
    pub(super) fn has_passed(&self, position: Position) -> bool {
        self.whole.get(position.block).copied().unwrap_or(false)
            || self.beginnings.iter().any(|beginning| {
                beginning.block == position.block && position.instruction < beginning.instruction
            })
    }

    /// Whether `position` is one of the points that the function can stand at.
    pub(super) fn stands_at(&self, position: Position) -> bool {
        self.beginnings.contains(&position)
    }

    /// Adds what can run before `point`, and `point`. Says whether that was new.
    pub(super) fn add_before(&mut self, cfg: &Cfg, point: Position) -> bool {
        if self.beginnings.contains(&point) {
            return false;
        }
        self.beginnings.push(point);
        let earlier = cfg.predecessors(point.block).iter().map(|&block| block as usize);
        self.add(&cfg.reach(earlier, Direction::Backward, |_| false));
        true
    }

    /// Adds what is left of a block behind a point that does not end it.
    pub(super) fn add_rest(&mut self, block: usize) {
        if let Some(whole) = self.whole.get_mut(block) {
            *whole = true;
        }
    }

    /// Adds what can run after the call at `point`, which ends its block, until what it started is `ended`.
    /// Says whether the function can then still return.
    pub(super) fn add_after(&mut self, cfg: &Cfg, point: Position, ended: &Ended) -> bool {
        let mut seen = vec![false; cfg.len()];
        let mut stack: Vec<usize> = Vec::new();
        let mut returns = cfg.leaves(point.block);
        let mut at = Some(point.block);
        while let Some(block) = at {
            for &next in cfg.successors(block) {
                let next = next as usize;
                if !ended.cuts(block, next) && !std::mem::replace(&mut seen[next], true) {
                    returns |= cfg.leaves(next) && !ended.joins.contains(&next);
                    stack.push(next);
                }
            }
            at = stack.pop();
        }
        self.add(&seen);
        returns
    }

    fn add(&mut self, blocks: &[bool]) {
        self.whole
            .iter_mut()
            .zip(blocks)
            .for_each(|(whole, block)| *whole |= block);
    }
}

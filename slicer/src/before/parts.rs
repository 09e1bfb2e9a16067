//! The parts of one function that can run before, or beside, a point of it.

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

    /// Adds what can run after the call at `point`, which ends its block, until a thread has ended that is
    /// awaited at the end of each of `joins`. Says whether the function can then still return.
    pub(super) fn add_after(&mut self, cfg: &Cfg, point: Position, joins: &[usize]) -> bool {
        let ended = ended_by(cfg, point.block, joins);
        let mut seen = vec![false; cfg.len()];
        let mut stack: Vec<usize> = Vec::new();
        let mut returns = cfg.leaves(point.block);
        let mut at = Some(point.block);
        while let Some(block) = at {
            for &next in cfg.successors(block) {
                let next = next as usize;
                if !ended.cuts(block, next) && !std::mem::replace(&mut seen[next], true) {
                    returns |= cfg.leaves(next) && !joins.contains(&next);
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

/// Where the awaited thread is over.
struct Ended {
    /// By block: the loops that await it, each a set of blocks; leaving one means that the thread is over.
    loops: Vec<Vec<bool>>,
    joins: Vec<usize>,
}

impl Ended {
    fn cuts(&self, from: usize, to: usize) -> bool {
        self.joins.contains(&from) || self.loops.iter().any(|blocks| blocks[from] && !blocks[to])
    }
}

/// A join in a loop that does not create the thread belongs to a loop over all threads that were created:
/// they are over when it is left, although, seen alone, the loop might not run once.
fn ended_by(cfg: &Cfg, creation: usize, joins: &[usize]) -> Ended {
    let mut ended = Ended {
        loops: Vec::new(),
        joins: Vec::new(),
    };
    for &join in joins {
        let next = cfg.successors(join).iter().map(|&block| block as usize);
        let after = cfg.reach(next, Direction::Forward, |_| false);
        let before = cfg.reach([join], Direction::Backward, |_| false);
        let cycle: Vec<bool> = after
            .iter()
            .zip(before)
            .map(|(after, before)| *after && before)
            .collect();
        let loops = cycle.get(join).copied().unwrap_or(false);
        let creates = cycle.get(creation).copied().unwrap_or(false);
        if loops && !creates {
            ended.loops.push(cycle);
        } else {
            ended.joins.push(join);
        }
    }
    ended
}

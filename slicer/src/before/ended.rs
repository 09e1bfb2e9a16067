//! Where, in the function that created it, an awaited thread is over.

use crate::cfg::Cfg;
use crate::threads::Joins;

/// Where the awaited thread is over.
#[derive(Default)]
pub(super) struct Ended {
    /// Blocks that await it.
    pub(super) joins: Vec<usize>,
    /// Loops that await it, each a set of blocks: leaving one means that the thread is over.
    loops: Vec<Vec<bool>>,
    /// Edges past such a loop, or past a join.
    skips: Vec<(usize, usize)>,
}

impl Ended {
    /// A thread that was created at the end of the block `creation` and is awaited at `joins`.
    ///
    /// A join in a loop that does not create the thread belongs to a loop over all threads that were created:
    /// they are over when it is left, although, seen alone, the loop might not run once. Compilers test for
    /// that before the loop and leave out the test in it: `alike` tells whether two blocks test one thing.
    pub(super) fn new(
        cfg: &Cfg,
        creation: usize,
        joins: &Joins,
        alike: impl Fn(usize, usize) -> bool,
    ) -> Self {
        let mut ended = Self::default();
        for &join in &joins.blocks {
            match cfg.cycle_around(join) {
                Some(cycle) if !cycle.get(creation).copied().unwrap_or(false) => {
                    ended.skips.extend(skips(cfg, &cycle, &alike));
                    ended.loops.push(cycle);
                }
                _ => ended.joins.push(join),
            }
        }
        if !joins.blocks.is_empty() {
            ended.skips.extend(&joins.skips);
        }
        ended
    }

    /// Whether the thread is over when control goes from one block to another.
    pub(super) fn cuts(&self, from: usize, to: usize) -> bool {
        self.joins.contains(&from)
            || self.skips.contains(&(from, to))
            || self.loops.iter().any(|blocks| blocks[from] && !blocks[to])
    }
}

/// Edges past a loop, from the test before it to where the loop is left to.
fn skips(cfg: &Cfg, cycle: &[bool], alike: impl Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
    let within = |block: usize| cycle.get(block).copied().unwrap_or(false);
    let leaving: Vec<usize> = (0..cfg.len()).filter(|&block| within(block)).collect();
    let targets = leaving.iter().flat_map(|&from| successors(cfg, from));
    let exits: Vec<usize> = targets
        .filter(|&to| !within(to))
        .flat_map(|to| straight(cfg, to))
        .collect();
    let mut skips = Vec::new();
    for guard in (0..cfg.len()).filter(|&guard| !within(guard) && cfg.decides(guard)) {
        let enters = |to: usize| straight(cfg, to).into_iter().any(within);
        if !successors(cfg, guard).any(enters) {
            continue;
        }
        let tests = leaving
            .iter()
            .any(|&last| successors(cfg, last).any(|to| !within(to)) && alike(guard, last));
        let past = successors(cfg, guard).filter(|&to| straight(cfg, to).iter().any(|at| exits.contains(at)));
        skips.extend(past.filter(|_| tests).map(|to| (guard, to)));
    }
    skips
}

fn successors(cfg: &Cfg, block: usize) -> impl Iterator<Item = usize> + '_ {
    let next = cfg.successors(block).iter().map(|&to| to as usize);
    next.filter(|&to| Some(to) != cfg.unwinder())
}

/// A few blocks that follow one another without a choice or a call between them.
fn straight(cfg: &Cfg, from: usize) -> Vec<usize> {
    const MAX: usize = 4;
    let only = |&block: &usize| match cfg.successors(block) {
        &[next] => Some(next as usize),
        _ => None,
    };
    std::iter::successors(Some(from), only).take(MAX).collect()
}

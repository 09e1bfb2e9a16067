//! One function's control flow, reduced to what the graph algorithms need.
//!
//! Blocks are numbered from 0. Successors keep the order in which they were given, so that "the second way
//! out of block 7" means the same to everybody; a block may name one successor twice (both ways of a branch
//! going to one place) and then has two edges.

use program::code::FlowGraph;

/// A control-flow graph: blocks, edges, where it is entered and where it is left.
#[derive(Clone, Debug)]
pub struct Cfg {
    entry: u32,
    successors: Lists,
    predecessors: Lists,
    leaves: Vec<bool>,
    unwinder: Option<usize>,
}

/// Many short lists in two arrays.
#[derive(Clone, Debug)]
struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    fn new(count: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0u32; count + 1];
        for (list, _) in pairs.clone() {
            starts[list as usize + 1] += 1;
        }
        for i in 0..count {
            starts[i + 1] += starts[i];
        }
        let mut items = vec![0; starts[count] as usize];
        let mut next = starts.clone();
        for (list, item) in pairs {
            items[next[list as usize] as usize] = item;
            next[list as usize] += 1;
        }
        Self { starts, items }
    }

    fn get(&self, list: usize) -> &[u32] {
        match (self.starts.get(list), self.starts.get(list + 1)) {
            (Some(&from), Some(&to)) => &self.items[from as usize..to as usize],
            _ => &[],
        }
    }
}

impl Cfg {
    /// A graph of `blocks` blocks entered at `entry`. Edges that name a block that does not exist are left
    /// out, as is everything else about such a block.
    ///
    /// `leaves` names blocks that can leave the function although they have successors (a conditional tail
    /// jump). Blocks without successors leave it anyway.
    #[must_use]
    pub fn new(
        blocks: usize,
        entry: usize,
        edges: impl IntoIterator<Item = (usize, usize)>,
        leaves: impl IntoIterator<Item = usize>,
    ) -> Self {
        let blocks = blocks.min(u32::MAX as usize - 1);
        let number = |block: usize| u32::try_from(block).ok().filter(|_| block < blocks);
        let edges: Vec<(u32, u32)> = edges
            .into_iter()
            .filter_map(|(from, to)| Some((number(from)?, number(to)?)))
            .collect();
        let successors = Lists::new(blocks, edges.iter().copied());
        let predecessors = Lists::new(blocks, edges.iter().map(|&(from, to)| (to, from)));
        let mut leaving: Vec<bool> = (0..blocks)
            .map(|block| successors.get(block).is_empty())
            .collect();
        for block in leaves {
            if let Some(leaves) = leaving.get_mut(block) {
                *leaves = true;
            }
        }
        Self {
            entry: number(entry).unwrap_or(0),
            successors,
            predecessors,
            leaves: leaving,
            unwinder: None,
        }
    }

    /// The block that stands for the unwinder, if exceptions are part of the graph.
    #[must_use]
    pub fn unwinder(&self) -> Option<usize> {
        self.unwinder
    }

    /// How many blocks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leaves.len()
    }

    /// Whether there is no block at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Where the function is entered.
    #[must_use]
    pub fn entry(&self) -> usize {
        self.entry as usize
    }

    /// The ends of the edges out of `block`, in the order given.
    #[must_use]
    pub fn successors(&self, block: usize) -> &[u32] {
        self.successors.get(block)
    }

    /// The starts of the edges into `block`, one for each edge.
    #[must_use]
    pub fn predecessors(&self, block: usize) -> &[u32] {
        self.predecessors.get(block)
    }

    /// Whether control can leave the function from `block`.
    #[must_use]
    pub fn leaves(&self, block: usize) -> bool {
        self.leaves.get(block).copied().unwrap_or(false)
    }

    /// Whether more than one thing can happen after `block`: two different successors, or one and leaving.
    #[must_use]
    pub fn decides(&self, block: usize) -> bool {
        match self.successors(block) {
            [] => false,
            [first, rest @ ..] => self.leaves(block) || rest.iter().any(|other| other != first),
        }
    }

    /// Marks what can be reached from `starts` (themselves included) without entering a block for which
    /// `barred` holds. A barred start is not entered either.
    #[must_use]
    pub fn reach(
        &self,
        starts: impl IntoIterator<Item = usize>,
        direction: Direction,
        barred: impl Fn(usize) -> bool,
    ) -> Vec<bool> {
        let mut seen = vec![false; self.len()];
        let mut stack: Vec<usize> = Vec::new();
        let mut enter = |block: usize, stack: &mut Vec<usize>| {
            if let Some(seen) = seen.get_mut(block)
                && !*seen
                && !barred(block)
            {
                *seen = true;
                stack.push(block);
            }
        };
        for start in starts {
            enter(start, &mut stack);
        }
        while let Some(block) = stack.pop() {
            let next = match direction {
                Direction::Forward => self.successors(block),
                Direction::Backward => self.predecessors(block),
            };
            for &block in next {
                enter(block as usize, &mut stack);
            }
        }
        seen
    }
}

impl Cfg {
    /// The blocks that can come both after and before `block`, if it can come after itself. Exceptions make
    /// no loops.
    #[must_use]
    pub fn cycle_around(&self, block: usize) -> Option<Vec<bool>> {
        let unwinds = |block| Some(block) == self.unwinder;
        let next = self.successors(block).iter().map(|&block| block as usize);
        let after = self.reach(next, Direction::Forward, unwinds);
        let before = self.reach([block], Direction::Backward, unwinds);
        let both = after.iter().zip(before).map(|(after, before)| *after && before);
        let cycle: Vec<bool> = both.collect();
        cycle.get(block).copied().unwrap_or(false).then_some(cycle)
    }
}

/// The blocks of a function, numbered as in the flow graph. Landing pads, which only exceptions lead to, have
/// no predecessors here and so are unreachable: the graph for control dependence, in which a call that may
/// throw is no decision.
#[must_use]
pub fn of_flow(flow: &FlowGraph) -> Cfg {
    build(flow, false)
}

/// [`of_flow`], with ways from every call to every landing pad. They lead through one more block, behind
/// the others: the unwinder.
#[must_use]
pub fn with_exceptions(flow: &FlowGraph) -> Cfg {
    build(flow, true)
}

fn build(flow: &FlowGraph, exceptions: bool) -> Cfg {
    let unwinder = flow.blocks.len();
    let numbered = || flow.blocks.iter().enumerate();
    let mut edges: Vec<(usize, usize)> = numbered()
        .flat_map(|(from, block)| block.succs.iter().map(move |to| (from, to.0 as usize)))
        .collect();
    let pads: Vec<usize> = numbered()
        .filter(|(_, block)| exceptions && block.exceptional && block.preds.is_empty())
        .map(|(pad, _)| pad)
        .collect();
    if !pads.is_empty() {
        let calls = numbered().filter(|(_, block)| block.exit.target().is_some());
        edges.extend(calls.map(|(call, _)| (call, unwinder)));
        edges.extend(pads.iter().map(|&pad| (unwinder, pad)));
    }
    let leaves = numbered()
        .filter(|(_, block)| block.exit.leaves())
        .map(|(block, _)| block);
    let blocks = flow.blocks.len() + usize::from(!pads.is_empty());
    let entry = flow.entry.map_or(0, |entry| entry.0 as usize);
    let mut cfg = Cfg::new(blocks, entry, edges, leaves);
    cfg.unwinder = (!pads.is_empty()).then_some(unwinder);
    cfg
}

/// Along the edges or against them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a block to its successors.
    Forward,
    /// From a block to its predecessors.
    Backward,
}

#[cfg(test)]
pub(crate) mod arbitrary {
    //! Random graphs for property tests.

    use super::Cfg;
    use proptest::prelude::*;

    /// Graphs of 1 to `most` blocks in which most blocks have one or two successors, a few none or three.
    /// Unreachable blocks, endless loops, self loops and doubled edges all occur.
    pub(crate) fn cfg(most: usize) -> impl Strategy<Value = Cfg> {
        (1..=most).prop_flat_map(|blocks| {
            let fan_out = prop_oneof![1 => Just(0usize), 4 => Just(1), 5 => Just(2), 1 => Just(3)];
            let outs = fan_out.prop_flat_map(move |fan| prop::collection::vec(0..blocks, fan));
            let leaves = prop::collection::vec(prop::bool::weighted(0.1), blocks);
            (prop::collection::vec(outs, blocks), leaves).prop_map(move |(outs, leaves)| {
                let edges = outs
                    .iter()
                    .enumerate()
                    .flat_map(|(from, to)| to.iter().map(move |&to| (from, to)));
                let leaves = leaves
                    .iter()
                    .enumerate()
                    .filter(|(_, leaves)| **leaves)
                    .map(|(block, _)| block);
                Cfg::new(blocks, 0, edges, leaves)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_keep_their_order_and_bad_ones_vanish() {
        let cfg = Cfg::new(3, 0, [(0, 2), (0, 1), (0, 2), (1, 9), (7, 1)], [1, 8]);
        assert_eq!(cfg.successors(0), [2, 1, 2]);
        assert_eq!(cfg.predecessors(2), [0, 0]);
        assert_eq!(cfg.successors(1), [0u32; 0]);
        assert_eq!(cfg.successors(99), [0u32; 0]);
        assert!(cfg.leaves(1) && cfg.leaves(2) && !cfg.leaves(0));
    }

    #[test]
    fn a_decision_needs_two_outcomes() {
        let cfg = Cfg::new(4, 0, [(0, 1), (0, 1), (1, 2), (1, 3), (2, 3)], [2]);
        let deciding: Vec<usize> = (0..4).filter(|&block| cfg.decides(block)).collect();
        assert_eq!(deciding, [1, 2]);
    }

    #[test]
    fn reach_stops_at_the_bar() {
        let cfg = Cfg::new(5, 0, [(0, 1), (1, 2), (2, 3), (3, 1), (0, 4)], []);
        assert_eq!(
            cfg.reach([0], Direction::Forward, |b| b == 2),
            [true, true, false, false, true]
        );
        assert_eq!(
            cfg.reach([3], Direction::Backward, |b| b == 1),
            [false, false, true, true, false]
        );
    }
}

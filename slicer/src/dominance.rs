//! Dominators and post-dominators.
//!
//! Lengauer and Tarjan's algorithm with path compression: O(edges · log blocks) on every graph, which the
//! shorter iterative algorithms do not promise on hostile ones. "Does a dominate b" is then a comparison of
//! the numbers that a walk over the dominator tree gave to both.

use crate::cfg::{Cfg, Direction};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;

const NONE: u32 = u32::MAX;

/// Which block must come before which: `a` dominates `b` when every way from the entry to `b` goes through `a`.
#[derive(Clone, Debug)]
pub struct DomTree {
    idom: Vec<u32>,
    /// When a walk over the tree enters and leaves each block; (NONE, 0) for unreachable ones.
    span: Vec<(u32, u32)>,
}

impl DomTree {
    /// The dominators of `cfg`.
    #[must_use]
    pub fn new(cfg: &Cfg) -> Self {
        Self::of(
            cfg.len(),
            cfg.entry(),
            |b| cfg.successors(b),
            |b| cfg.predecessors(b),
        )
    }

    fn of<'g>(
        len: usize,
        root: usize,
        successors: impl Fn(usize) -> &'g [u32],
        predecessors: impl Fn(usize) -> &'g [u32],
    ) -> Self {
        let idom = lengauer_tarjan(len, root, successors, predecessors);
        let span = number_tree(&idom, root);
        Self { idom, span }
    }

    /// The immediate dominator: the last block that every way to `block` goes through before it. The entry
    /// and unreachable blocks have none.
    #[must_use]
    pub fn idom(&self, block: usize) -> Option<usize> {
        self.idom
            .get(block)
            .filter(|&&idom| idom != NONE)
            .map(|&idom| idom as usize)
    }

    /// Whether `block` can be reached from the entry at all.
    #[must_use]
    pub fn is_reachable(&self, block: usize) -> bool {
        self.span.get(block).is_some_and(|span| span.0 != NONE)
    }

    /// Whether every way from the entry to `b` goes through `a`; every reachable block dominates itself.
    /// Unreachable blocks neither dominate nor are dominated.
    #[must_use]
    pub fn dominates(&self, a: usize, b: usize) -> bool {
        match (self.span.get(a), self.span.get(b)) {
            (Some(a), Some(b)) => a.0 != NONE && b.0 != NONE && a.0 <= b.0 && b.1 <= a.1,
            _ => false,
        }
    }

    /// [`DomTree::dominates`], of another block than itself.
    #[must_use]
    pub fn strictly_dominates(&self, a: usize, b: usize) -> bool {
        a != b && self.dominates(a, b)
    }

    /// The strict dominators of `block`, nearest first.
    pub fn strict_dominators(&self, block: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.idom(block), |&block| self.idom(block))
    }
}

/// Which block must come after which: `a` post-dominates `b` when every way from `b` out of the function
/// goes through `a`.
///
/// All blocks that leave the function lead to one virtual exit. Blocks that cannot reach a leaving block run
/// for ever; for each loop they can end up in (strongly connected, no way out), the block of that loop that
/// comes last in reverse post-order from the entry, usually the one that jumps back, is taken to lead to
/// the virtual exit too. Inside `for (;;) { if (a) x(); else y(); z(); }`, `z` so post-dominates the `if`,
/// as a reader would expect. Loops that the entry does not reach are ended at their highest-numbered block.
#[derive(Clone, Debug)]
pub struct PostDomTree {
    tree: DomTree,
}

impl PostDomTree {
    /// The post-dominators of `cfg`.
    #[must_use]
    pub fn new(cfg: &Cfg) -> Self {
        let exit = cfg.len();
        let mut ends: Vec<usize> = (0..cfg.len()).filter(|&block| cfg.leaves(block)).collect();
        ends.extend(loop_ends(cfg, &ends));
        ends.sort_unstable();

        // The reversed graph: the virtual exit leads to every end, and an end has it as one predecessor more.
        let exit_leads_to: Vec<u32> = ends.iter().map(|&end| end as u32).collect();
        let came_from: Vec<(usize, Vec<u32>)> = ends
            .iter()
            .map(|&end| {
                (
                    end,
                    cfg.successors(end).iter().copied().chain([exit as u32]).collect(),
                )
            })
            .collect();
        let tree = DomTree::of(
            cfg.len() + 1,
            exit,
            |block| {
                if block == exit {
                    exit_leads_to.as_slice()
                } else {
                    cfg.predecessors(block)
                }
            },
            |block| match came_from.binary_search_by_key(&block, |(end, _)| *end) {
                Ok(at) => came_from[at].1.as_slice(),
                Err(_) => cfg.successors(block),
            },
        );
        Self { tree }
    }

    fn exit(&self) -> usize {
        self.tree.idom.len() - 1
    }

    /// The immediate post-dominator: the first block that every way out from `block` goes through after it.
    /// `None` when that is the end of the function.
    #[must_use]
    pub fn ipdom(&self, block: usize) -> Option<usize> {
        self.tree.idom(block).filter(|&ipdom| ipdom != self.exit())
    }

    /// Whether every way out from `b` goes through `a`; every block post-dominates itself.
    #[must_use]
    pub fn post_dominates(&self, a: usize, b: usize) -> bool {
        a != self.exit() && b != self.exit() && self.tree.dominates(a, b)
    }

    /// A numbering of the blocks in which the blocks that `block` post-dominates are those with numbers from
    /// `span(block).0` to `span(block).1`.
    pub(crate) fn span(&self, block: usize) -> (u32, u32) {
        self.tree.span.get(block).copied().unwrap_or((NONE, 0))
    }

    /// [`PostDomTree::post_dominates`], of another block than itself.
    #[must_use]
    pub fn strictly_post_dominates(&self, a: usize, b: usize) -> bool {
        a != b && self.post_dominates(a, b)
    }
}

/// For each inescapable loop of `cfg`, the block that stands for its end.
fn loop_ends(cfg: &Cfg, leaving: &[usize]) -> Vec<usize> {
    let ends_somewhere = cfg.reach(leaving.iter().copied(), Direction::Backward, |_| false);
    if ends_somewhere.iter().all(|&ends| ends) {
        return Vec::new();
    }
    let mut graph: DiGraph<usize, ()> = DiGraph::new();
    let mut node = vec![None; cfg.len()];
    for block in (0..cfg.len()).filter(|&block| !ends_somewhere[block]) {
        node[block] = Some(graph.add_node(block));
    }
    for block in 0..cfg.len() {
        for &next in cfg.successors(block) {
            // Whatever follows a block that cannot leave cannot leave either.
            if let (Some(from), Some(to)) = (node[block], node[next as usize]) {
                graph.add_edge(from, to, ());
            }
        }
    }
    let lateness = reverse_post_order(cfg);
    let loops = kosaraju_scc(&graph);
    let mut loop_of = vec![0; graph.node_count()];
    for (at, nodes) in loops.iter().enumerate() {
        for node in nodes {
            loop_of[node.index()] = at;
        }
    }
    let stays = |at: usize, node| graph.neighbors(node).all(|next| loop_of[next.index()] == at);
    let inescapable = loops
        .iter()
        .enumerate()
        .filter(|(at, nodes)| nodes.iter().all(|&node| stays(*at, node)));
    inescapable
        .filter_map(|(_, nodes)| {
            nodes
                .iter()
                .map(|&node| graph[node])
                .max_by_key(|&b| (lateness[b], b))
        })
        .collect()
}

/// Each block's place in reverse post-order from the entry; 0 for unreachable blocks, the entry has 1.
fn reverse_post_order(cfg: &Cfg) -> Vec<u32> {
    let mut place = vec![0; cfg.len()];
    let mut seen = vec![false; cfg.len()];
    let mut finished = Vec::new();
    let mut stack = Vec::new();
    if !cfg.is_empty() {
        seen[cfg.entry()] = true;
        stack.push((cfg.entry(), 0));
    }
    while let Some((block, next)) = stack.last_mut() {
        match cfg.successors(*block).get(*next) {
            Some(&to) => {
                *next += 1;
                if !std::mem::replace(&mut seen[to as usize], true) {
                    stack.push((to as usize, 0));
                }
            }
            None => {
                finished.push(*block);
                stack.pop();
            }
        }
    }
    for (at, &block) in finished.iter().rev().enumerate() {
        place[block] = at as u32 + 1;
    }
    place
}

/// Immediate dominators by block; `NONE` for the root and for what it does not reach.
fn lengauer_tarjan<'g>(
    len: usize,
    root: usize,
    successors: impl Fn(usize) -> &'g [u32],
    predecessors: impl Fn(usize) -> &'g [u32],
) -> Vec<u32> {
    let mut result = vec![NONE; len];
    if root >= len {
        return result;
    }
    // From here on blocks go by their number in a depth-first walk; `block` leads back.
    let mut number = vec![NONE; len];
    let mut block: Vec<u32> = Vec::new();
    let mut parent: Vec<u32> = Vec::new();
    let mut stack = vec![(root as u32, 0u32)];
    while let Some((at, from)) = stack.pop() {
        if number[at as usize] != NONE {
            continue;
        }
        let mine = block.len() as u32;
        number[at as usize] = mine;
        block.push(at);
        parent.push(from);
        stack.extend(successors(at as usize).iter().rev().map(|&next| (next, mine)));
    }

    let count = block.len();
    let mut semi: Vec<u32> = (0..count as u32).collect();
    let mut idom = vec![0u32; count];
    let mut forest = Forest::new(count);
    let mut bucket: Vec<Vec<u32>> = vec![Vec::new(); count];
    for w in (1..count).rev() {
        for &from in predecessors(block[w] as usize) {
            let v = number[from as usize];
            if v != NONE {
                let u = forest.lowest(v, &semi);
                semi[w] = semi[w].min(semi[u as usize]);
            }
        }
        bucket[semi[w] as usize].push(w as u32);
        forest.link(parent[w], w as u32);
        for v in std::mem::take(&mut bucket[parent[w] as usize]) {
            let u = forest.lowest(v, &semi);
            idom[v as usize] = if semi[u as usize] < semi[v as usize] {
                u
            } else {
                parent[w]
            };
        }
    }
    for w in 1..count {
        if idom[w] != semi[w] {
            idom[w] = idom[idom[w] as usize];
        }
        result[block[w] as usize] = block[idom[w] as usize];
    }
    result
}

/// The forest of blocks handled so far, with the block of least semidominator on each path to a root.
struct Forest {
    ancestor: Vec<u32>,
    label: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    fn new(count: usize) -> Self {
        Self {
            ancestor: vec![NONE; count],
            label: (0..count as u32).collect(),
            path: Vec::new(),
        }
    }

    fn link(&mut self, parent: u32, child: u32) {
        self.ancestor[child as usize] = parent;
    }

    fn lowest(&mut self, v: u32, semi: &[u32]) -> u32 {
        let mut at = v;
        while self.ancestor[at as usize] != NONE {
            self.path.push(at);
            at = self.ancestor[at as usize];
        }
        // Compress from the top down; a root's own label does not count for those below it.
        let root = at;
        let mut above = NONE;
        while let Some(node) = self.path.pop() {
            if above != NONE {
                let best = self.label[above as usize];
                if semi[best as usize] < semi[self.label[node as usize] as usize] {
                    self.label[node as usize] = best;
                }
                self.ancestor[node as usize] = root;
            }
            above = node;
        }
        self.label[v as usize]
    }
}

fn number_tree(idom: &[u32], root: usize) -> Vec<(u32, u32)> {
    let mut span = vec![(NONE, 0); idom.len()];
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); idom.len()];
    for (block, &idom) in idom.iter().enumerate() {
        if idom != NONE {
            children[idom as usize].push(block as u32);
        }
    }
    let mut clock = 0;
    let mut stack = Vec::new();
    if root < idom.len() {
        stack.push((root, false));
    }
    while let Some((block, left)) = stack.pop() {
        clock += 1;
        if left {
            span[block].1 = clock;
        } else {
            span[block].0 = clock;
            stack.push((block, true));
            stack.extend(children[block].iter().rev().map(|&child| (child as usize, false)));
        }
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfg::arbitrary;
    use petgraph::algo::dominators::simple_fast;
    use proptest::prelude::*;

    fn post_dominators(cfg: &Cfg) -> Vec<Option<usize>> {
        let tree = PostDomTree::new(cfg);
        (0..cfg.len()).map(|block| tree.ipdom(block)).collect()
    }

    #[test]
    fn a_diamond_in_a_loop() {
        // 0 → 1 → {2, 3} → 4 → {1, 5}
        let cfg = Cfg::new(6, 0, [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 1), (4, 5)], []);
        let tree = DomTree::new(&cfg);
        let idoms: Vec<_> = (0..6).map(|block| tree.idom(block)).collect();
        assert_eq!(idoms, [None, Some(0), Some(1), Some(1), Some(1), Some(4)]);
        assert_eq!(
            post_dominators(&cfg),
            [Some(1), Some(4), Some(4), Some(4), Some(5), None]
        );
        assert_eq!(tree.strict_dominators(5).collect::<Vec<_>>(), [4, 1, 0]);
    }

    #[test]
    fn an_endless_loop_ends_where_it_jumps_back() {
        // 0 → 1 → {2, 3} → 4 → 1, for ever
        let cfg = Cfg::new(5, 0, [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 1)], []);
        assert_eq!(post_dominators(&cfg), [Some(1), Some(4), Some(4), Some(4), None]);
    }

    #[test]
    fn of_two_loops_in_a_row_only_the_last_gets_an_end() {
        // 0 → 1 ⇄ 2, 1 → 3 ⇄ 4: nothing leaves, the loop 3-4 cannot be escaped.
        let cfg = Cfg::new(5, 0, [(0, 1), (1, 2), (2, 1), (1, 3), (3, 4), (4, 3)], []);
        assert_eq!(post_dominators(&cfg), [Some(1), Some(3), Some(1), Some(4), None]);
    }

    #[test]
    fn long_chains_need_no_deep_stack() {
        let blocks = 300_000;
        let edges = (1..blocks).flat_map(|block| [(block - 1, block), (block, block - 1)]);
        let cfg = Cfg::new(blocks, 0, edges, [blocks - 1]);
        assert_eq!(DomTree::new(&cfg).idom(blocks - 1), Some(blocks - 2));
        assert_eq!(PostDomTree::new(&cfg).ipdom(0), Some(1));
    }

    #[test]
    fn no_blocks_no_dominators() {
        let cfg = Cfg::new(0, 0, [], []);
        assert_eq!(DomTree::new(&cfg).idom(0), None);
        assert_eq!(PostDomTree::new(&cfg).ipdom(0), None);
    }

    /// By the definition: taking `a` away cuts `b` off.
    fn cuts_off(cfg: &Cfg, a: usize, b: usize) -> bool {
        let reach = cfg.reach([cfg.entry()], Direction::Forward, |_| false)[b];
        reach && (a == b || !cfg.reach([cfg.entry()], Direction::Forward, |block| block == a)[b])
    }

    proptest! {
        #[test]
        fn dominance_is_what_the_definition_says(cfg in arbitrary::cfg(14)) {
            let tree = DomTree::new(&cfg);
            for a in 0..cfg.len() {
                for b in 0..cfg.len() {
                    prop_assert_eq!(tree.dominates(a, b), cuts_off(&cfg, a, b), "{} over {}", a, b);
                }
            }
        }

        #[test]
        fn petgraph_finds_the_same_immediate_dominators(cfg in arbitrary::cfg(60)) {
            let mut graph: DiGraph<(), ()> = DiGraph::new();
            let nodes: Vec<_> = (0..cfg.len()).map(|_| graph.add_node(())).collect();
            for from in 0..cfg.len() {
                for &to in cfg.successors(from) {
                    graph.add_edge(nodes[from], nodes[to as usize], ());
                }
            }
            let theirs = simple_fast(&graph, nodes[cfg.entry()]);
            let tree = DomTree::new(&cfg);
            for (block, &node) in nodes.iter().enumerate() {
                let expected = theirs.immediate_dominator(node).map(|node| node.index());
                prop_assert_eq!(tree.idom(block), expected);
            }
        }

        #[test]
        fn post_dominance_is_what_the_definition_says(cfg in arbitrary::cfg(14)) {
            let leaving: Vec<usize> = (0..cfg.len()).filter(|&block| cfg.leaves(block)).collect();
            let ends = cfg.reach(leaving.iter().copied(), Direction::Backward, |_| false);
            let tree = PostDomTree::new(&cfg);
            // Blocks that may run for ever follow a convention; for the others there is a definition.
            for b in (0..cfg.len()).filter(|&b| ends[b]) {
                let all_end = cfg.reach([b], Direction::Forward, |_| false).iter().zip(&ends).all(|(r, e)| !r || *e);
                for a in (0..cfg.len()).filter(|_| all_end) {
                    let without = cfg.reach([b], Direction::Forward, |block| block == a);
                    let must = a == b || !leaving.iter().any(|&end| without[end]);
                    prop_assert_eq!(tree.post_dominates(a, b), must, "{} after {}", a, b);
                }
            }
        }

        #[test]
        fn every_block_gets_to_the_end_somehow(cfg in arbitrary::cfg(30)) {
            let tree = PostDomTree::new(&cfg);
            prop_assert!((0..cfg.len()).all(|block| tree.post_dominates(block, block)));
        }
    }
}

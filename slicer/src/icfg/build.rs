//! Building the thread-ICFG: functions are outlined in parallel, then joined into one graph.

use program::LinkAddr;
use program::code::{Code, FunctionId};

use super::directory::Directory;
use super::outline::{Edge, Outline};
use super::{EdgeKind, Node, ThreadIcfg};

/// A call that has to do with a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadCall {
    /// The calling function.
    pub function: FunctionId,
    /// The call instruction.
    pub at: LinkAddr,
    /// The thread's start routine.
    pub routine: FunctionId,
}

/// What threads add to the graph; the thread model finds it.
#[derive(Clone, Debug, Default)]
pub struct ThreadEdges {
    /// Calls that create a thread.
    pub creations: Vec<ThreadCall>,
    /// Calls that wait for a thread.
    pub joins: Vec<ThreadCall>,
}

impl ThreadIcfg {
    /// The graph of a whole file.
    #[must_use]
    pub fn build(code: &Code<'_>, threads: &ThreadEdges) -> Self {
        Self::join(&code.sweep_into(Outline::default, Outline::add), threads)
    }

    /// The graph of some functions only. Calls of others lead nowhere but past the call.
    #[must_use]
    pub fn around(code: &Code<'_>, functions: &[FunctionId], threads: &ThreadEdges) -> Self {
        let mut functions = functions.to_vec();
        functions.sort_unstable();
        functions.dedup();
        let mut outline = Outline::default();
        functions.into_iter().for_each(|id| outline.add(&code.flow(id)));
        Self::join(&[outline], threads)
    }

    /// `outlines` are in the order of their functions.
    fn join(outlines: &[Outline], threads: &ThreadEdges) -> Self {
        let mut graph = Self::default();
        graph.number(outlines);
        let threads = graph.thread_edges(outlines, threads);
        graph.connect(outlines, &threads);
        graph
    }

    /// Gives every block and exit its node.
    fn number(&mut self, outlines: &[Outline]) {
        let functions = outlines.iter().map(|outline| outline.functions.len()).sum();
        self.functions.reserve_exact(functions);
        self.entries.reserve_exact(functions);
        self.bases.reserve_exact(functions + 1);
        self.addrs
            .reserve_exact(outlines.iter().map(|outline| outline.addrs.len()).sum());
        self.bases.push(0);
        for outline in outlines {
            let base = self.next_node();
            self.addrs.extend_from_slice(&outline.addrs);
            for outlined in &outline.functions {
                self.functions.push(outlined.function);
                self.entries.push(outlined.entry);
                self.bases.push(base + outlined.exit + 1);
            }
        }
        self.directory = Directory::new(&self.functions);
    }

    /// Nodes are 32-bit numbers; a file whose code has four billion blocks cannot be mapped at all.
    fn next_node(&self) -> Node {
        u32::try_from(self.addrs.len()).unwrap_or(u32::MAX)
    }

    /// Lays out the edges by where they start: those of blocks as they come, with room for those of exits,
    /// which come from everywhere. `threads` are sorted.
    fn connect(&mut self, outlines: &[Outline], threads: &[(Node, Node, EdgeKind)]) {
        let mut returns = vec![0u32; self.functions.len()];
        for back in outlines.iter().flat_map(|outline| &outline.returns) {
            if let Some(place) = self.place_of(back.callee) {
                returns[place] += 1;
            }
        }
        let edges = outlines.iter().map(Outline::edge_count).sum::<usize>() + threads.len();
        self.starts.reserve_exact(self.addrs.len() + 1);
        self.targets.reserve_exact(edges);
        self.kinds.reserve_exact(edges);
        let mut threads = threads.iter().peekable();
        let mut base = 0;
        let mut place = 0;
        for outline in outlines {
            for at in 0..u32::try_from(outline.addrs.len()).unwrap_or(u32::MAX) {
                let node = base + at;
                self.starts.push(self.edge_count() as u32);
                for edge in outline.edges(at) {
                    let to = match *edge {
                        Edge::Flow(to) => Some(base + to),
                        Edge::Call(callee) => self.entry_of(callee),
                    };
                    to.into_iter().for_each(|to| self.push(to, edge.kind()));
                }
                if self.bases.get(place + 1).is_some_and(|next| node + 1 == *next) {
                    // From here on: where the next return goes.
                    let room = std::mem::replace(&mut returns[place], self.edge_count() as u32);
                    let end = self.edge_count() + room as usize;
                    self.targets.resize(end, 0);
                    self.kinds.resize(end, EdgeKind::Return);
                    place += 1;
                }
                while let Some((_, to, kind)) = threads.next_if(|(from, _, _)| *from == node) {
                    self.push(*to, *kind);
                }
            }
            base += u32::try_from(outline.addrs.len()).unwrap_or(u32::MAX);
        }
        self.starts.push(self.edge_count() as u32);
        let mut base = 0;
        for outline in outlines {
            for back in &outline.returns {
                if let Some(place) = self.place_of(back.callee) {
                    self.targets[returns[place] as usize] = base + back.to;
                    returns[place] += 1;
                }
            }
            base += u32::try_from(outline.addrs.len()).unwrap_or(u32::MAX);
        }
    }

    fn push(&mut self, to: Node, kind: EdgeKind) {
        self.targets.push(to);
        self.kinds.push(kind);
    }

    fn thread_edges(&self, outlines: &[Outline], threads: &ThreadEdges) -> Vec<(Node, Node, EdgeKind)> {
        let creations = threads.creations.iter().filter_map(|call| {
            let from = self.block_at(call.function, call.at)?;
            Some((from, self.entry_of(call.routine)?, EdgeKind::Create))
        });
        let joins = threads.joins.iter().filter_map(|call| {
            let waiting = self.block_at(call.function, call.at)?;
            let next =
                next_block(outlines, waiting).filter(|next| Some(*next) != self.exit_of(call.function))?;
            Some((self.exit_of(call.routine)?, next, EdgeKind::Join))
        });
        let mut edges: Vec<_> = creations.chain(joins).collect();
        // Edges of one node stay in the order of the calls.
        edges.sort_by_key(|(from, _, _)| *from);
        edges
    }
}

/// The node that control goes on to from a block.
fn next_block(outlines: &[Outline], node: Node) -> Option<Node> {
    let mut base = 0;
    for outline in outlines {
        let nodes = u32::try_from(outline.addrs.len()).unwrap_or(u32::MAX);
        if let Some(at) = node.checked_sub(base).filter(|at| *at < nodes) {
            return outline.edges(at).iter().find_map(|edge| match edge {
                Edge::Flow(next) => Some(base + next),
                Edge::Call(_) => None,
            });
        }
        base = base.saturating_add(nodes);
    }
    None
}

//! Building the thread-ICFG: functions are outlined one by one, in parallel, then joined into one graph.

use program::LinkAddr;
use program::code::{Code, Exit, FlowGraph, FunctionId, Target};

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

/// What the graph needs of a function.
struct Outline {
    function: FunctionId,
    entry: Option<u32>,
    starts: Vec<LinkAddr>,
    flow: Vec<(u32, u32)>,
    leaves: Vec<u32>,
    /// The calling block, the callee, the block after the call (none for tail calls).
    calls: Vec<(u32, FunctionId, Option<u32>)>,
}

impl Outline {
    fn of(graph: &FlowGraph) -> Self {
        let mut outline = Self {
            function: graph.function,
            entry: graph.entry.map(|entry| entry.0),
            starts: Vec::with_capacity(graph.blocks.len()),
            flow: Vec::with_capacity(graph.blocks.len() + graph.blocks.len() / 2),
            leaves: Vec::new(),
            calls: Vec::new(),
        };
        for (at, block) in (0..).zip(&graph.blocks) {
            outline.starts.push(block.start);
            outline.flow.extend(block.succs.iter().map(|next| (at, next.0)));
            if block.exit.leaves() {
                outline.leaves.push(at);
            }
            if let Some(Target::Function(callee)) = block.exit.target() {
                let next = match block.exit {
                    Exit::Call(_) => block.succs.first().map(|next| next.0),
                    _ => None,
                };
                outline.calls.push((at, callee, next));
            }
        }
        outline
    }
}

impl ThreadIcfg {
    /// The graph of a whole file.
    #[must_use]
    pub fn build(code: &Code<'_>, threads: &ThreadEdges) -> Self {
        Self::join(code.sweep_map(Outline::of), threads)
    }

    /// The graph of some functions only. Calls of others lead nowhere but past the call.
    #[must_use]
    pub fn around(code: &Code<'_>, functions: &[FunctionId], threads: &ThreadEdges) -> Self {
        let mut functions = functions.to_vec();
        functions.sort_unstable();
        functions.dedup();
        Self::join(
            functions
                .into_iter()
                .map(|id| Outline::of(&code.flow(id)))
                .collect(),
            threads,
        )
    }

    /// `outlines` are in the order of their functions.
    fn join(outlines: Vec<Outline>, threads: &ThreadEdges) -> Self {
        let mut graph = Self::default();
        let blocks: usize = outlines.iter().map(|outline| outline.starts.len() + 1).sum();
        graph.addrs.reserve_exact(blocks);
        graph.bases.push(0);
        for outline in &outlines {
            graph.functions.push(outline.function);
            graph.entries.push(outline.entry);
            graph.addrs.extend_from_slice(&outline.starts);
            graph.addrs.push(LinkAddr(0));
            // Nodes are 32-bit numbers; a file whose code has four billion blocks cannot be mapped at all.
            graph
                .bases
                .push(u32::try_from(graph.addrs.len()).unwrap_or(u32::MAX));
        }
        let thread_edges = graph.thread_edges(&outlines, threads);
        let each = |visit: &mut dyn FnMut(Node, Node, EdgeKind)| {
            graph.each_edge(&outlines, visit);
            thread_edges
                .iter()
                .for_each(|&(from, to, kind)| visit(from, to, kind));
        };
        let (starts, targets, kinds) = in_rows(graph.addrs.len(), each);
        Self {
            starts,
            targets,
            kinds,
            ..graph
        }
    }

    fn each_edge(&self, outlines: &[Outline], visit: &mut dyn FnMut(Node, Node, EdgeKind)) {
        for (place, outline) in outlines.iter().enumerate() {
            let (base, exit) = (self.bases[place], self.bases[place + 1] - 1);
            for &(from, to) in &outline.flow {
                visit(base + from, base + to, EdgeKind::Flow);
            }
            for &from in &outline.leaves {
                visit(base + from, exit, EdgeKind::Flow);
            }
            for &(from, callee, next) in &outline.calls {
                if let Some(entry) = self.entry_of(callee) {
                    visit(base + from, entry, EdgeKind::Call);
                }
                if let (Some(left), Some(next)) = (self.exit_of(callee), next) {
                    visit(left, base + next, EdgeKind::Return);
                }
                // A tail call's callee returns for its caller.
                if let (Some(left), None) = (self.exit_of(callee), next)
                    && outline.leaves.binary_search(&from).is_ok()
                {
                    visit(left, exit, EdgeKind::Return);
                }
            }
        }
    }

    fn thread_edges(&self, outlines: &[Outline], threads: &ThreadEdges) -> Vec<(Node, Node, EdgeKind)> {
        let creations = threads.creations.iter().filter_map(|call| {
            let from = self.block_at(call.function, call.at)?;
            Some((from, self.entry_of(call.routine)?, EdgeKind::Create))
        });
        let joins = threads.joins.iter().filter_map(|call| {
            let place = self.functions.binary_search(&call.function).ok()?;
            let base = *self.bases.get(place)?;
            let waiting = self.block_at(call.function, call.at)? - base;
            let (_, next) = outlines
                .get(place)?
                .flow
                .iter()
                .find(|(from, _)| *from == waiting)?;
            Some((self.exit_of(call.routine)?, base + next, EdgeKind::Join))
        });
        creations.chain(joins).collect()
    }
}

type Rows = (Vec<u32>, Vec<Node>, Vec<EdgeKind>);

/// Sorts edges by where they start, in two rounds over them: counting, then placing.
fn in_rows(nodes: usize, each: impl Fn(&mut dyn FnMut(Node, Node, EdgeKind))) -> Rows {
    let mut starts = vec![0u32; nodes + 1];
    each(&mut |from, _, _| starts[from as usize + 1] += 1);
    for node in 0..nodes {
        starts[node + 1] += starts[node];
    }
    let count = starts[nodes] as usize;
    let (mut targets, mut kinds) = (vec![0; count], vec![EdgeKind::Flow; count]);
    let mut next = starts.clone();
    each(&mut |from, to, kind| {
        let place = next[from as usize] as usize;
        targets[place] = to;
        kinds[place] = kind;
        next[from as usize] += 1;
    });
    (starts, targets, kinds)
}

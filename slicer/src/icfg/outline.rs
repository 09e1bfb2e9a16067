//! What the graph needs of functions, many in one: a program has hundreds of thousands of small ones.

use program::LinkAddr;
use program::code::{Exit, FlowGraph, FunctionId, Target};

use super::{EdgeKind, Node};

/// Some functions that are to be part of the graph. Nodes are counted from the first of them.
#[derive(Default)]
pub(super) struct Outline {
    pub functions: Vec<Outlined>,
    /// The address of each node.
    pub addrs: Vec<LinkAddr>,
    /// Where each node's edges begin.
    starts: Vec<u32>,
    edges: Vec<Edge>,
    pub returns: Vec<Return>,
}

/// A function of an outline.
pub(super) struct Outlined {
    pub function: FunctionId,
    /// Its first block, among its own.
    pub entry: Option<u32>,
    /// Its exit.
    pub exit: Node,
}

/// An edge from a block.
#[derive(Clone, Copy)]
pub(super) enum Edge {
    /// To a node of the same function.
    Flow(Node),
    /// To the first block of a function.
    Call(FunctionId),
}

/// An edge from a function's exit to where it is called.
pub(super) struct Return {
    pub callee: FunctionId,
    pub to: Node,
}

impl Outline {
    /// Adds a function, to be called in the order of functions.
    pub fn add(&mut self, graph: &FlowGraph) {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let first = number(self.addrs.len());
        let exit = first + number(graph.blocks.len());
        self.functions.push(Outlined {
            function: graph.function,
            entry: graph.entry.map(|entry| entry.0),
            exit,
        });
        for block in &graph.blocks {
            self.addrs.push(block.start);
            self.starts.push(number(self.edges.len()));
            let next = block.succs.iter().map(|next| Edge::Flow(first + next.0));
            self.edges.extend(next);
            if block.exit.leaves() {
                self.edges.push(Edge::Flow(exit));
            }
            if let Some(Target::Function(callee)) = block.exit.target() {
                self.edges.push(Edge::Call(callee));
                let to = match block.exit {
                    Exit::Call(_) => block.succs.first().map(|next| first + next.0),
                    // A tail call's callee returns for its caller.
                    Exit::TailCall(_) | Exit::ConditionalTailCall(_) => Some(exit),
                    _ => None,
                };
                self.returns.extend(to.map(|to| Return { callee, to }));
            }
        }
        self.addrs.push(LinkAddr(0));
        self.starts.push(number(self.edges.len()));
    }

    /// How many edges there are, or a few more: some lead to functions that are not part of the graph.
    pub fn edge_count(&self) -> usize {
        self.edges.len() + self.returns.len()
    }

    /// The edges of a node; none of an exit.
    pub fn edges(&self, node: Node) -> &[Edge] {
        let from = self.starts.get(node as usize).copied();
        let from = from.map_or(self.edges.len(), |from| from as usize);
        let to = self.starts.get(node as usize + 1).copied();
        let to = to.map_or(self.edges.len(), |to| to as usize);
        self.edges.get(from..to).unwrap_or_default()
    }
}

impl Edge {
    pub fn kind(self) -> EdgeKind {
        match self {
            Self::Flow(_) => EdgeKind::Flow,
            Self::Call(_) => EdgeKind::Call,
        }
    }
}

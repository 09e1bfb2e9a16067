//! The thread-ICFG: control flow across functions and threads.
//!
//! Nodes are the blocks of functions, and for each function one node more, its exit, through which every
//! return goes: a function with five returns and a thousand callers has 1005 return edges, not 5000. Edges
//! are of five kinds ([`EdgeKind`]). A call has two ways on: into the callee, and (where it returns at all)
//! past the call.
//!
//! The graph is stored as arrays of 32-bit numbers, a whole program's in about twice the size of its
//! machine code, and can be handed to petgraph's algorithms.

mod build;
mod directory;
mod outline;
mod visit;

use program::LinkAddr;
use program::code::FunctionId;

use directory::Directory;

pub use build::{ThreadCall, ThreadEdges};
pub use visit::Seen;

/// A node: a block, or a function's exit.
pub type Node = u32;

/// What an edge stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EdgeKind {
    /// From block to block of a function, and from the blocks that leave it to its exit.
    Flow,
    /// From a call to the first block of the callee. Tail calls too.
    Call,
    /// From a function's exit to where a call of it goes on.
    Return,
    /// From a call that creates a thread to the first block of its start routine.
    Create,
    /// From the exit of a thread's start routine to where a call that waited for it goes on.
    Join,
}

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// The block that begins at this address.
    Block(LinkAddr),
    /// The end of the function.
    Exit,
}

/// The thread-ICFG of one file, or of some of its functions.
#[derive(Clone, Debug, Default)]
pub struct ThreadIcfg {
    /// The functions that are part of the graph, ascending.
    functions: Vec<FunctionId>,
    directory: Directory,
    /// Where each function's nodes begin, and the end. The last node of a function is its exit.
    bases: Vec<u32>,
    /// Where each function's entry block is among its nodes; none for a function that could not be read.
    entries: Vec<Option<u32>>,
    /// The address of each block; zero for exits.
    addrs: Vec<LinkAddr>,
    /// Where each node's edges begin, and the end.
    starts: Vec<u32>,
    targets: Vec<Node>,
    kinds: Vec<EdgeKind>,
}

impl ThreadIcfg {
    /// How many nodes there are.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.addrs.len()
    }

    /// How many edges there are.
    #[must_use]
    pub fn edge_count(&self) -> usize {
        self.targets.len()
    }

    /// The ends of a node's edges.
    pub fn successors(&self, node: Node) -> impl Iterator<Item = (Node, EdgeKind)> + '_ {
        let range = match (self.starts.get(node as usize), self.starts.get(node as usize + 1)) {
            (Some(&from), Some(&to)) => from as usize..to as usize,
            _ => 0..0,
        };
        let targets = self.targets.get(range.clone()).unwrap_or_default();
        let kinds = self.kinds.get(range).unwrap_or_default();
        targets.iter().copied().zip(kinds.iter().copied())
    }

    /// Every edge.
    pub fn edges(&self) -> impl Iterator<Item = (Node, Node, EdgeKind)> + '_ {
        let nodes = 0..u32::try_from(self.node_count()).unwrap_or(u32::MAX);
        nodes.flat_map(|from| self.successors(from).map(move |(to, kind)| (from, to, kind)))
    }

    /// The function that a node belongs to.
    #[must_use]
    pub fn function_of(&self, node: Node) -> Option<FunctionId> {
        let place = self.bases.partition_point(|&base| base <= node).checked_sub(1)?;
        self.functions.get(place).copied()
    }

    /// What a node stands for.
    #[must_use]
    pub fn kind_of(&self, node: Node) -> Option<NodeKind> {
        let place = self.bases.partition_point(|&base| base <= node);
        let last = self.bases.get(place)?.checked_sub(1)?;
        let addr = self.addrs.get(node as usize)?;
        Some(if node == last {
            NodeKind::Exit
        } else {
            NodeKind::Block(*addr)
        })
    }

    fn place_of(&self, function: FunctionId) -> Option<usize> {
        self.directory.find(&self.functions, function)
    }

    /// The node of a function's first block.
    #[must_use]
    pub fn entry_of(&self, function: FunctionId) -> Option<Node> {
        let place = self.place_of(function)?;
        Some(self.bases.get(place)? + (*self.entries.get(place)?)?)
    }

    /// The node of a function's exit.
    #[must_use]
    pub fn exit_of(&self, function: FunctionId) -> Option<Node> {
        let place = self.place_of(function)?;
        self.bases.get(place + 1)?.checked_sub(1)
    }

    /// The node of a function's block that an address lies in or behind; blocks that nothing reaches are not
    /// part of a function.
    #[must_use]
    pub fn block_at(&self, function: FunctionId, addr: LinkAddr) -> Option<Node> {
        let place = self.place_of(function)?;
        let (from, to) = (
            *self.bases.get(place)?,
            self.bases.get(place + 1)?.checked_sub(1)?,
        );
        let blocks = self.addrs.get(from as usize..to as usize)?;
        let before = blocks.partition_point(|&start| start <= addr).checked_sub(1)?;
        u32::try_from(before).ok().map(|before| from + before)
    }
}

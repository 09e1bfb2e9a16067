//! The thread-ICFG as petgraph sees graphs.

use petgraph::Directed;
use petgraph::visit::{
    GraphBase, GraphProp, IntoNeighbors, IntoNodeIdentifiers, NodeCompactIndexable, NodeCount, NodeIndexable,
    VisitMap, Visitable,
};

use super::{Node, ThreadIcfg};

impl GraphBase for ThreadIcfg {
    type NodeId = Node;
    type EdgeId = u32;
}

impl GraphProp for ThreadIcfg {
    type EdgeType = Directed;
}

impl NodeCount for ThreadIcfg {
    fn node_count(&self) -> usize {
        Self::node_count(self)
    }
}

impl NodeIndexable for ThreadIcfg {
    fn node_bound(&self) -> usize {
        Self::node_count(self)
    }

    fn to_index(&self, node: Node) -> usize {
        node as usize
    }

    fn from_index(&self, index: usize) -> Node {
        u32::try_from(index).unwrap_or(u32::MAX)
    }
}

impl NodeCompactIndexable for ThreadIcfg {}

/// The nodes that a walk has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen(Vec<bool>);

impl VisitMap<Node> for Seen {
    fn visit(&mut self, node: Node) -> bool {
        self.0
            .get_mut(node as usize)
            .is_some_and(|seen| !std::mem::replace(seen, true))
    }

    fn is_visited(&self, node: &Node) -> bool {
        self.0.get(*node as usize).copied().unwrap_or(false)
    }

    fn unvisit(&mut self, node: Node) -> bool {
        self.0.get_mut(node as usize).is_some_and(std::mem::take)
    }
}

impl Visitable for ThreadIcfg {
    type Map = Seen;

    fn visit_map(&self) -> Seen {
        Seen(vec![false; Self::node_count(self)])
    }

    fn reset_map(&self, map: &mut Seen) {
        *map = self.visit_map();
    }
}

impl IntoNodeIdentifiers for &ThreadIcfg {
    type NodeIdentifiers = std::ops::Range<Node>;

    fn node_identifiers(self) -> Self::NodeIdentifiers {
        0..u32::try_from(ThreadIcfg::node_count(self)).unwrap_or(u32::MAX)
    }
}

impl<'g> IntoNeighbors for &'g ThreadIcfg {
    type Neighbors = std::iter::Copied<std::slice::Iter<'g, Node>>;

    fn neighbors(self, node: Node) -> Self::Neighbors {
        let range = match (self.starts.get(node as usize), self.starts.get(node as usize + 1)) {
            (Some(&from), Some(&to)) => from as usize..to as usize,
            _ => 0..0,
        };
        self.targets.get(range).unwrap_or_default().iter().copied()
    }
}

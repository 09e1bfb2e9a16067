//! Loops, and what decides whether they are left.

use crate::cfg::{Cfg, Direction};
use crate::dominance::DomTree;

/// The blocks that decide whether the innermost loop around `block` is left, in their order. Empty where there is no loop, or
/// none that ends.
#[must_use]
pub fn exits_around(cfg: &Cfg, dominators: &DomTree, block: usize) -> Vec<usize> {
    let headers = std::iter::once(block).chain(dominators.strict_dominators(block));
    let natural = headers.filter_map(|header| body(cfg, dominators, header));
    // One that is entered in several places has no header: all that goes round with the block is the loop.
    let any = std::iter::once_with(|| cfg.cycle_around(block)).flatten();
    natural
        .chain(any)
        .find(|body| body.get(block).copied().unwrap_or(false))
        .map(|body| exits(cfg, &body))
        .unwrap_or_default()
}

/// The blocks of the loop that begins at `header`, if one does: those that lead back there without leaving its reach.
fn body(cfg: &Cfg, dominators: &DomTree, header: usize) -> Option<Vec<bool>> {
    let before = cfg.predecessors(header).iter().map(|&block| block as usize);
    let latches: Vec<usize> = before
        .filter(|&block| dominators.dominates(header, block))
        .collect();
    if latches.is_empty() {
        return None;
    }
    // Code that nothing leads to may lead into a loop all the same.
    let outside = |block| !dominators.strictly_dominates(header, block);
    let mut body = cfg.reach(latches, Direction::Backward, outside);
    if let Some(inside) = body.get_mut(header) {
        *inside = true;
    }
    Some(body)
}

fn exits(cfg: &Cfg, body: &[bool]) -> Vec<usize> {
    let inside = |block: usize| body.get(block).copied().unwrap_or(false);
    let leaves = |block: &usize| {
        cfg.leaves(*block) || cfg.successors(*block).iter().any(|&next| !inside(next as usize))
    };
    (0..cfg.len())
        .filter(|&block| inside(block) && cfg.decides(block))
        .filter(leaves)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfg::arbitrary;
    use proptest::prelude::*;

    fn exits_of(cfg: &Cfg, block: usize) -> Vec<usize> {
        exits_around(cfg, &DomTree::new(cfg), block)
    }

    #[test]
    fn a_loop_is_left_where_its_conditions_are() {
        // while (1 && 2) 3; 4
        let cfg = Cfg::new(5, 0, [(0, 1), (1, 2), (1, 4), (2, 3), (2, 4), (3, 1)], []);
        assert_eq!(exits_of(&cfg, 3), [1, 2]);
        assert_eq!(exits_of(&cfg, 1), [1, 2]);
        assert_eq!(exits_of(&cfg, 0), [0usize; 0]);
        assert_eq!(exits_of(&cfg, 4), [0usize; 0]);
    }

    #[test]
    fn it_is_the_innermost_loop_that_counts() {
        // while (1) { while (2) 3; } 4
        let nested = [(0, 1), (1, 2), (1, 4), (2, 3), (3, 2), (2, 1)];
        let cfg = Cfg::new(5, 0, nested, []);
        assert_eq!(exits_of(&cfg, 3), [2]);
        assert_eq!(exits_of(&cfg, 1), [1]);
        // if (1) for (;;) 2; 3
        let cfg = Cfg::new(4, 0, [(0, 1), (1, 2), (1, 3), (2, 2)], []);
        assert_eq!(exits_of(&cfg, 2), [0usize; 0]);
    }

    #[test]
    fn returning_leaves_a_loop() {
        // for (;;) { if (1) return; 2 }
        let cfg = Cfg::new(4, 0, [(0, 1), (1, 2), (1, 3), (2, 1)], [3]);
        assert_eq!(exits_of(&cfg, 2), [1]);
        // A conditional tail jump.
        let cfg = Cfg::new(3, 0, [(0, 1), (1, 2), (2, 1)], [2]);
        assert_eq!(exits_of(&cfg, 1), [2]);
    }

    #[test]
    fn a_loop_with_two_entrances_is_one() {
        let cfg = Cfg::new(4, 0, [(0, 1), (0, 2), (1, 2), (2, 1), (2, 3)], []);
        assert_eq!(exits_of(&cfg, 1), [2]);
    }

    proptest! {
        #[test]
        fn exits_are_on_a_way_round(cfg in arbitrary::cfg(14)) {
            let dominators = DomTree::new(&cfg);
            for block in 0..cfg.len() {
                let exits = exits_around(&cfg, &dominators, block);
                let cycle = cfg.cycle_around(block);
                prop_assert!(exits.is_empty() || cycle.is_some());
                for exit in exits {
                    prop_assert!(cfg.decides(exit));
                    prop_assert!(cycle.as_ref().is_some_and(|cycle| cycle[exit]));
                }
            }
        }
    }
}

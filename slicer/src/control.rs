//! Control dependence, after Ferrante, Ottenstein and Warren.
//!
//! A block depends on a decision when one way out of the deciding block makes it certain that the block
//! runs (once the function goes on to its end) and another way does not.

use crate::cfg::Cfg;
use crate::dominance::PostDomTree;

/// One way out of a block that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decision {
    /// The deciding block.
    pub block: usize,
    /// Which of its successor edges, by position in [`Cfg::successors`].
    pub edge: usize,
}

/// For each block the decisions that it runs because of.
///
/// Answers are worked out when asked for: all of them together can take space quadratic in the number of
/// blocks (loops nested in loops).
#[derive(Clone, Debug)]
pub struct ControlDependence {
    after: PostDomTree,
    /// Every way out of a deciding block, by the number (see [`PostDomTree::span`]) of where it leads.
    decisions: Vec<(u32, Decision)>,
}

impl ControlDependence {
    /// Control dependence in `cfg`, whose post-dominators are `after`.
    #[must_use]
    pub fn new(cfg: &Cfg, after: PostDomTree) -> Self {
        let mut decisions = Vec::new();
        // The artificial end of an endless loop is no decision of the program: only real ones are looked at.
        for block in (0..cfg.len()).filter(|&block| cfg.decides(block)) {
            for (edge, &next) in cfg.successors(block).iter().enumerate() {
                decisions.push((after.span(next as usize).0, Decision { block, edge }));
            }
        }
        decisions.sort_unstable();
        Self { after, decisions }
    }

    /// The decisions that `block` directly depends on, by block and edge. Empty when it depends on nothing
    /// but the function being called.
    #[must_use]
    pub fn of(&self, block: usize) -> Vec<Decision> {
        let (first, last) = self.after.span(block);
        let from = self.decisions.partition_point(|(number, _)| *number < first);
        let to = self.decisions.partition_point(|(number, _)| *number <= last);
        let certain = self
            .decisions
            .get(from..to)
            .unwrap_or_default()
            .iter()
            .map(|(_, decision)| *decision);
        let mut depends: Vec<Decision> = certain
            .filter(|decision| !self.after.strictly_post_dominates(block, decision.block))
            .collect();
        depends.sort_unstable();
        depends
    }

    /// The post-dominators that this rests on.
    #[must_use]
    pub fn post_dominators(&self) -> &PostDomTree {
        &self.after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfg::arbitrary;
    use proptest::prelude::*;

    fn dump(cfg: &Cfg) -> String {
        let control = ControlDependence::new(cfg, PostDomTree::new(cfg));
        (0..cfg.len())
            .map(|block| {
                let on: Vec<String> = control
                    .of(block)
                    .iter()
                    .map(|d| format!("{}.{}", d.block, d.edge))
                    .collect();
                format!("{block}: {}\n", on.join(" "))
            })
            .collect()
    }

    #[test]
    fn branches_and_loops() {
        // 0 → 1 → {2, 3} → 4 → {1, 5}
        let cfg = Cfg::new(6, 0, [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 1), (4, 5)], []);
        assert_eq!(dump(&cfg), "0: \n1: 4.0\n2: 1.0\n3: 1.1\n4: 4.0\n5: \n");
    }

    #[test]
    fn an_early_return_decides_about_the_rest() {
        // if (0) return 1; 2; if (2) 3; 4
        let cfg = Cfg::new(5, 0, [(0, 1), (0, 2), (2, 3), (2, 4), (3, 4)], []);
        assert_eq!(dump(&cfg), "0: \n1: 0.0\n2: 0.1\n3: 2.0\n4: 0.1\n");
    }

    #[test]
    fn a_conditional_tail_jump_decides() {
        let cfg = Cfg::new(2, 0, [(0, 1)], [0]);
        assert_eq!(dump(&cfg), "0: \n1: 0.0\n");
    }

    #[test]
    fn an_endless_loop_is_no_decision() {
        let cfg = Cfg::new(5, 0, [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 1)], []);
        assert_eq!(dump(&cfg), "0: \n1: \n2: 1.0\n3: 1.1\n4: \n");
    }

    proptest! {
        #[test]
        fn it_is_what_the_definition_says(cfg in arbitrary::cfg(14)) {
            let after = PostDomTree::new(&cfg);
            let control = ControlDependence::new(&cfg, after.clone());
            for block in 0..cfg.len() {
                let mut expected = Vec::new();
                for decider in (0..cfg.len()).filter(|&decider| cfg.decides(decider)) {
                    for (edge, &next) in cfg.successors(decider).iter().enumerate() {
                        if after.post_dominates(block, next as usize)
                            && !after.strictly_post_dominates(block, decider)
                        {
                            expected.push(Decision { block: decider, edge });
                        }
                    }
                }
                prop_assert_eq!(control.of(block), expected);
            }
        }
    }
}

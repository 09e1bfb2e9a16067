//! Where tracing is on, as a set of blocks.
//!
//! The rules of failure sketching (Kasikci et al., SOSP 2015), for one function whose tracked statements
//! stand in the blocks T. Traced are, for every t in T that the entry reaches:
//!
//! 1. *the block* t itself;
//! 2. *start*: the predecessors of t, so that the trace shows which way led to t;
//! 3. *stop*: what can run after t and before its immediate post-dominator: the blocks on ways from t that
//!    do not enter ipdom(t), so that the trace shows which way was taken from t; ipdom(t) itself is not part
//!    of this, for it runs whatever t decided. If only the function's end post-dominates t, all that follows
//!    t is traced;
//! 4. *no restart*: for every s in T that strictly dominates t, all blocks on ways from s to t that meet t
//!    only at their end: tracing stays on instead of stopping after s and starting again before t. It is
//!    enough to look at the nearest such s: a way from a farther one leads through it, and the part before
//!    it belongs to the nearest one's own link.
//!
//! Nothing else is traced. Two statements of one block are one block here, so the order of statements inside
//! a block makes no difference.

use crate::cfg::{Cfg, Direction};
use crate::dominance::{DomTree, PostDomTree};

/// The blocks of `cfg`, ascending, that are traced for the tracked blocks `tracked`.
///
/// `before` and `after` are the graph's dominators and post-dominators. The cost is that of one search
/// through the graph for each tracked block.
#[must_use]
pub fn traced_blocks(cfg: &Cfg, before: &DomTree, after: &PostDomTree, tracked: &[usize]) -> Vec<usize> {
    let mut is_tracked = vec![false; cfg.len()];
    for &block in tracked {
        if before.is_reachable(block) {
            is_tracked[block] = true;
        }
    }
    let mut traced = is_tracked.clone();
    for t in (0..cfg.len()).filter(|&block| is_tracked[block]) {
        for &start in cfg.predecessors(t) {
            // Code that nothing reaches never runs into t; a range for it would be wasted.
            traced[start as usize] |= before.is_reachable(start as usize);
        }
        let join = after.ipdom(t);
        add(
            &mut traced,
            &cfg.reach([t], Direction::Forward, |block| Some(block) == join),
        );
        if let Some(s) = before
            .strict_dominators(t)
            .find(|&dominator| is_tracked[dominator])
        {
            add(&mut traced, &between(cfg, s, t));
        }
    }
    (0..cfg.len()).filter(|&block| traced[block]).collect()
}

/// The blocks on ways from `s` to `t` that meet `t` only at their end, without that end.
fn between(cfg: &Cfg, s: usize, t: usize) -> Vec<bool> {
    let mut both = cfg.reach([s], Direction::Forward, |block| block == t);
    let before_t = cfg.predecessors(t).iter().map(|&block| block as usize);
    let back = cfg.reach(before_t, Direction::Backward, |block| block == t);
    both.iter_mut().zip(back).for_each(|(both, back)| *both &= back);
    both
}

fn add(to: &mut [bool], blocks: &[bool]) {
    to.iter_mut().zip(blocks).for_each(|(to, block)| *to |= block);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfg::arbitrary;
    use proptest::prelude::*;

    fn traced(cfg: &Cfg, tracked: &[usize]) -> Vec<usize> {
        traced_blocks(cfg, &DomTree::new(cfg), &PostDomTree::new(cfg), tracked)
    }

    /// 0 → 1 → {2, 3} → 4 → 5 → {6, 7} → 8
    fn two_diamonds() -> Cfg {
        let edges = [
            (0, 1),
            (1, 2),
            (1, 3),
            (2, 4),
            (3, 4),
            (4, 5),
            (5, 6),
            (5, 7),
            (6, 8),
            (7, 8),
        ];
        Cfg::new(9, 0, edges, [])
    }

    #[test]
    fn tracing_starts_at_the_predecessors_and_stops_before_the_join() {
        assert_eq!(traced(&two_diamonds(), &[2]), [1, 2]);
        assert_eq!(traced(&two_diamonds(), &[1]), [0, 1, 2, 3]);
        assert_eq!(traced(&two_diamonds(), &[8]), [6, 7, 8]);
        assert_eq!(traced(&two_diamonds(), &[]), [0usize; 0]);
    }

    #[test]
    fn a_dominating_statement_keeps_it_on() {
        assert_eq!(traced(&two_diamonds(), &[1, 5]), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(traced(&two_diamonds(), &[4, 8]), [2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn one_that_does_not_dominate_lets_it_stop() {
        // 2 is only one way to 6: off at 4, on again at 5.
        assert_eq!(traced(&two_diamonds(), &[2, 6]), [1, 2, 5, 6]);
    }

    #[test]
    fn in_a_loop_the_way_back_to_the_statement_is_a_predecessor() {
        // 0 → 1 ⇄ 2, 1 → 3: a statement in the loop's head.
        let cfg = Cfg::new(4, 0, [(0, 1), (1, 2), (2, 1), (1, 3)], []);
        assert_eq!(traced(&cfg, &[1]), [0, 1, 2]);
        assert_eq!(traced(&cfg, &[2]), [1, 2]);
    }

    #[test]
    fn unreachable_and_missing_blocks_are_not_traced() {
        let cfg = Cfg::new(3, 0, [(0, 1), (2, 1)], []);
        assert_eq!(traced(&cfg, &[2, 77]), [0usize; 0]);
        assert_eq!(traced(&cfg, &[1]), [0, 1]);
    }

    /// A walk from the entry: at each block the next of `choices` says which way.
    fn walk(cfg: &Cfg, choices: &[usize]) -> Vec<usize> {
        let mut at = cfg.entry();
        let mut walk = vec![at];
        for &choice in choices {
            let next = cfg.successors(at);
            if next.is_empty() {
                break;
            }
            at = next[choice % next.len()] as usize;
            walk.push(at);
        }
        walk
    }

    /// The rules once more, said about single ways through the graph instead of sets. Dominance here is
    /// "no way around", straight from the definition.
    struct Naive<'g> {
        cfg: &'g Cfg,
        after: PostDomTree,
    }

    impl Naive<'_> {
        fn way(&self, from: usize, to: usize, around: &[usize]) -> bool {
            let first = self.cfg.successors(from).iter().map(|&block| block as usize);
            let mut seen = vec![false; self.cfg.len()];
            let mut queue: Vec<usize> = first.collect();
            while let Some(block) = queue.pop() {
                if block == to {
                    return true;
                }
                if !around.contains(&block) && !std::mem::replace(&mut seen[block], true) {
                    queue.extend(self.cfg.successors(block).iter().map(|&block| block as usize));
                }
            }
            false
        }

        fn runs(&self, block: usize) -> bool {
            block == self.cfg.entry() || self.way(self.cfg.entry(), block, &[])
        }

        fn strictly_dominates(&self, s: usize, t: usize) -> bool {
            let entry = self.cfg.entry();
            s != t && t != entry && self.runs(t) && (s == entry || !self.way(entry, t, &[s]))
        }

        /// Whether some rule asks for `block` on account of tracked block `t`.
        fn wanted(&self, block: usize, t: usize, tracked: &[usize]) -> bool {
            let join: Vec<usize> = self.after.ipdom(t).into_iter().collect();
            let start = self.cfg.successors(block).contains(&(t as u32));
            let before_join = !join.contains(&block) && self.way(t, block, &join);
            let link = tracked.iter().any(|&s| {
                let on_the_way =
                    block == s || block != t && self.way(s, block, &[t]) && self.way(block, t, &[]);
                self.strictly_dominates(s, t) && on_the_way
            });
            self.runs(t) && self.runs(block) && (block == t || start || before_join || link)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn every_walk_is_traced_as_the_rules_say(
            cfg in arbitrary::cfg(16),
            tracked in prop::collection::vec(0usize..16, 1..5),
            choices in prop::collection::vec(0usize..6, 60),
        ) {
            let naive = Naive { cfg: &cfg, after: PostDomTree::new(&cfg) };
            let blocks = traced(&cfg, &tracked);
            let on = |block: usize| blocks.contains(&block);
            let walk = walk(&cfg, &choices);
            for (at, &t) in walk.iter().enumerate().filter(|(_, block)| tracked.contains(block)) {
                prop_assert!(on(t), "off while tracked block {} runs", t);
                prop_assert!(at == 0 || on(walk[at - 1]), "not on before {}", t);

                let join = naive.after.ipdom(t);
                let until_join = walk[at + 1..].iter().take_while(|&&block| Some(block) != join);
                for &block in until_join {
                    prop_assert!(on(block), "off at {} between {} and its post-dominator", block, t);
                }

                for &s in &tracked {
                    if naive.strictly_dominates(s, t) {
                        let t_before = walk[..at].iter().rposition(|&block| block == t).unwrap_or(0);
                        let from = walk[t_before..at].iter().position(|&block| block == s);
                        prop_assert!(from.is_some() || t_before > 0, "{} does not dominate {}", s, t);
                        if let Some(from) = from {
                            let way = &walk[t_before + from..at];
                            prop_assert!(way.iter().all(|&block| on(block)), "restart from {} to {}", s, t);
                        }
                    }
                }
            }
            // On a walk nothing is traced but on account of some tracked block: at or beyond a tracked
            // block's post-dominator tracing is off unless another one asks for it.
            for &block in &walk {
                let wanted = tracked.iter().any(|&t| naive.wanted(block, t, &tracked));
                prop_assert_eq!(on(block), wanted, "block {}", block);
            }
        }

        #[test]
        fn exactly_what_the_rules_ask_for_is_traced(
            cfg in arbitrary::cfg(12),
            tracked in prop::collection::vec(0usize..12, 0..6),
        ) {
            let naive = Naive { cfg: &cfg, after: PostDomTree::new(&cfg) };
            let tracked: Vec<usize> = tracked.into_iter().filter(|&t| t < cfg.len()).collect();
            let expected: Vec<usize> = (0..cfg.len())
                .filter(|&block| tracked.iter().any(|&t| naive.wanted(block, t, &tracked)))
                .collect();
            prop_assert_eq!(traced(&cfg, &tracked), expected);
        }
    }
}

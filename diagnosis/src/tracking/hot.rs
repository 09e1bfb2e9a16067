//! Code that a run goes through too often to be traced: every outcome of a branch is a hit of a probe.
//!
//! A run whose probes are hit too often goes on without them, and what a program of one thread fails of is at the end. So what is hot is
//! left out of the next plans, block by block: the loop that decodes a string is hot, and in the same function is the branch
//! that a broken string takes.

use std::collections::{BTreeMap, BTreeSet};

use program::code::{BlockId, FlowGraph, InstrIx};
use program::{FunctionRef, LinkAddr, ModuleId, Pc, Program};
use slicer::plan::{PcRange, Plan};

/// Outcomes of one branch in a run above which its block is traced no more.
const MOST_OUTCOMES: u64 = 2000;
/// Outcomes of all branches in a run: about half of what is recorded, for entrances are hits as well.
const MOST_IN_ALL: u64 = 10_000;
/// Outcomes of a branch that are not worth leaving it out.
const FEW: u64 = 32;

/// A block's first address, and the first behind it.
type Block = (LinkAddr, LinkAddr);

#[derive(Debug, Default)]
pub(super) struct Hot {
    /// Blocks by function.
    blocks: BTreeMap<FunctionRef, BTreeSet<Block>>,
}

impl Hot {
    /// Takes in how many outcomes the branches of a run had. Says whether more is hot than before.
    pub(super) fn learn(&mut self, branches: &BTreeMap<Pc, u64>, program: &Program<'_>) -> bool {
        let mut counted: Vec<(u64, Pc)> = branches.iter().map(|(pc, count)| (*count, *pc)).collect();
        counted.sort_unstable_by(|one, other| other.cmp(one));
        let mut all: u64 = counted.iter().map(|(count, _)| count).sum();
        let mut hot: BTreeMap<FunctionRef, BTreeSet<LinkAddr>> = BTreeMap::new();
        for (count, pc) in counted {
            if count <= MOST_OUTCOMES && (all <= MOST_IN_ALL || count < FEW) {
                break;
            }
            all = all.saturating_sub(count);
            if let Some(function) = program.function_at(pc) {
                hot.entry(function).or_default().insert(pc.addr);
            }
        }
        let mut more = false;
        for (function, branches) in hot {
            let Some(module) = program.module(function.module) else {
                continue;
            };
            let flow = module.code().flow(function.function);
            let known = self.blocks.entry(function).or_default();
            let before = known.len();
            known.extend(around(&flow, &branches));
            more |= known.len() > before;
        }
        more
    }

    /// Leaves what is hot out of a plan.
    pub(super) fn cool(&self, plan: &mut Plan) {
        for (function, block) in self.all() {
            let (start, end) = block;
            plan.ranges = std::mem::take(&mut plan.ranges)
                .into_iter()
                .flat_map(|range| without(range, function.module, (start, end)))
                .collect();
            let is_in = |pc: &Pc| pc.module == function.module && (start..end).contains(&pc.addr);
            plan.branches.retain(|pc| !is_in(pc));
        }
    }

    /// The functions that parts are left out of, in words.
    pub(super) fn left_out<'s>(&'s self, program: &'s Program<'_>) -> impl Iterator<Item = String> + 's {
        let functions = self.blocks.iter().filter(|(_, blocks)| !blocks.is_empty());
        functions.filter_map(|(function, _)| {
            let module = program.module(function.module)?;
            let entry = module.code().functions().get(function.function)?.entry;
            let name = module.name_of_function_at(entry)?;
            Some(format!(
                "parts of {name} are not traced: their branches would be too many of a run's"
            ))
        })
    }

    fn all(&self) -> impl Iterator<Item = (FunctionRef, Block)> + '_ {
        let functions = self.blocks.iter();
        functions.flat_map(|(function, blocks)| blocks.iter().map(|block| (*function, *block)))
    }
}

/// The blocks of these branches, and those between them that only lead from one to another: to leave these in would have them entered as
/// often.
fn around(flow: &FlowGraph, branches: &BTreeSet<LinkAddr>) -> Vec<Block> {
    let of = |addr: &LinkAddr| flow.block_of(flow.containing(*addr)?);
    let mut hot: BTreeSet<BlockId> = branches.iter().filter_map(of).collect();
    let is_between = |id: &BlockId, hot: &BTreeSet<BlockId>| {
        flow.block(*id).is_some_and(|block| {
            let leads = block.succs.len() == 1 && block.succs.iter().all(|next| hot.contains(next));
            leads && !block.preds.is_empty() && block.preds.iter().all(|before| hot.contains(before))
        })
    };
    let between: Vec<BlockId> = flow.ids().filter(|id| is_between(id, &hot)).collect();
    hot.extend(between);
    hot.into_iter().filter_map(|id| extent(flow, id)).collect()
}

fn extent(flow: &FlowGraph, id: BlockId) -> Option<Block> {
    let block = flow.block(id)?;
    let start = flow.addr(InstrIx(block.instrs.start))?;
    let last = flow.instruction(InstrIx(block.instrs.end.checked_sub(1)?))?;
    Some((start, LinkAddr(last.next_ip())))
}

/// What is left of a range without a block.
fn without(range: PcRange, module: ModuleId, (start, end): Block) -> Vec<PcRange> {
    if range.module != module || end <= range.start || range.end <= start {
        return vec![range];
    }
    let before = (range.start < start).then_some(PcRange { end: start, ..range });
    let behind = (end < range.end).then_some(PcRange { start: end, ..range });
    before.into_iter().chain(behind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_cut_out_of_what_it_lies_in() {
        let range = |start, end| PcRange {
            module: ModuleId(0),
            start: LinkAddr(start),
            end: LinkAddr(end),
        };
        let cut = |start, end| {
            let left = without(range(10, 20), ModuleId(0), (LinkAddr(start), LinkAddr(end)));
            left.iter()
                .map(|range| (range.start.0, range.end.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(cut(12, 15), [(10, 12), (15, 20)]);
        assert_eq!(cut(5, 15), [(15, 20)]);
        assert_eq!(cut(15, 25), [(10, 15)]);
        assert_eq!(cut(10, 20), []);
        assert_eq!(cut(20, 25), [(10, 20)]);
    }
}

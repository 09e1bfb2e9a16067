//! What to track for the first statements of a slice.
//!
//! - [`rules`]: which blocks of a function are traced, the rules of the paper on a graph;
//! - [`ranges`]: blocks as the address ranges that a tracer's filters take;
//! - [`watch`]: which memory is watched, and from which point on its address is known.

pub mod ranges;
pub mod rules;
mod stored;
pub mod watch;

use iced_x86::FlowControl;
use program::code::{FlowGraph, InstrIx};
use program::{FunctionRef, Pc, Program};
use serde::{Deserialize, Serialize};

use crate::cfg::{of_flow, with_exceptions};
use crate::dependence::locks;
use crate::dependence::passed::Library;
use crate::dominance::{DomTree, PostDomTree};
use crate::threads::ThreadModel;
use crate::view::FunctionView;
pub use ranges::{PcRange, merge};
pub use watch::{AddressExpr, Early, WatchSite};

/// What to track.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The code to trace, ascending, without overlaps.
    pub ranges: Vec<PcRange>,
    /// The instructions inside the ranges whose outcome only a run can tell: conditional and indirect jumps,
    /// indirect calls. Ascending.
    pub branches: Vec<Pc>,
    /// The memory to watch, in the order of the statements; no place that never changes comes twice. Whoever tracks is told
    /// where that is, not why.
    #[serde(skip)]
    pub watch_sites: Vec<WatchSite>,
    /// The tracked instructions, in the order of the statements.
    #[serde(skip)]
    pub statements: Vec<TrackedInstruction>,
}

impl Plan {
    /// Adds what another plan tracks; the numbers of its statements are behind `first`.
    pub fn join(&mut self, other: Self, first: u32) {
        self.ranges.extend(other.ranges);
        self.ranges = merge(std::mem::take(&mut self.ranges));
        self.branches.extend(other.branches);
        self.branches.sort_unstable();
        self.branches.dedup();
        let numbered = other.statements.into_iter().map(|tracked| TrackedInstruction {
            statement: tracked.statement.saturating_add(first),
            ..tracked
        });
        self.statements.extend(numbered);
        other.watch_sites.into_iter().for_each(|site| self.keep(site));
    }

    /// Keeps a site unless another one sees all that it would.
    fn keep(&mut self, site: WatchSite) {
        let kept = &mut self.watch_sites;
        if !kept.iter().any(|other| other.covers(&site)) {
            kept.retain(|other| !site.covers(other));
            kept.push(site);
        }
    }
}

/// An instruction of a tracked statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackedInstruction {
    /// The statement's number in the slice.
    pub statement: u32,
    /// The instruction.
    pub pc: Pc,
}

/// How many statements farther away those come whose turn it is before a statement has another site.
const TURN: u32 = 2;

/// Sites in the order in which they are worth watching, of such as are in the order of their statements. One statement may access a
/// dozen places, above all where the language's library was inlined into it (a look into a hash table): the first ones of it come at
/// once, the others among those of farther statements.
fn by_turns<S>(sites: Vec<(u32, S)>) -> Vec<S> {
    let mut last = None;
    let numbered = sites.into_iter().map(|(statement, site)| {
        let times = match last {
            Some((same, times)) if same == statement => times + 1,
            _ => 0,
        };
        last = Some((statement, times));
        (statement.saturating_add(TURN.saturating_mul(times)), site)
    });
    let mut numbered: Vec<(u32, S)> = numbered.collect();
    numbered.sort_by_key(|(place, _)| *place);
    numbered.into_iter().map(|(_, site)| site).collect()
}

/// Puts a plan together, function by function.
pub struct Planner<'l, 'p, 'a> {
    program: &'p Program<'a>,
    library: &'l Library<'p, 'a>,
    threads: &'l ThreadModel<'p, 'a>,
    locks: bool,
    plan: Plan,
    /// With the statement that each is for.
    sites: Vec<(u32, WatchSite)>,
}

impl<'l, 'p, 'a> Planner<'l, 'p, 'a> {
    /// For a program. Locks are watched where the failure is about them (`locks`): who waits for one has it in his hands all
    /// the time otherwise, and it tells nothing.
    #[must_use]
    pub fn new(
        program: &'p Program<'a>,
        library: &'l Library<'p, 'a>,
        threads: &'l ThreadModel<'p, 'a>,
        locks: bool,
    ) -> Self {
        Self {
            program,
            library,
            threads,
            locks,
            plan: Plan::default(),
            sites: Vec::new(),
        }
    }

    /// Adds one function's tracked instructions: the number of their statement and the instruction. All of
    /// a function's instructions belong into one call, for the rules relate them to each other.
    pub fn add(&mut self, function: FunctionRef, tracked: &[(u32, InstrIx)]) {
        let module = function.module;
        let Some(file) = self.program.module(module) else {
            return;
        };
        let view = FunctionView::new(file, function);
        let flow: &FlowGraph = &view.flow;
        let constants = |slot| file.constant_pointer(slot);
        let block_of = |ix: InstrIx| flow.block_of(ix).map(|block| block.0 as usize);
        let blocks: Vec<usize> = tracked.iter().filter_map(|(_, ix)| block_of(*ix)).collect();
        let thrown_to = |&block: &usize| flow.blocks.get(block).is_some_and(|block| block.exceptional);
        let cfg = if blocks.iter().any(thrown_to) {
            with_exceptions(flow)
        } else {
            of_flow(flow)
        };
        let (before, after) = (DomTree::new(&cfg), PostDomTree::new(&cfg));

        for block in rules::traced_blocks(&cfg, &before, &after, &blocks) {
            let Some(block) = flow.blocks.get(block) else {
                continue;
            };
            self.plan.ranges.push(PcRange {
                module,
                start: block.start,
                end: block.end,
            });
            let open = flow.instructions_of(block).iter().filter(|instruction| {
                use FlowControl::{ConditionalBranch, IndirectBranch, IndirectCall};
                matches!(
                    instruction.flow_control(),
                    ConditionalBranch | IndirectBranch | IndirectCall
                )
            });
            let pcs = open.map(|instruction| Pc {
                module,
                addr: program::LinkAddr(instruction.ip()),
            });
            self.plan.branches.extend(pcs);
        }

        let function = watch::Function {
            module,
            flow,
            shared: &|offset| self.threads.shared_frame(&view).contains(offset),
            values: &view.values,
            constants: &constants,
            cfg: &cfg,
            before: &before,
        };
        for &(statement, ix) in tracked {
            if let Some(addr) = flow.addr(ix) {
                let pc = Pc { module, addr };
                self.plan.statements.push(TrackedInstruction { statement, pc });
            }
            let stores = stored::stores_of(&view, ix);
            let mut made = function.sites(ix);
            made.extend(stores.into_iter().flat_map(|store| function.sites(store)));
            let is_lock = || flow.addr(ix).is_some_and(|at| locks::keeps_order(file, at));
            let hashes = || flow.addr(ix).is_some_and(|at| locks::hashes(file, at));
            if !made.is_empty() && (!self.locks && is_lock() || hashes()) {
                made.clear();
            }
            let passed = self.library.accesses(&view, ix);
            let passed = passed.iter().filter(|passed| self.locks || !passed.lock);
            let passed = passed.flat_map(|passed| function.passed(ix, passed));
            let sites = made.into_iter().chain(passed);
            // Nobody changes a constant.
            let changes = |site: &WatchSite| match site.address {
                AddressExpr::Static(addr) => file.is_variable(addr),
                AddressExpr::Registers { .. } => true,
            };
            self.sites
                .extend(sites.filter(changes).map(|site| (statement, site)));
        }
    }

    /// The plan.
    #[must_use]
    pub fn finish(mut self) -> Plan {
        self.plan.ranges = merge(self.plan.ranges);
        self.plan.branches.sort_unstable();
        self.plan.branches.dedup();
        self.plan.statements.sort_unstable();
        self.plan.statements.dedup();
        // Wider sites first among those of a statement, so that one that covers others is the one kept.
        self.sites
            .sort_by_key(|(statement, site)| (*statement, std::cmp::Reverse(site.width), site.access));
        let sites = by_turns(std::mem::take(&mut self.sites));
        sites.into_iter().for_each(|site| self.plan.keep(site));
        self.plan
    }
}

#[cfg(test)]
mod tests {
    use super::by_turns;

    #[test]
    fn a_statement_with_many_sites_does_not_keep_the_others_waiting() {
        let order = |statements: &[u32]| {
            let sites = statements.iter().enumerate().map(|(site, &at)| (at, site));
            by_turns(sites.collect())
        };
        assert_eq!(order(&[0, 1, 2]), [0, 1, 2]);
        assert_eq!(order(&[0, 0, 0, 0, 1, 2, 9]), [0, 4, 1, 5, 2, 3, 6]);
        assert_eq!(order(&[]), [0_usize; 0]);
    }
}

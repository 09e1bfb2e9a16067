//! All functions at once, in parallel.

use rayon::prelude::*;

use super::Code;
use super::flow::{Exit, FlowGraph, Target};
use super::functions::FunctionId;
use super::xref::CallSite;
use crate::addr::LinkAddr;
use crate::elf::ImportId;

/// Functions that one thread takes at a time: most are small.
const BATCH: usize = 32;

impl Code<'_> {
    /// Reads every function and shows its graph, from several threads and in no particular order. Graphs are
    /// not kept: a whole program's instructions would be many times its size.
    pub fn sweep(&self, visit: impl Fn(&FlowGraph) + Sync) {
        self.all_ids().for_each(|id| visit(&self.fresh_flow(id)));
    }

    /// Reads every function, in parallel, and collects what `outline` makes of each, by function.
    pub fn sweep_map<T: Send>(&self, outline: impl Fn(&FlowGraph) -> T + Sync + Send) -> Vec<T> {
        self.all_ids().map(|id| outline(&self.fresh_flow(id))).collect()
    }

    /// Every call and tail call of the program, by target.
    #[must_use]
    pub fn call_index(&self) -> CallIndex {
        CallIndex::new(self)
    }

    fn all_ids(&self) -> impl IndexedParallelIterator<Item = FunctionId> {
        let count = u32::try_from(self.functions().len()).unwrap_or(u32::MAX);
        (0..count).into_par_iter().with_min_len(BATCH).map(FunctionId)
    }
}

/// Every call and tail call of a file, by target.
#[derive(Clone, Debug, Default)]
pub struct CallIndex {
    functions: Vec<(FunctionId, CallSite)>,
    imports: Vec<(ImportId, CallSite)>,
    indirect: Vec<CallSite>,
}

impl CallIndex {
    fn new(code: &Code<'_>) -> Self {
        let mut index = Self::default();
        for (target, site) in code.sweep_map(sites).into_iter().flatten() {
            match target {
                Target::Function(function) => index.functions.push((function, site)),
                Target::Import(import) => index.imports.push((import, site)),
                Target::Indirect => index.indirect.push(site),
                Target::Unknown(_) => {}
            }
        }
        index
            .functions
            .sort_unstable_by_key(|(target, site)| (*target, site.at));
        index
            .imports
            .sort_unstable_by_key(|(target, site)| (*target, site.at));
        index
    }

    /// The calls of a function, by address.
    pub fn callers_of(&self, function: FunctionId) -> impl ExactSizeIterator<Item = CallSite> + '_ {
        of(&self.functions, function)
    }

    /// The calls of a function of another file, by address.
    pub fn callers_of_import(&self, import: ImportId) -> impl ExactSizeIterator<Item = CallSite> + '_ {
        of(&self.imports, import)
    }

    /// Calls through registers and memory, by address of the calling function.
    #[must_use]
    pub fn indirect(&self) -> &[CallSite] {
        &self.indirect
    }
}

fn of<T: Copy + Ord>(calls: &[(T, CallSite)], target: T) -> impl ExactSizeIterator<Item = CallSite> + '_ {
    let from = calls.partition_point(|(other, _)| *other < target);
    let to = calls.partition_point(|(other, _)| *other <= target);
    calls
        .get(from..to)
        .unwrap_or_default()
        .iter()
        .map(|(_, site)| *site)
}

fn sites(graph: &FlowGraph) -> Vec<(Target, CallSite)> {
    let calls = graph.calls().filter_map(|(ix, target, exit)| {
        let at: LinkAddr = graph.addr(ix)?;
        let tail = matches!(exit, Exit::TailCall(_) | Exit::ConditionalTailCall(_));
        Some((
            target,
            CallSite {
                caller: graph.function,
                at,
                tail,
            },
        ))
    });
    calls.collect()
}

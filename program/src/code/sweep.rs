//! All functions at once, in parallel.

use std::ops::Range;

use rayon::prelude::*;

use super::Code;
use super::descent::Reader;
use super::flow::{Exit, FlowGraph, Target};
use super::functions::FunctionId;
use super::xref::CallSite;
use crate::addr::LinkAddr;
use crate::elf::ImportId;

/// What one thread takes at a time: enough functions to share memory, and not so many that the others wait.
const BATCH: usize = 1024;
const BATCH_BYTES: u64 = 128 << 10;

impl Code<'_> {
    /// Reads every function and shows its graph, from several threads and in no particular order. Graphs are
    /// not kept: a whole program's instructions would be many times its size.
    pub fn sweep(&self, visit: impl Fn(&FlowGraph) + Sync) {
        self.sweep_into(|| (), |(), graph| visit(graph));
    }

    /// Reads every function, in parallel, and collects what `outline` makes of each, by function.
    pub fn sweep_map<T: Send>(&self, outline: impl Fn(&FlowGraph) -> T + Sync) -> Vec<T> {
        let batches = self.sweep_into(Vec::new, |found, graph| found.push(outline(graph)));
        batches.into_iter().flatten().collect()
    }

    /// Reads every function, in parallel. Each batch of functions that lie side by side is put, one after the
    /// other, into what `make` gives; the batches are in the order of addresses.
    pub fn sweep_into<T: Send>(
        &self,
        make: impl Fn() -> T + Sync,
        add: impl Fn(&mut T, &FlowGraph) + Sync,
    ) -> Vec<T> {
        self.bring_all();
        self.expect_many();
        let batches = self.batches();
        let read = batches.into_par_iter().with_max_len(1).map(|batch| {
            let mut reader = Reader::new(self.context());
            let mut found = make();
            for id in batch.filter_map(|place| self.functions().at_place(place)) {
                add(&mut found, reader.read(id));
            }
            found
        });
        read.collect()
    }

    fn batches(&self) -> Vec<Range<usize>> {
        let mut batches = Vec::new();
        let mut batch = 0..0;
        let mut bytes = 0;
        for (place, id) in self.functions().ids().enumerate() {
            let size = self
                .functions()
                .entry(id)
                .map_or(0, |entry| entry.end.saturating_sub(entry.start));
            bytes = size.saturating_add(bytes);
            batch.end = place + 1;
            if batch.len() >= BATCH || bytes >= BATCH_BYTES {
                batches.push(batch.clone());
                batch.start = batch.end;
                bytes = 0;
            }
        }
        batches.push(batch);
        batches
    }

    /// Every call and tail call of the program, by target.
    #[must_use]
    pub fn call_index(&self) -> CallIndex {
        CallIndex::new(self)
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

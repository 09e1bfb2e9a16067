//! How fast the thread-ICFG of a whole program is built: `icfg TURNS FILE`, one line of JSON.
//!
//! Each turn starts from the file, with nothing known of it; the best counts. Peak memory is the process's, so
//! one process measures one file.

#![allow(clippy::print_stdout, reason = "the result is what this program is for")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use program::{Module, ModuleId, Program};
use slicer::icfg::{ThreadCall, ThreadEdges, ThreadIcfg};
use slicer::threads::ThreadModel;
use tracee::HostFiles;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let [turns, file] = words.as_slice() else {
        return Err("usage: icfg TURNS FILE".into());
    };
    let mut all = Vec::new();
    let mut size = (0, 0, 0, 0);
    for _ in 0..turns.parse::<u32>()?.max(1) {
        let files = HostFiles::of(Path::new(file));
        let bytes = files.binary()?;
        let started = Instant::now();
        let module = Module::load(file, bytes, &files)?;
        let program = Program::new(vec![module]);
        let graph = build(&program);
        all.push(started.elapsed().as_secs_f64());
        let code = program.module(ModuleId(0)).ok_or("no module")?.code();
        let machine_code: u64 = code
            .elf()
            .code_ranges()
            .iter()
            .map(|range| range.end.0 - range.start.0)
            .sum();
        size = (
            machine_code,
            code.functions().len(),
            graph.node_count(),
            graph.edge_count(),
        );
    }
    let best = all.iter().copied().fold(f64::INFINITY, f64::min);
    let (machine_code, functions, nodes, edges) = size;
    let code_mb = machine_code as f64 / 1e6;
    let result = serde_json::json!({
        "file": file, "code_mb": code_mb, "functions": functions, "nodes": nodes, "edges": edges,
        "seconds": best, "mb_per_second": code_mb / best, "peak_mb": peak_mb(), "all": all,
    });
    println!("{result}");
    Ok(())
}

/// The graph with its thread edges, as the thread model finds them.
fn build(program: &Program<'_>) -> ThreadIcfg {
    let Some(module) = program.module(ModuleId(0)) else {
        return ThreadIcfg::default();
    };
    let model = ThreadModel::new(program);
    let mut threads = ThreadEdges::default();
    for site in model.creations() {
        let Some(routine) = site.entry.or(site.routine) else {
            continue;
        };
        let call = |at| ThreadCall {
            function: site.creator.function,
            at,
            routine: routine.function,
        };
        threads.creations.push(call(site.at.addr));
        let flow = module.code().flow(site.creator.function);
        let Some(creation) = flow.at(site.at.addr) else {
            continue;
        };
        let joins = model.joins_of(site.creator, creation).blocks.into_iter();
        let joins = joins.filter_map(|block| flow.addr(flow.blocks.get(block)?.last()));
        threads.joins.extend(joins.map(call));
    }
    ThreadIcfg::build(module.code(), &threads)
}

fn peak_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}

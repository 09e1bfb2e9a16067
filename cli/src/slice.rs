//! `failsketch slice`.

use std::time::Instant;

use anyhow::{Result, bail};
use program::{LinkAddr, ModuleId, Pc, Program};
use sketch_render::{SliceResult, term};
use slicer::slice::{Criterion, Slice};

use crate::args::SliceArgs;
use crate::load::Opened;
use crate::present;
use crate::sources::SourceText;

/// Runs the command; gives what to print.
pub fn run(args: &SliceArgs) -> Result<String> {
    let started = Instant::now();
    let opened = Opened::default();
    let program = opened.program(&args.program.exe, &args.program.debug_dirs)?;
    let sources = SourceText::new(&args.program.source_map);
    let criterion = criterion(args, &program)?;
    let Some(first) = criterion.starts.first().map(|start| start.pc) else {
        bail!("there is no code at that place");
    };
    let mut slice = Slice::new(&program, &criterion);
    let (statements, more) = present::first_statements(&mut slice, args.max, &sources);
    let result = SliceResult {
        criterion: present::statement_at(&program, first, &sources),
        statements,
        more,
        elapsed_ms: (started.elapsed().as_secs_f64() * 1e6).round() / 1e3,
        notes: Vec::new(),
    };
    if args.json {
        Ok(serde_json::to_string_pretty(&result)? + "\n")
    } else {
        Ok(term::slice(&result, present::terminal()))
    }
}

const EXECUTABLE: ModuleId = ModuleId(0);

fn criterion(args: &SliceArgs, program: &Program<'_>) -> Result<Criterion> {
    if let Some((file, line)) = &args.at {
        let Some(module) = program.module(EXECUTABLE) else {
            bail!("no program")
        };
        let found = module.sources().addresses_of(file, *line)?;
        let pc = |addr: LinkAddr| Pc {
            module: EXECUTABLE,
            addr,
        };
        let ranges: Vec<_> = found
            .matches
            .iter()
            .map(|found| (pc(found.range.start), pc(found.range.end)))
            .collect();
        return Ok(Criterion::ranges(program, &ranges));
    }
    if let Some(addr) = args.pc {
        return Ok(Criterion::instruction(Pc {
            module: EXECUTABLE,
            addr: LinkAddr(addr),
        }));
    }
    bail!("not yet");
}

//! `failsketch slice`.

use std::time::Instant;

use anyhow::{Result, bail};
use failure::Report;
use program::{LinkAddr, ModuleId, Pc, Program};
use sketch_render::{SliceResult, term};
use slicer::slice::{Criterion, Slice};
use tracee::ProgramFiles;

use crate::args::SliceArgs;
use crate::{input, present, source_text};

const EXECUTABLE: ModuleId = ModuleId(0);

/// Runs the command; gives what to print.
pub fn run(args: &SliceArgs) -> Result<String> {
    let started = Instant::now();
    let files = ProgramFiles::with_debug_folders(args.program.debug_dirs.clone());
    let sources = source_text::of_program(&args.program.source_map, &args.program.exe)?;
    let report = match (&args.core, &args.trace) {
        (Some(core), _) => Some(input::core(core, &args.program.exe)?),
        (None, Some(trace)) => Some(input::text(trace)?),
        (None, None) => None,
    };
    let program = match &report {
        Some(report) => files.program_of(&args.program.exe, report)?,
        None => files.program(&args.program.exe)?,
    };
    sources.set_build(source_text::build_of(&program));
    let (criterion, mut notes) = criterion(args, &program, report.as_ref())?;
    let Some(first) = criterion.starts.first().map(|start| start.pc) else {
        bail!("no frame of the failing thread is in the program's own code: nothing to slice from");
    };
    let mut slice = Slice::new(&program, &criterion);
    let (statements, more) = present::first_statements(&program, &mut slice, args.max, &sources);
    let criterion = present::statement_at(&program, first, &sources);
    notes.extend(present::problems(&program));
    notes.extend(sources.notes());
    let result = SliceResult {
        criterion,
        statements,
        more,
        elapsed_ms: (started.elapsed().as_secs_f64() * 1e6).round() / 1e3,
        notes,
    };
    if args.json {
        Ok(serde_json::to_string_pretty(&result)? + "\n")
    } else {
        Ok(term::slice(&result, present::terminal()))
    }
}

fn criterion(
    args: &SliceArgs,
    program: &Program<'_>,
    report: Option<&Report>,
) -> Result<(Criterion, Vec<String>)> {
    if let Some(report) = report {
        let failure = failure::resolve(report, program)?;
        return Ok((Criterion::failure(program, &failure), failure.notes));
    }
    let Some(module) = program.module(EXECUTABLE) else {
        bail!("no program was given")
    };
    let pc = |addr: LinkAddr| Pc {
        module: EXECUTABLE,
        addr,
    };
    let mut notes = Vec::new();
    if !module.has_debug_information() {
        notes.push(format!(
            "{} has no debug information: statements are single instructions",
            module.name()
        ));
    }
    if let Some((file, line)) = &args.at {
        let found = module.sources().addresses_of(file, *line)?;
        return Ok((present::criterion_of_line(program, EXECUTABLE, &found), notes));
    }
    let Some(addr) = args.pc.map(LinkAddr) else {
        bail!("nothing to slice from was given")
    };
    let function = module.code().functions().at(addr);
    let Some(function) = function else {
        bail!(not_code(module, addr))
    };
    let flow = module.code().flow(function);
    let Some(ix) = flow.containing(addr) else {
        bail!(
            "{addr} is in {} but not in any instruction that can run",
            module.code().functions().display_name(function)
        )
    };
    let start = flow.addr(ix).unwrap_or(addr);
    if start != addr {
        notes.push(format!(
            "{addr} is inside the instruction at {start}; the slice starts there"
        ));
    }
    Ok((Criterion::instruction(pc(start)), notes))
}

/// Why an address is no place to start from, and what would be.
fn not_code(module: &program::Module<'_>, addr: LinkAddr) -> String {
    let segments = module.elf().segments();
    if segments.is_executable(addr) {
        format!("{addr} is in the code of {}, but in no function", module.name())
    } else if segments.contains(addr) {
        format!("{addr} is data, not code, in {}", module.name())
    } else if !module.elf().is_fixed() && addr.0 >= 0x5500_0000_0000 {
        format!(
            "{addr} is a run-time address, and {} can be loaded anywhere: give the address in the file \
             (run-time address minus load address), or the whole trace with --trace",
            module.name()
        )
    } else {
        format!("{addr} is not in {}", module.name())
    }
}

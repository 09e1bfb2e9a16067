//! `failsketch triage`.

use anyhow::Result;
use failure::{Failure, FrameOrigin, ResolvedFrame, ResolvedThread};
use program::Program;
use program::source::SourceFrame;
use sketch_render::{FrameLine, StatementRef, StaticSketch, ThreadStack, term};
use slicer::slice::{Criterion, Slice};
use tracee::ProgramFiles;

use crate::args::TriageArgs;
use crate::{input, present, source_text};
use sources::SourceText;

/// Runs the command; gives what to print.
pub fn run(args: &TriageArgs) -> Result<String> {
    let files = ProgramFiles::with_debug_folders(args.program.debug_dirs.clone());
    let sources = source_text::of_program(&args.program.source_map, &args.program.exe)?;
    let report = input::report(&args.file, &args.program.exe)?;
    let program = files.program_of(&args.program.exe, &report)?;
    sources.set_build(source_text::build_of(&program));
    let failure = failure::resolve(&report, &program)?;
    let sketch = sketch(args.max, &program, &failure, &sources);
    if args.json {
        Ok(sketch_render::json::static_sketch(&sketch)?)
    } else {
        Ok(term::static_sketch(&sketch, present::terminal()))
    }
}

fn sketch(max: usize, program: &Program<'_>, failure: &Failure, sources: &SourceText) -> StaticSketch {
    let criterion = Criterion::failure(program, failure);
    let mut slice = Slice::new(program, &criterion);
    let (statements, more) = present::first_statements(program, &mut slice, max, sources);
    let threads = failure.threads.iter().enumerate();
    let executable = program.modules().next().map(|(_, module)| module);
    let mut notes = failure.notes.clone();
    notes.extend(present::problems(program));
    if failure.failing_frame.is_none() {
        notes.push("no frame of the failing thread is in the program's own code".to_owned());
    }
    let statement = failing_statement(program, failure, sources);
    let threads = threads
        .map(|(index, thread)| stack(program, thread, index, failure, sources))
        .collect();
    notes.extend(sources.notes());
    StaticSketch {
        program: executable.map_or_else(String::new, |module| module.name().to_owned()),
        build_id: executable
            .and_then(|module| module.elf().build_id())
            .map(|id| id.to_string()),
        failure: sketch_render::Failure {
            kind: diagnosis::subject::kind(failure.kind),
            signal: failure.signal.map(|signal| signal.to_string()),
            message: failure.message.clone(),
            fault_address: failure.fault_address.map(|addr| addr.0),
            statement,
        },
        threads,
        statements,
        more,
        notes,
    }
}

fn failing_statement(program: &Program<'_>, failure: &Failure, sources: &SourceText) -> Option<StatementRef> {
    let frame = failure
        .threads
        .get(failure.failing)?
        .frames
        .get(failure.failing_frame?)?;
    frame
        .executing()
        .map(|pc| present::statement_at(program, pc, sources))
}

fn stack(
    program: &Program<'_>,
    thread: &ResolvedThread,
    index: usize,
    failure: &Failure,
    sources: &SourceText,
) -> ThreadStack {
    let label = match (thread.id, &thread.name) {
        (Some(id), Some(name)) => format!("Thread {id} ({name})"),
        (Some(id), None) => format!("Thread {id}"),
        (None, Some(name)) => name.clone(),
        (None, None) => format!("Thread {}", index + 1),
    };
    let failed = index == failure.failing;
    let frames = thread
        .frames
        .iter()
        .flat_map(|frame| lines(program, frame, sources))
        .collect();
    ThreadStack {
        label,
        failed,
        frames,
    }
}

/// A frame and the functions that were inlined at its place.
fn lines(program: &Program<'_>, frame: &ResolvedFrame, sources: &SourceText) -> Vec<FrameLine> {
    let unknown = [SourceFrame::default()];
    let found: &[SourceFrame] = if frame.sources.is_empty() {
        &unknown
    } else {
        &frame.sources
    };
    let line = |source| line(program, frame, source, sources);
    found.iter().map(line).collect()
}

fn line(
    program: &Program<'_>,
    frame: &ResolvedFrame,
    source: &SourceFrame,
    sources: &SourceText,
) -> FrameLine {
    let file = source.file.as_deref().filter(|_| source.line > 0);
    let text = file.and_then(|file| match frame.executing() {
        Some(pc) => present::source_line(program, file, source.line, pc, sources),
        None => sources.line(file, source.line),
    });
    let pc = frame
        .executing()
        .map(|pc| pc.addr.0)
        .or(frame.address.map(|addr| addr.0))
        .unwrap_or(0);
    FrameLine {
        statement: StatementRef {
            function: source.function.as_deref().unwrap_or("??").to_owned(),
            file: file.map(str::to_owned),
            line: file.map(|_| source.line),
            pc,
            text,
            accesses: Vec::new(),
        },
        module: frame.module.clone(),
        inlined: source.inlined,
        own: frame.own && file.is_none_or(|file| !program::is_library_path(file)),
        origin: match frame.origin {
            FrameOrigin::Text => "text",
            FrameOrigin::Context => "context",
            FrameOrigin::Cfi => "cfi",
            FrameOrigin::FramePointer => "frame-pointer",
            FrameOrigin::SignalFrame => "signal-frame",
            FrameOrigin::TailCall => "tail-call",
            FrameOrigin::Returned => "returned",
            FrameOrigin::Printed => "printed",
            FrameOrigin::Scan => "scan",
        },
    }
}

//! From the analysis' values to what gets rendered.

use std::io::IsTerminal as _;

use diagnosis::sketch::SourceFile;
use program::source::LineMatches;
use program::{Attribution, ModuleId, Pc, Program, Statement};
use sketch_render::term::Terminal;
use sketch_render::{Reason, SliceStatement, StatementRef};
use slicer::slice::{Criterion, Slice, Why};

use crate::accesses;
use sources::SourceText;

/// A statement with its text.
pub fn statement(program: &Program<'_>, statement: &Statement, sources: &SourceText) -> StatementRef {
    let text = match (&statement.file, statement.line) {
        (Some(file), Some(line)) => source_line(program, file, line, statement.pc, sources),
        _ => program
            .module(statement.pc.module)
            .and_then(|module| module.instruction_text(statement.pc.addr)),
    };
    StatementRef {
        function: statement.function.to_string(),
        file: statement.file.as_deref().map(str::to_owned),
        line: statement.line,
        pc: statement.pc.addr.0,
        text,
        accesses: Vec::new(),
    }
}

/// A line of a file that the code at an address was compiled from.
pub fn source_line(
    program: &Program<'_>,
    file: &str,
    line: u32,
    pc: Pc,
    sources: &SourceText,
) -> Option<String> {
    if !sources.knows(file) {
        sources.know(&[SourceFile::of(program, file, pc)]);
    }
    sources.line(file, line)
}

/// The statement at an address, or the best description of it.
pub fn statement_at(program: &Program<'_>, pc: Pc, sources: &SourceText) -> StatementRef {
    // A return address leads to the last byte of the call; people and tools want its first.
    let pc = program.instruction_at(pc).unwrap_or(pc);
    match slicer::slice::failing_statement(program, pc) {
        Attribution::Statement(found) => statement(program, &found, sources),
        Attribution::CompilerMade | Attribution::Library => {
            let module = program.module(pc.module);
            let frame = module.and_then(|module| module.sources().frames_at(pc.addr).into_iter().next());
            let name = module.and_then(|module| module.name_of_function_at(pc.addr));
            let (file, line) = frame.map_or((None, None), |frame| (frame.file, Some(frame.line)));
            let function = name.unwrap_or_else(|| "??".into());
            let line = line.filter(|&line| line > 0);
            statement(
                program,
                &Statement {
                    function,
                    file,
                    line,
                    pc,
                },
                sources,
            )
        }
    }
}

/// The first statements of a slice, and whether there are more.
pub fn first_statements(
    program: &Program<'_>,
    slice: &mut Slice<'_, '_>,
    max: usize,
    sources: &SourceText,
) -> (Vec<SliceStatement>, bool) {
    let found: Vec<_> = slice.by_ref().take(max).collect();
    let statements = found
        .iter()
        .map(|item| SliceStatement {
            distance: item.distance,
            why: match item.why {
                Why::Data => Reason::Data,
                Why::Control => Reason::Control,
                Why::Call => Reason::Call,
                Why::Thread => Reason::Thread,
            },
            statement: StatementRef {
                accesses: accesses::of_statement(slice, item.number),
                ..statement(program, &item.statement, sources)
            },
        })
        .collect();
    // The iterator is lazy: one more step tells whether anything is left.
    let more = found.len() == max && slice.next().is_some();
    (statements, more)
}

/// A slice from all code of a source line.
pub fn criterion_of_line(program: &Program<'_>, module: ModuleId, line: &LineMatches) -> Criterion {
    let pc = |addr| Pc { module, addr };
    let ranges: Vec<_> = line
        .matches
        .iter()
        .map(|found| (pc(found.range.start), pc(found.range.end)))
        .collect();
    Criterion::ranges(program, &ranges)
}

/// What was corrupt or missing in the debug information that was read on the way.
pub fn problems(program: &Program<'_>) -> Vec<String> {
    const MOST: usize = 3;
    let own = program.modules().filter(|(_, module)| !module.is_library());
    own.flat_map(|(_, module)| module.sources().problems())
        .take(MOST)
        .collect()
}

/// The terminal that standard output goes to.
pub fn terminal() -> Terminal {
    let is_terminal = std::io::stdout().is_terminal();
    let width = terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0));
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Terminal {
        width: width.clamp(60, 200),
        colour: is_terminal && !plain,
    }
}

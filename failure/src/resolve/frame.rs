//! One frame: its place, its source functions, and whose code it is.

use std::sync::Arc;

use program::source::SourceFrame;
use program::{Attribution, Pc, Program};

use super::ResolvedFrame;
use super::place::{Place, Places};
use crate::report::{Frame, FrameOrigin, Position};

/// Resolves a stack. Frames that the report marks as inlined are part of the next one's place: where that is
/// known, the program itself tells what is inlined there, and the report's words are left out.
pub(super) fn resolve_all(
    places: &Places<'_, '_>,
    program: &Program<'_>,
    frames: &[Frame],
) -> Vec<ResolvedFrame> {
    let mut inner: Option<String> = None;
    let mut resolved = Vec::with_capacity(frames.len());
    let mut rest = frames;
    while !rest.is_empty() {
        let (count, place) = places.machine_frame(rest, inner.as_deref());
        let (machine, further) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        rest = further;
        let Some((outer, inlined)) = machine.split_last() else {
            break;
        };
        let told =
            place.is_some_and(|place| known_sources(program, executing(place.pc, outer.position)).len() > 1);
        if !told {
            // Lines that are inlined in a function which is not in the program are not in it either.
            let in_program = place.is_some() || places.find(outer, None).is_some();
            for frame in inlined {
                let place = in_program
                    .then(|| places.by_line_only(frame, inner.as_deref()))
                    .flatten();
                resolved.push(resolve(program, frame, place));
                inner = name_of(frame, resolved.last());
            }
        }
        let place = place.or_else(|| places.find(outer, inner.as_deref()));
        resolved.push(resolve(program, outer, place));
        inner = name_of(outer, resolved.last());
    }
    resolved
}

/// What a frame's function is called: by the report, or else by the program.
fn name_of(frame: &Frame, found: Option<&ResolvedFrame>) -> Option<String> {
    let reported = frame.symbol.as_ref().map(|symbol| symbol.name.clone());
    reported.or_else(|| {
        let outermost = found?.sources.last()?;
        outermost.function.as_deref().map(str::to_owned)
    })
}

fn executing(pc: Pc, position: Position) -> Pc {
    match position {
        Position::Exact => pc,
        Position::Return => Pc {
            addr: pc.addr.offset(-1),
            ..pc
        },
    }
}

fn resolve(program: &Program<'_>, frame: &Frame, place: Option<Place>) -> ResolvedFrame {
    let pc = place.map(|place| place.pc);
    let executing = pc.map(|pc| executing(pc, frame.position));
    let sources = executing.map_or_else(Vec::new, |pc| known_sources(program, pc));
    let sources = if sources.is_empty() {
        reported_sources(frame)
    } else {
        sources
    };
    let name = sources
        .last()
        .and_then(|source| source.linkage_name.as_deref().or(source.function.as_deref()));
    // A library's line is inlined in many places: one of them says nothing about whose code it is.
    let line_only = place.is_some_and(|place| place.line_only);
    let line = frame.location.as_ref().map(|location| location.line);
    let functions_known = place.is_some_and(|place| place.functions_known);
    let own_line = own_line(program, executing).filter(|&own| functions_known || Some(own) == line);
    let role = super::role_of(frame, name).filter(|_| own_line.is_none());
    let own = match executing {
        Some(pc) => role.is_none() && is_own(program, pc),
        None => false,
    };
    ResolvedFrame {
        pc,
        position: frame.position,
        line_only,
        sources,
        module: frame.module.as_ref().map(|module| module.path.clone()),
        address: frame.address,
        role,
        own,
        origin: frame.origin,
    }
}

/// The frame of a function that left by a jump; `after` is the end of the jump.
pub(super) fn tail_caller(program: &Program<'_>, after: Pc) -> ResolvedFrame {
    let executing = executing(after, Position::Return);
    ResolvedFrame {
        pc: Some(after),
        position: Position::Return,
        line_only: false,
        sources: known_sources(program, executing),
        module: program
            .module(after.module)
            .map(|module| module.name().to_owned()),
        address: None,
        role: None,
        own: is_own(program, executing),
        origin: FrameOrigin::TailCall,
    }
}

/// The frame of a function that is not on the stack any more; `at` is known of it otherwise.
pub(super) fn gone(program: &Program<'_>, at: Pc, origin: FrameOrigin) -> ResolvedFrame {
    ResolvedFrame {
        pc: Some(at),
        position: Position::Exact,
        line_only: false,
        sources: known_sources(program, at),
        module: program.module(at.module).map(|module| module.name().to_owned()),
        address: None,
        role: None,
        own: is_own(program, at),
        origin,
    }
}

/// The program's own line at a place, perhaps inlined into a runtime's function: a closure in the function that
/// runs it.
fn own_line(program: &Program<'_>, pc: Option<Pc>) -> Option<u32> {
    match program.statement_at(pc?) {
        Attribution::Statement(statement) => statement.line,
        // Code that serves several lines has none of its own; it is shown on the one before.
        Attribution::CompilerMade => match program.statement_at(program.with_line_before(pc?)?) {
            Attribution::Statement(statement) => statement.line,
            Attribution::CompilerMade | Attribution::Library => None,
        },
        Attribution::Library => None,
    }
}

pub(super) fn is_own(program: &Program<'_>, pc: Pc) -> bool {
    match program.statement_at(pc) {
        Attribution::Statement(_) => true,
        // A crash in a prologue (a stack overflow) is still a crash of that function.
        Attribution::CompilerMade => {
            let function = program.function_at(pc);
            function.is_some_and(|function| program.is_own(function)) || own_line(program, Some(pc)).is_some()
        }
        Attribution::Library => false,
    }
}

fn known_sources(program: &Program<'_>, pc: Pc) -> Vec<SourceFrame> {
    let Some(module) = program.module(pc.module) else {
        return Vec::new();
    };
    let frames = module.sources().frames_at(pc.addr);
    if frames.first().is_some_and(|frame| frame.line == 0)
        && let Some(before) = program.with_line_before(pc)
    {
        return module.sources().frames_at(before.addr);
    }
    if !frames.is_empty() {
        return frames;
    }
    let function = module.name_of_function_at(pc.addr);
    function.map_or_else(Vec::new, |function| {
        vec![SourceFrame {
            function: Some(function),
            ..SourceFrame::default()
        }]
    })
}

fn reported_sources(frame: &Frame) -> Vec<SourceFrame> {
    if frame.symbol.is_none() && frame.location.is_none() {
        return Vec::new();
    }
    let location = frame.location.as_ref();
    vec![SourceFrame {
        function: frame
            .symbol
            .as_ref()
            .map(|symbol| Arc::from(program::code::demangle_path(&symbol.name))),
        file: location.map(|location| Arc::from(location.file.as_str())),
        line: location.map_or(0, |location| location.line),
        inlined: frame.inlined,
        ..SourceFrame::default()
    }]
}

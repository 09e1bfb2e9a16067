//! One frame: its place, its source functions, and whose code it is.

use std::sync::Arc;

use program::source::SourceFrame;
use program::{Attribution, Pc, Program};

use super::ResolvedFrame;
use super::place::Places;
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
    for (frame, is_told) in frames.iter().zip(told_by_the_program(places, program, frames)) {
        if is_told {
            continue;
        }
        let found = resolve(places, program, frame, inner.as_deref());
        inner = frame
            .symbol
            .as_ref()
            .map(|symbol| symbol.name.clone())
            .or_else(|| {
                found
                    .sources
                    .last()
                    .and_then(|source| source.function.as_deref().map(str::to_owned))
            });
        resolved.push(found);
    }
    resolved
}

/// For each frame: whether it is inlined at a place about which the program knows everything.
fn told_by_the_program(places: &Places<'_, '_>, program: &Program<'_>, frames: &[Frame]) -> Vec<bool> {
    let mut known = false;
    let mut told: Vec<bool> = frames
        .iter()
        .rev()
        .map(|frame| {
            if !frame.inlined {
                known = places
                    .exact(frame)
                    .is_some_and(|pc| known_sources(program, executing(pc, frame.position)).len() > 1);
            }
            frame.inlined && known
        })
        .collect();
    told.reverse();
    told
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

fn resolve(
    places: &Places<'_, '_>,
    program: &Program<'_>,
    frame: &Frame,
    inner: Option<&str>,
) -> ResolvedFrame {
    let place = if frame.inlined {
        places.by_line_only(frame, inner)
    } else {
        places.find(frame, inner)
    };
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
    let role = super::role_of(frame, name).filter(|_| line_only || !has_own_line(program, executing));
    let own = match executing {
        Some(pc) => role.is_none() && is_own(program, pc),
        // Inlined frames: own as far as the report's words go.
        None => frame.inlined && role.is_none() && frame.location.is_some(),
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

/// Whether a line of the program's own is at a place, perhaps inlined into a runtime's function: a closure
/// in the function that runs it.
fn has_own_line(program: &Program<'_>, pc: Option<Pc>) -> bool {
    let attribution = pc.map(|pc| program.statement_at(pc));
    matches!(attribution, Some(Attribution::Statement(statement)) if statement.line.is_some())
}

fn is_own(program: &Program<'_>, pc: Pc) -> bool {
    match program.statement_at(pc) {
        Attribution::Statement(_) => true,
        // A crash in a prologue (a stack overflow) is still a crash of that function.
        Attribution::CompilerMade => program
            .function_at(pc)
            .is_some_and(|function| program.is_own(function)),
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

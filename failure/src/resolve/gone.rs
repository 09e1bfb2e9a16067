//! Frames that were gone when the process ended, and that the failure is about: the one that printed what tells of it, or
//! `main`, which returned.

use program::{Pc, Program};

use super::frame::gone;
use super::{ResolvedFrame, printed, returned};
use crate::frames::RuntimeRole;
use crate::report::{FrameOrigin, Report, Sign};

/// Other statements that a note names.
const MOST_NAMED: usize = 4;

/// The frame that printed what tells of the failure, put back; its place among the frames.
pub(super) fn printer(
    program: &Program<'_>,
    report: &Report,
    frames: &mut Vec<ResolvedFrame>,
    notes: &mut Vec<String>,
) -> Option<usize> {
    let Some(Sign::Output(line)) = &report.sign else {
        return None;
    };
    let places = printed::at(program, line).into_iter();
    let candidates = statements(program, places, FrameOrigin::Printed);
    put_back(candidates, "the output can have been printed", frames, notes)
}

/// The frame of `main` where it made what it returned, if it is by its return that the process ended.
pub(super) fn returner(
    program: &Program<'_>,
    report: &Report,
    frames: &mut Vec<ResolvedFrame>,
    notes: &mut Vec<String>,
) -> Option<usize> {
    let places = returned::made_at(program, report).into_iter();
    let candidates = statements(program, places, FrameOrigin::Returned);
    let what = match report.sign {
        Some(Sign::Status(status)) => format!("the status {status} can have been made"),
        _ => "what main returned can have been made".to_owned(),
    };
    put_back(candidates, &what, frames, notes)
}

/// A frame for each of the program's own statements among some places, in their order.
fn statements(
    program: &Program<'_>,
    places: impl Iterator<Item = Pc>,
    origin: FrameOrigin,
) -> Vec<ResolvedFrame> {
    let mut found: Vec<ResolvedFrame> = Vec::new();
    for frame in places
        .map(|at| gone(program, at, origin))
        .filter(|frame| frame.own)
    {
        let line = line_of(&frame);
        // Optimised code has a statement in several places; without lines every place is one of its own.
        if line.is_none() || found.iter().all(|known| line_of(known) != line) {
            found.push(frame);
        }
    }
    found
}

fn line_of(frame: &ResolvedFrame) -> Option<(&str, u32)> {
    let source = frame.sources.first()?;
    Some((source.file.as_deref()?, source.line)).filter(|(_, line)| *line != 0)
}

/// Puts the first of the frames back where the program's own code began. If it is one of several, that is said.
fn put_back(
    candidates: Vec<ResolvedFrame>,
    what: &str,
    frames: &mut Vec<ResolvedFrame>,
    notes: &mut Vec<String>,
) -> Option<usize> {
    notes.extend(one_of_several(&candidates, what));
    let frame = candidates.into_iter().next()?;
    let is_start = |frame: &ResolvedFrame| frame.role == Some(RuntimeRole::Start);
    let start = frames.iter().position(is_start).unwrap_or(frames.len());
    frames.insert(start, frame);
    Some(start)
}

fn one_of_several(candidates: &[ResolvedFrame], what: &str) -> Option<String> {
    let others = candidates.get(1..).filter(|others| !others.is_empty())?;
    let named = others.iter().filter_map(|frame| {
        let (file, line) = line_of(frame)?;
        let file = file.rsplit('/').next().unwrap_or(file);
        Some(format!("{file}:{line}"))
    });
    let named: Vec<String> = named.take(MOST_NAMED).collect();
    let more = if named.len() < others.len() { ", …" } else { "" };
    let named = match named.as_slice() {
        [] => String::new(),
        named => format!(" ({}{more} as well)", named.join(", ")),
    };
    Some(format!(
        "{what} at {} places, of which this is the first{named}: --at FILE:LINE names another",
        candidates.len(),
    ))
}

//! What a report of a failure has to be like.

use std::fmt::Display;

use failure::report::{Frame, Report, Sign, Thread};
use program::BuildId;

use super::refusal::{Refusal, at_most, name, nonsense, read};

/// Bytes of a report.
const BYTES: usize = 8 << 20;
/// Threads of a failed process.
const THREADS: usize = 4096;
/// Frames of a stack: a recursion without end is cut by whoever unwinds it.
const FRAMES: usize = 4096;
/// Frames of all stacks.
const ALL_FRAMES: usize = 65_536;
/// Bytes of a file's name.
pub(super) const PATH: usize = 4096;
/// Bytes of a symbol's name: those of C++ and Rust can be long.
const SYMBOL: usize = 16_384;
/// Bytes of what a program said.
const MESSAGE: usize = 65_536;
/// Notes, and bytes of one.
const NOTES: usize = 1000;
const NOTE: usize = 4096;
/// Bytes of a build-id.
const BUILD_ID: usize = 64;

/// Reads a report.
pub fn report(bytes: &[u8]) -> Result<Report, Refusal> {
    let report: Report = read("the report", bytes, BYTES)?;
    check("", &report)?;
    Ok(report)
}

/// Whether a report that somebody sent is one that can be worked on. `within` is where it was.
pub(super) fn check(within: &str, report: &Report) -> Result<(), Refusal> {
    let at = |field: &str| format!("{within}{field}");
    text(at("message"), report.message.as_deref(), MESSAGE)?;
    if let Some(Sign::Output(line)) = &report.sign {
        at_most(at("sign"), line.len(), MESSAGE)?;
    }
    if let Some(program) = &report.program {
        name(at("program"), program, PATH)?;
    }
    build_id(at("build_id"), report.build_id.as_ref())?;
    at_most(at("notes"), report.notes.len(), NOTES)?;
    for note in &report.notes {
        at_most(at("notes[]"), note.len(), NOTE)?;
    }
    at_most(at("threads"), report.threads.len(), THREADS)?;
    if report.failing >= report.threads.len() && !(report.failing == 0 && report.threads.is_empty()) {
        return Err(nonsense(at("failing"), "there is no thread with that number"));
    }
    let frames = report.threads.iter().map(|thread| thread.frames.len()).sum();
    at_most(at("threads[].frames"), frames, ALL_FRAMES)?;
    let mut threads = report.threads.iter().enumerate();
    threads.try_for_each(|(number, thread)| check_thread(&at(&format!("threads[{number}]")), thread))
}

fn check_thread(at: &str, thread: &Thread) -> Result<(), Refusal> {
    if let Some(called) = &thread.name {
        name(format_args!("{at}.name"), called, PATH)?;
    }
    at_most(format_args!("{at}.frames"), thread.frames.len(), FRAMES)?;
    let mut frames = thread.frames.iter().enumerate();
    frames.try_for_each(|(number, frame)| check_frame(&format!("{at}.frames[{number}]"), frame))
}

fn check_frame(at: &str, frame: &Frame) -> Result<(), Refusal> {
    if let Some(module) = &frame.module {
        name(format_args!("{at}.module.path"), &module.path, PATH)?;
        build_id(format_args!("{at}.module.build_id"), module.build_id.as_ref())?;
    }
    if let Some(symbol) = &frame.symbol {
        name(format_args!("{at}.symbol.name"), &symbol.name, SYMBOL)?;
    }
    if let Some(location) = &frame.location {
        name(format_args!("{at}.location.file"), &location.file, PATH)?;
    }
    Ok(())
}

/// Checks what somebody said: it may have lines.
pub(super) fn text(path: impl Display, text: Option<&str>, most: usize) -> Result<(), Refusal> {
    at_most(path, text.map_or(0, str::len), most)
}

pub(super) fn build_id(path: impl Display, id: Option<&BuildId>) -> Result<(), Refusal> {
    at_most(path, id.map_or(0, |id| id.0.len()), BUILD_ID)
}

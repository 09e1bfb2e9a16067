//! The text of a stack trace, in whatever format it comes.
//!
//! - `lines` and `prefix`: bytes into clean lines, without what a log put in front.
//! - `gdb`, `coredumpctl`, `rust_panic`, `sanitizer`, `glibc`, `perf`, `kernel`: one format
//!   each. A line is offered to each of them; what none of them knows is skipped.
//! - `messages` and `signals`: what is said about the failure outside of stacks; `foreign`: traces that
//!   are not for us.
//! - `stacks` and `facts`: what was found, within bounds; `threads` and `modules` complete it, and
//!   `assemble` makes the report.

mod assemble;
mod coredumpctl;
mod facts;
mod foreign;
mod gdb;
mod glibc;
mod kernel;
mod lines;
mod messages;
mod modules;
mod perf;
mod prefix;
mod rust_panic;
mod sanitizer;
mod scan;
mod signals;
mod stacks;
mod threads;

use thiserror::Error;

use crate::report::Report;

/// Why a text is no report.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TextError {
    /// There was nothing to read.
    #[error("the text is empty; give a stack trace, such as gdb prints for `thread apply all bt`")]
    Empty,
    /// Nothing in the text looks like a frame.
    #[error(
        "no stack frames found in {lines} lines{}; give gdb's `bt` or `thread apply all bt`, `coredumpctl info`, \
         a Rust panic with RUST_BACKTRACE=1, a sanitizer report, or `symbol+0xoff (module)` lines",
        .seen.as_ref().map(|seen| format!(" (but the message `{seen}`)")).unwrap_or_default()
    )]
    NoFrames {
        /// How many lines were read.
        lines: usize,
        /// A message about the failure that was there all the same.
        seen: Option<String>,
    },
    /// A stack trace of a language that does not run as machine code with debug information we read.
    #[error(
        "this is a {language} stack trace, not one of native code; give the trace of a C, C++ or Rust program"
    )]
    NotATrace {
        /// Whose trace it is.
        language: &'static str,
    },
}

/// Reads the text of a stack trace. The format is recognised; lines around the trace are skipped.
pub fn parse(bytes: &[u8]) -> Result<Report, TextError> {
    let mut lines = lines::Lines::new(bytes);
    let mut stacks = stacks::Stacks::default();
    let mut facts = facts::Facts::default();
    let mut rust = rust_panic::RustPanic::default();
    let mut sanitizer = sanitizer::Sanitizer::default();
    let mut language = None;
    while let Some(line) = lines.next_line() {
        if line.is_blank() {
            stacks.blank();
            continue;
        }
        let text = line.text();
        if text.starts_with('#') {
            let record = gdb::unwrap_frame(&line, &mut lines);
            let _known = coredumpctl::frame(&record, &mut stacks)
                || sanitizer.frame(&record, &mut stacks)
                || gdb::frame(&record, &mut stacks, &mut facts);
            continue;
        }
        language = language.or_else(|| foreign::language(text));
        let after_frames = !stacks.all.is_empty();
        let _known = rust.line(&line, &mut stacks, &mut facts)
            || messages::line(text, &mut facts, after_frames)
            || gdb::line(text, &mut stacks, &mut facts)
            || coredumpctl::line(text, &mut stacks, &mut facts)
            || kernel::line(text, &mut stacks, &mut facts)
            || sanitizer.line(text, &mut stacks, &mut facts)
            || glibc::frame(text, &mut stacks)
            || glibc::mapping(text, &mut facts)
            || perf::line(&line, &mut stacks);
    }
    rust.finish(&mut facts);
    if lines.read == 0 {
        return Err(TextError::Empty);
    }
    if lines.cut > 0 {
        facts.note(format!("lines cut, as they were too long: {}", lines.cut));
    }
    assemble::report(stacks, facts, language, lines.read)
}

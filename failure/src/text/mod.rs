//! The text of a stack trace, in whatever format it comes.
//!
//! - `lines` and `prefix`: bytes into clean lines, without what a log put in front.
//! - `gdb`, `lldb`, `eu_stack`, `coredumpctl`, `rust_panic`, `sanitizer`, `glibc`, `perf`, `kernel`: one format
//!   each. A line is offered to each of them; what none of them knows is skipped.
//! - `messages` and `signals`: what is said about the failure outside of stacks; `foreign`: traces that
//!   are not for us.
//! - `several`: where another failure begins.
//! - `stacks` and `facts`: what was found, within bounds; `threads` and `modules` complete it, and
//!   `assemble` makes the report.

mod assemble;
mod coredumpctl;
mod eu_stack;
mod facts;
mod foreign;
mod gdb;
mod glibc;
mod kernel;
mod lines;
mod lldb;
mod messages;
mod modules;
mod perf;
mod prefix;
mod rust_panic;
mod sanitizer;
mod scan;
mod several;
mod signals;
mod stacks;
mod threads;

use thiserror::Error;

use crate::report::{Kind, Location, Report, Signal};

/// Why a text is no report.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TextError {
    /// There was nothing to read.
    #[error("the text is empty; give a stack trace, such as gdb prints for `thread apply all bt`")]
    Empty,
    /// Nothing in the text looks like a frame.
    #[error(
        "no stack frames found in {lines} lines{}; give gdb's `bt` or `thread apply all bt`, lldb's `bt all`, `coredumpctl info`, \
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

/// What a program said about its failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The kind of failure that the words stand for.
    pub kind: Kind,
    /// The words.
    pub message: String,
    /// The place that they name, with the function if it is named too.
    pub place: Option<(Location, Option<String>)>,
}

/// Reads the text of a stack trace. The format is recognised; lines around the trace are skipped.
pub fn parse(bytes: &[u8]) -> Result<Report, TextError> {
    let mut lines = lines::Lines::new(bytes);
    let (stacks, facts, language) = read(&mut lines);
    if lines.read == 0 {
        return Err(TextError::Empty);
    }
    assemble::report(stacks, facts, language, lines.read)
}

/// Looks for what a program says when it gives up in what it wrote: a failed assertion, a complaint of the C
/// library, an exception that nobody caught, a panic.
#[must_use]
pub fn said(output: &[u8]) -> Option<Said> {
    let (_, facts, _) = read(&mut lines::Lines::new(output));
    let (kind, message) = facts.message()?;
    Some(Said {
        kind,
        message: message.to_owned(),
        place: facts
            .place()
            .map(|place| (place.location.clone(), place.function.clone())),
    })
}

/// A signal by name (`SIGSEGV` or `SEGV`) or number.
#[must_use]
pub fn signal_by_name(word: &str) -> Option<Signal> {
    signals::by_name(word)
}

fn read(lines: &mut lines::Lines<'_>) -> (stacks::Stacks, facts::Facts, Option<&'static str>) {
    let mut stacks = stacks::Stacks::default();
    let mut facts = facts::Facts::default();
    let mut rust = rust_panic::RustPanic::default();
    let mut sanitizer = sanitizer::Sanitizer::default();
    let mut lldb = lldb::Lldb::default();
    let mut kernel = kernel::Kernel::default();
    let mut perf = perf::Perf::default();
    let mut several = several::Several::default();
    let mut language = None;
    while let Some(line) = lines.next_line() {
        if line.is_blank() {
            stacks.blank();
            continue;
        }
        let text = line.text();
        if several.is_of_another(text, &stacks, &facts) {
            continue;
        }
        if text.starts_with('#') {
            let record = gdb::unwrap_frame(&line, lines);
            let _known = coredumpctl::frame(&record, &mut stacks)
                || sanitizer.frame(&record, &mut stacks)
                || gdb::frame(&record, &mut stacks, &mut facts)
                || eu_stack::frame(&record, &mut stacks);
            continue;
        }
        language = language.or_else(|| foreign::language(text));
        let after_frames = !stacks.all.is_empty();
        let _known = rust.line(&line, &mut stacks, &mut facts)
            || messages::line(text, &mut facts, after_frames)
            || gdb::line(text, &mut stacks, &mut facts)
            || lldb.line(text, &mut stacks, &mut facts)
            || eu_stack::line(&line, &mut stacks, &mut facts)
            || coredumpctl::line(text, &mut stacks, &mut facts)
            || kernel.line(text)
            || sanitizer.line(text, &mut stacks, &mut facts)
            || glibc::frame(text, &mut stacks)
            || glibc::mapping(text, &mut facts)
            || perf.line(&line, &mut stacks);
    }
    rust.finish(&mut facts);
    kernel.finish(&mut stacks, &mut facts);
    perf.finish(&mut facts);
    several.finish(&mut facts);
    if lines.cut > 0 {
        facts.note(format!("lines cut, as they were too long: {}", lines.cut));
    }
    (stacks, facts, language)
}

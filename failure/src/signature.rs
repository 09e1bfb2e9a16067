//! What tells one bug from another.
//!
//! Two failures with the same signature are taken for the same bug. It must be the same in every run that the
//! bug ends: so no addresses, thread ids, values or messages; and not the whole stack, whose outer part
//! depends on how the program came there.

use std::collections::BTreeSet;
use std::fmt;

use program::source::SourceFrame;
use program::{Program, is_library_path};

use crate::report::{Kind, Signal};
use crate::resolve::{Failure, ResolvedFrame, ResolvedThread, Waiting, waiting};

/// Frames that count, innermost first: where it failed and how it was called.
const FRAMES: usize = 4;

/// Kind and in-program frames of a failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature {
    /// The kind, with the signal where it is one.
    pub kind: String,
    /// The failing statement first, then the functions around it. For a hang: where the threads of the cycle
    /// wait, in alphabetical order.
    pub frames: Vec<String>,
}

impl Signature {
    /// The signature of a failure of a program.
    #[must_use]
    pub fn of(failure: &Failure, program: &Program<'_>) -> Self {
        let frames = match failure.kind {
            Kind::Hang => waiting_places(failure, program),
            _ => failing_frames(failure, program),
        };
        Self {
            kind: kind(failure.kind, failure.signal),
            frames,
        }
    }

    /// Sixteen hexadecimal digits that stand for it, the same on every host.
    #[must_use]
    pub fn id(&self) -> String {
        // FNV-1a: a hash that is written down, unlike the standard library's.
        let text = self.to_string();
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.frames.join(" < "))
    }
}

fn kind(kind: Kind, signal: Option<Signal>) -> String {
    match (kind, signal) {
        (Kind::Signal, Some(signal)) => signal.to_string(),
        (Kind::Signal, None) => "signal".to_owned(),
        (Kind::Assertion, _) => "assertion".to_owned(),
        (Kind::Abort, _) => "abort".to_owned(),
        (Kind::Hang, _) => "hang".to_owned(),
        (Kind::ExitStatus, _) => "exit status".to_owned(),
        (Kind::Oracle, _) => "oracle".to_owned(),
    }
}

fn failing_frames(failure: &Failure, program: &Program<'_>) -> Vec<String> {
    let frames = failure.threads.get(failure.failing).zip(failure.failing_frame);
    let Some((thread, from)) = frames else {
        return Vec::new();
    };
    let mut names: Vec<String> = Vec::new();
    for frame in thread.frames.iter().skip(from).filter(|frame| frame.own) {
        let name = if names.is_empty() {
            place(frame, program)
        } else {
            function(frame, program)
        };
        // Recursion is as deep as its input: once is enough.
        let repeated = names.iter().any(|known| function_of(known) == function_of(&name));
        if !repeated {
            names.push(name);
        }
        if names.len() == FRAMES {
            break;
        }
    }
    names
}

/// The places where threads wait for what does not come. Those that wait for one of these to end, or for
/// input, are victims.
fn waiting_places(failure: &Failure, program: &Program<'_>) -> Vec<String> {
    let own = |thread: &ResolvedThread| thread.frames.iter().any(|frame| frame.own);
    let threads = || failure.threads.iter().filter(|thread| own(thread));
    let telling = threads().map(waiting).min().unwrap_or(Waiting::Outside);
    let places: BTreeSet<String> = threads()
        .filter(|thread| waiting(thread) == telling)
        .filter_map(|thread| thread.frames.iter().find(|frame| frame.own))
        // One that runs is anywhere in its loop.
        .map(|frame| match telling {
            Waiting::Running => function(frame, program),
            _ => place(frame, program),
        })
        .collect();
    places.into_iter().collect()
}

/// `function:line`, or the offset in the file where there is no line.
fn place(frame: &ResolvedFrame, program: &Program<'_>) -> String {
    let line = own_source(frame).map_or(0, |source| source.line);
    match line {
        0 => function(frame, program),
        line => format!("{}:{line}", function(frame, program)),
    }
}

fn function(frame: &ResolvedFrame, program: &Program<'_>) -> String {
    let named = own_source(frame).and_then(|source| source.function.as_deref());
    if let Some(name) = named {
        return name.to_owned();
    }
    let Some(pc) = frame.executing() else {
        return "?".to_owned();
    };
    let module = program.module(pc.module).map_or("?", |module| module.name());
    let module = module.rsplit('/').next().unwrap_or(module);
    match program
        .function_at(pc)
        .and_then(|function| program.symbol(function))
    {
        Some(symbol) => program::code::demangle_path(symbol),
        None => format!("{module}+{:#x}", pc.addr.0),
    }
}

fn function_of(name: &str) -> &str {
    let bare = name
        .rsplit_once(':')
        .filter(|(_, line)| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()));
    bare.map_or(name, |(function, _)| function)
}

/// The innermost source function of a frame that is no library's.
fn own_source(frame: &ResolvedFrame) -> Option<&SourceFrame> {
    let is_own = |source: &&SourceFrame| !source.file.as_deref().is_some_and(is_library_path);
    let sources = &frame.sources;
    sources.iter().find(is_own).or_else(|| sources.last())
}

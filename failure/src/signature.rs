//! What tells one bug from another.
//!
//! Two failures with the same signature are taken for the same bug. It must be the same in every run that the
//! bug ends: so no addresses, thread ids, values or messages; and not the whole stack, whose outer part
//! depends on how the program came there.

use std::collections::BTreeSet;
use std::fmt;

use program::source::SourceFrame;
use program::{LinkAddr, Pc, Program, is_library_path};

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
        digits(&self.to_string())
    }

    /// The same for the signature in one program: two programs may fail alike.
    #[must_use]
    pub fn id_in(&self, program: &str) -> String {
        digits(&format!("{program}\0{self}"))
    }
}

fn digits(text: &str) -> String {
    // FNV-1a: a hash that is written down, unlike the standard library's.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
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
    let own = thread.frames.iter().skip(from).filter(|frame| frame.own);
    let mut functions: Vec<String> = Vec::new();
    let mut innermost = String::new();
    for name in own.flat_map(|frame| functions_of(frame, program)) {
        if innermost.is_empty() {
            innermost = name.place();
        }
        // Recursion is as deep as its input: once is enough.
        if !functions.contains(&name.function) {
            functions.push(name.function);
        }
        if functions.len() == FRAMES {
            break;
        }
    }
    if let Some(first) = functions.first_mut() {
        *first = innermost;
    }
    functions
}

/// The places where threads wait for what does not come. Those that wait for one of these to end, or for
/// input, are victims.
fn waiting_places(failure: &Failure, program: &Program<'_>) -> Vec<String> {
    let own = |thread: &ResolvedThread| thread.frames.iter().any(|frame| frame.own);
    let threads = || failure.threads.iter().filter(|thread| own(thread));
    let telling = threads().map(waiting).min().unwrap_or(Waiting::Outside);
    // One that runs is anywhere in its loop, also in the part that rests.
    let goes_round = |waiting| matches!(waiting, Waiting::Running | Waiting::Sleeping);
    let counts = |waiting| waiting == telling || (goes_round(waiting) && goes_round(telling));
    let places: BTreeSet<String> = threads()
        .filter(|thread| counts(waiting(thread)))
        .filter_map(|thread| thread.frames.iter().find(|frame| frame.own))
        .filter_map(|frame| functions_of(frame, program).into_iter().next())
        .map(|name| match goes_round(telling) {
            true => name.function,
            false => name.place(),
        })
        .collect();
    places.into_iter().collect()
}

/// A function and where in it a frame is.
struct Name {
    function: String,
    /// 0 where there is none.
    line: u32,
    /// The place as linked, which stands for the line where there is none.
    addr: Option<LinkAddr>,
}

impl Name {
    fn place(&self) -> String {
        match (self.line, self.addr) {
            (0, None) => self.function.clone(),
            (0, Some(addr)) => format!("{}@{addr}", self.function),
            (line, _) => format!("{}:{line}", self.function),
        }
    }
}

/// The functions of a frame that are no library's, the innermost inlined one first: what a compiler inlines
/// must not matter.
fn functions_of(frame: &ResolvedFrame, program: &Program<'_>) -> Vec<Name> {
    let is_own = |source: &&SourceFrame| !source.file.as_deref().is_some_and(is_library_path);
    let named = frame.sources.iter().filter(is_own).filter_map(|source| {
        Some(Name {
            function: source.function.as_deref()?.to_owned(),
            line: source.line,
            addr: frame.executing().map(|pc| pc.addr),
        })
    });
    let names: Vec<Name> = named.collect();
    if !names.is_empty() {
        return names;
    }
    frame
        .executing()
        .into_iter()
        .map(|pc| unnamed(pc, program))
        .collect()
}

/// The names of the functions of a frame, the innermost inlined one first.
pub(crate) fn function_names(frame: &ResolvedFrame, program: &Program<'_>) -> Vec<String> {
    let names = functions_of(frame, program).into_iter();
    names.map(|name| name.function).collect()
}

/// A function without debug information: its symbol, or its file.
fn unnamed(pc: Pc, program: &Program<'_>) -> Name {
    let symbol = program
        .function_at(pc)
        .and_then(|function| program.symbol(function));
    let function = match symbol {
        Some(symbol) => program::code::demangle_path(symbol),
        None => {
            let module = program.module(pc.module).map_or("?", |module| module.name());
            let file = module.rsplit('/').next().unwrap_or(module);
            file.to_owned()
        }
    };
    Name {
        function,
        line: 0,
        addr: Some(pc.addr),
    }
}

//! From what was found to a report.

use super::TextError;
use super::facts::{Facts, Place};
use super::modules::Modules;
use super::scan::base_name;
use super::signals;
use super::stacks::{MOST_FRAMES, MOST_STACKS, Stack, Stacks};
use super::threads;
use crate::frames::{self, RuntimeRole};
use crate::report::{Frame, Kind, Position, Report, Source, SymbolRef, Thread};

/// Formats in the order in which their stacks are preferred when a text has several.
const PREFERENCE: [Source; 9] = [
    Source::AddressSanitizer,
    Source::ThreadSanitizer,
    Source::Gdb,
    Source::Lldb,
    Source::EuStack,
    Source::Coredumpctl,
    Source::RustPanic,
    Source::Glibc,
    Source::Perf,
];

/// Makes the report, or says why there is none.
pub(super) fn report(
    stacks: Stacks,
    mut facts: Facts,
    language: Option<&'static str>,
    lines: usize,
) -> Result<Report, TextError> {
    bounds(&stacks, &mut facts);
    let all: Vec<_> = stacks
        .all
        .into_iter()
        .filter(|stack| !stack.thread.frames.is_empty())
        .collect();
    let Some(source) = PREFERENCE
        .into_iter()
        .find(|source| all.iter().any(|stack| stack.source == *source))
    else {
        return without_stack(facts, language, lines);
    };
    if let (Source::Perf, Some(language)) = (source, language) {
        return Err(TextError::NotATrace { language });
    }
    let mut stacks = of_one_report(all, source, &mut facts);
    stacks.iter_mut().for_each(threads::complete);
    let (mut stacks, stopped_at) = threads::without_repetition(stacks);
    let modules = Modules::new(&facts);
    for stack in &mut stacks {
        stack
            .thread
            .frames
            .iter_mut()
            .for_each(|frame| modules.complete(frame));
    }
    drop(modules);
    let failing = threads::failing(&stacks, &facts, stopped_at);
    Ok(finish(
        source,
        stacks.into_iter().map(|stack| stack.thread).collect(),
        failing,
        facts,
    ))
}

fn bounds(stacks: &Stacks, facts: &mut Facts) {
    if stacks.dropped_frames > 0 {
        let dropped = stacks.dropped_frames;
        facts.note(format!(
            "frames left out, as at most {MOST_FRAMES} of a thread are kept: {dropped}"
        ));
    }
    if stacks.dropped_stacks > 0 {
        facts.note(format!(
            "stacks left out, as at most {MOST_STACKS} are kept: {}",
            stacks.dropped_stacks
        ));
    }
}

/// The stacks of the preferred format, and of its first report where it has several.
fn of_one_report(all: Vec<Stack>, source: Source, facts: &mut Facts) -> Vec<Stack> {
    let others = all.iter().filter(|stack| stack.source != source).count();
    if others > 0 {
        facts.note(format!("stacks in another format left out: {others}"));
    }
    let sanitizer = matches!(source, Source::AddressSanitizer | Source::ThreadSanitizer);
    let first = all
        .iter()
        .find(|stack| stack.source == source)
        .map(|stack| stack.report);
    let last = all
        .iter()
        .filter(|stack| stack.source == source)
        .map(|stack| stack.report)
        .max();
    if let (true, Some(first), Some(last)) = (sanitizer, first, last)
        && last > first
    {
        facts.note(format!(
            "further reports left out, as this is the first: {}",
            last - first
        ));
    }
    let wanted = |stack: &Stack| stack.source == source && (!sanitizer || Some(stack.report) == first);
    all.into_iter().filter(wanted).collect()
}

/// A message may name the failing statement where no stack does.
fn without_stack(facts: Facts, language: Option<&'static str>, lines: usize) -> Result<Report, TextError> {
    if let Some(language) = language {
        return Err(TextError::NotATrace { language });
    }
    let Some(Place {
        source,
        function,
        location,
    }) = facts.place().cloned()
    else {
        return Err(TextError::NoFrames {
            lines,
            seen: facts.message().map(|(_, text)| text.to_owned()),
        });
    };
    let symbol = function.map(|name| SymbolRef { name, offset: None });
    let frame = Frame {
        symbol,
        location: Some(location),
        position: Position::Exact,
        ..Frame::default()
    };
    let thread = Thread {
        frames: vec![frame],
        ..Thread::default()
    };
    let mut facts = facts;
    facts.note("no stack frames: only the place that the message names".to_owned());
    Ok(finish(source, vec![thread], 0, facts))
}

fn finish(source: Source, threads: Vec<Thread>, failing: usize, mut facts: Facts) -> Report {
    let kind = kind(source, &threads, failing, &facts);
    if kind == Kind::Signal && facts.signal.is_none() {
        facts.note("the text does not name a signal: taken as a fault in the innermost frame".to_owned());
    }
    let message = facts.message().filter(|(said, _)| match kind {
        Kind::Signal => *said == Kind::Signal,
        Kind::Hang => false,
        _ => true,
    });
    let message = message.map(|(_, text)| text.to_owned());
    let program = facts.program.clone().or_else(|| program_of(&threads, failing));
    let build_id = program.as_ref().and_then(|program| {
        let name = base_name(program);
        let in_frames = threads
            .iter()
            .flat_map(|thread| &thread.frames)
            .filter_map(|frame| frame.module.as_ref());
        let given = in_frames
            .filter(|module| base_name(&module.path) == name)
            .find_map(|module| module.build_id.clone());
        given.or_else(|| Modules::new(&facts).build_id(program).cloned())
    });
    Report {
        source,
        kind,
        signal: facts.signal,
        message,
        sign: None,
        fault_address: facts.fault_address,
        program,
        build_id,
        threads,
        failing,
        notes: facts.notes,
    }
}

fn kind(source: Source, threads: &[Thread], failing: usize, facts: &Facts) -> Kind {
    let said = facts.message().map(|(kind, _)| kind);
    if let (Source::AddressSanitizer | Source::ThreadSanitizer, Some(kind)) = (source, said) {
        return kind;
    }
    let frames = threads.get(failing).map_or(&[][..], |thread| &thread.frames);
    let by_frames = kind_by_frames(frames);
    if facts.signal.is_some_and(signals::is_fault) {
        let panicked = threads::roles(frames).any(|role| role == RuntimeRole::Panic);
        return if panicked { Kind::Abort } else { Kind::Signal };
    }
    let could_be_stuck = facts.signal.is_none_or(signals::is_sent_to_the_stuck);
    if could_be_stuck
        && by_frames.is_none()
        && threads.iter().all(|thread| threads::is_waiting(&thread.frames))
    {
        return Kind::Hang;
    }
    match (by_frames, said, facts.signal) {
        (Some(Kind::Assertion), ..) => Kind::Assertion,
        (_, Some(kind), _) | (Some(kind), ..) => kind,
        (None, None, Some(signal)) if signal == signals::SIGABRT => Kind::Abort,
        _ => Kind::Signal,
    }
}

/// What the frames above the program's own say; below a signal handler's frame another story begins.
fn kind_by_frames(frames: &[Frame]) -> Option<Kind> {
    let mut kind = None;
    for role in threads::roles(frames) {
        match role {
            RuntimeRole::Assertion => return Some(Kind::Assertion),
            RuntimeRole::Abort | RuntimeRole::Check | RuntimeRole::Panic | RuntimeRole::Exception => {
                kind = Some(Kind::Abort);
            }
            _ => {}
        }
    }
    kind
}

/// The executable, where the frames name it: the file that `main` or `_start` is in.
fn program_of(threads: &[Thread], failing: usize) -> Option<String> {
    let own = threads.get(failing).into_iter().chain(threads);
    let mut frames = own.flat_map(|thread| thread.frames.iter().rev());
    let entry = frames.find_map(|frame| {
        let name = frame.symbol.as_ref().map(|symbol| symbol.name.as_str());
        frame
            .module
            .as_ref()
            .filter(|_| matches!(name, Some("main" | "_start")))
    });
    let innermost = || {
        let frames = &threads.get(failing)?.frames;
        let module = frames.get(frames::first_in_program(frames)?)?.module.as_ref()?;
        (!module.path.contains(".so")).then_some(module)
    };
    entry.or_else(innermost).map(|module| module.path.clone())
}

//! lldb: `bt`, `bt all`, and where it stopped.
//!
//! The frame that an inlined function is part of follows it. Both are one machine frame, although lldb prints
//! the start of the inlined code as the address of the second.

use program::RunAddr;

use super::facts::{Facts, ThreadHint};
use super::scan::{decimal, hex, location, opening_of_last};
use super::signals;
use super::stacks::Stacks;
use crate::report::{Frame, ModuleRef, Source, SymbolRef, Thread};

/// Where in lldb's output we are.
#[derive(Debug, Default)]
pub(super) struct Lldb {
    /// The last frame was printed without arguments.
    bare: bool,
}

impl Lldb {
    /// Reads a frame or the line that introduces a thread.
    pub fn line(&mut self, text: &str, stacks: &mut Stacks, facts: &mut Facts) -> bool {
        let (selected, text) = match text.strip_prefix('*') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text),
        };
        let Some((number, frame)) = read_frame(text) else {
            return thread(text, selected, stacks, facts);
        };
        // A frame that lldb made up for a call that left no trace: the code around it shows the same.
        if let Some(frame) = frame {
            let inner = stacks
                .last_frame(Source::Lldb)
                .filter(|_| number > 0 && self.bare);
            if let Some(inner) = inner.filter(|inner| is_part_of(inner, &frame)) {
                inner.inlined = true;
            }
            self.bare = frame.location.is_some() && !text.contains('(');
            stacks.frame(Source::Lldb, Some(number), frame);
        }
        true
    }
}

/// Whether a frame that is not marked is inlined into the next one: gcc's debug information makes lldb print the
/// outer function's name for both, and no arguments for the first.
fn is_part_of(inner: &Frame, outer: &Frame) -> bool {
    let module = |frame: &Frame| frame.module.as_ref().map(|module| module.path.clone());
    inner.symbol.is_some()
        && inner.symbol == outer.symbol
        && module(inner) == module(outer)
        && inner.location != outer.location
        && outer.address <= inner.address
}

/// `thread #2, name = 'prog', stop reason = signal SIGSEGV: invalid address (fault address: 0x10)`, or
/// `thread #2: tid = 1235, 0x000055… prog`drain(…) at queue.c:6:7, name = 'prog', stop reason = …`.
fn thread(text: &str, selected: bool, stacks: &mut Stacks, facts: &mut Facts) -> bool {
    let Some((number, rest)) = text.strip_prefix("thread #").and_then(decimal) else {
        return false;
    };
    if !(rest.is_empty() || rest.starts_with([',', ':'])) {
        return false;
    }
    let after = |mark: &str| rest.split_once(mark).map(|(_, rest)| rest);
    let id = after("tid = ").and_then(|rest| hex(rest).or_else(|| decimal(rest)));
    let name = after("name = '").and_then(|rest| rest.split('\'').next());
    let reason = after("stop reason = ").map(|rest| rest.strip_prefix("signal ").unwrap_or(rest));
    let word = reason.and_then(|reason| reason.split([':', ' ', ',']).next());
    let signal = word
        .filter(|word| word.starts_with("SIG"))
        .and_then(signals::by_name);
    // In a core every thread has the signal; the selected one got it.
    if selected || facts.signal.is_none() {
        facts.signal = signal.or(facts.signal);
    }
    if selected {
        let hint = Some(ThreadHint::Number(number));
        facts.current = facts.current.or(hint);
        facts.failing = facts.failing.or(hint.filter(|_| signal.is_some()));
        let address = after("fault address: ").or_else(|| after("fault address="));
        facts.fault_address = facts
            .fault_address
            .or(address.and_then(hex).map(|(address, _)| RunAddr(address)));
    }
    let thread = Thread {
        id: id.map(|(id, _)| id).or(Some(number)),
        name: name.map(str::to_owned),
        ..Thread::default()
    };
    stacks.open(Source::Lldb, thread, Some(number), 0);
    true
}

/// `frame #1: 0x000055… prog`drain(q=0x…) at queue.c:6:7 [opt]`; no frame for one that lldb made up.
fn read_frame(text: &str) -> Option<(u64, Option<Frame>)> {
    let (number, rest) = decimal(text.strip_prefix("frame #")?)?;
    let (address, rest) = hex(rest.strip_prefix(": ")?)?;
    let mut rest = rest.trim();
    let mut artificial = false;
    while let Some((before, mark)) = rest.strip_suffix(']').and_then(|rest| rest.rsplit_once(" [")) {
        if !["opt", "artificial"].contains(&mark) {
            break;
        }
        artificial |= mark == "artificial";
        rest = before.trim_end();
    }
    if artificial {
        return Some((number, None));
    }
    let mut frame = Frame {
        address: Some(RunAddr(address)),
        ..Frame::default()
    };
    if let Some((module, function)) = rest.split_once('`') {
        frame.module = Some(ModuleRef {
            path: module.to_owned(),
            ..ModuleRef::default()
        });
        name(function, &mut frame);
    }
    Some((number, Some(frame)))
}

/// What follows the module: `drain(q=0x…) at queue.c:6:7`, `main [inlined] drain at queue.c:6:7`, `abort + 211`.
fn name(text: &str, frame: &mut Frame) {
    let place = text.rsplit_once(" at ");
    let (text, place) = match place.map(|(text, place)| (text, location(place))) {
        Some((before, Some(place))) => (before, Some(place)),
        _ => (text, None),
    };
    frame.location = place;
    let (text, inlined) = match text.split_once(" [inlined] ") {
        Some((_, inner)) => (inner, true),
        None => (text, false),
    };
    frame.inlined = inlined;
    let (text, offset) = match text
        .rsplit_once(" + ")
        .map(|(name, offset)| (name, decimal(offset)))
    {
        Some((name, Some((offset, "")))) => (name, Some(offset)),
        _ => (text, None),
    };
    // What lldb calls functions that have no symbol means nothing to anybody else.
    if text.is_empty() || text.starts_with("___lldb_unnamed_symbol") {
        return;
    }
    let member = text.strip_suffix(" const").unwrap_or(text);
    let end = opening_of_last(member).filter(|&open| open > 0);
    let name = end.and_then(|end| member.get(..end)).unwrap_or(text);
    // The arguments of a call operator stand in its own parentheses: `Job::operator(this=0x01)(int) const`.
    let called = name.strip_suffix(')').and_then(|_| opening_of_last(name));
    let operator = called
        .and_then(|open| name.get(..open))
        .filter(|name| name.ends_with("operator"));
    let name = operator.map_or_else(|| name.to_owned(), |operator| format!("{operator}()"));
    frame.symbol = Some(SymbolRef { name, offset });
}

/// Gives the frames that others are inlined into the address of the machine frame.
pub(super) fn inlining(frames: &mut [Frame]) {
    for at in 1..frames.len() {
        let [inner, outer] = frames.get_mut(at - 1..=at).unwrap_or_default() else {
            break;
        };
        if inner.inlined {
            outer.address = inner.address;
            outer.position = inner.position;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Option<u64>, Option<u32>, bool) {
        let frame = read_frame(text).unwrap().1.unwrap();
        let symbol = frame.symbol.unwrap_or_default();
        let line = frame.location.map(|location| location.line);
        (symbol.name, symbol.offset, line, frame.inlined)
    }

    #[test]
    fn every_form_of_a_frame() {
        for (text, name, offset, line, inlined) in [
            (
                "prog`drain(q=0x01, why=\"a) at b.c:1\") at q.c:6:7",
                "drain",
                None,
                Some(6),
                false,
            ),
            (
                "prog`main [inlined] drain(q=0x01) at q.c:6:7 [opt]",
                "drain",
                None,
                Some(6),
                true,
            ),
            ("prog`main at q.c:9 [opt]", "main", None, Some(9), false),
            ("libc.so.6`abort + 211", "abort", Some(211), None, false),
            ("libc.so.6`___lldb_unnamed_symbol3567 + 12", "", None, None, false),
            (
                "prog`Job::operator()(this=0x01, n=3) const at j.cc:4:5",
                "Job::operator()",
                None,
                Some(4),
                false,
            ),
            (
                "prog`Job::operator(this=0x01, n=3)(int) const at j.cc:4:5",
                "Job::operator()",
                None,
                Some(4),
                false,
            ),
            (
                "libstdc++.so.6`std::terminate() + 17",
                "std::terminate",
                Some(17),
                None,
                false,
            ),
        ] {
            let found = read(&format!("frame #3: 0x000055d0c0de1139 {text}"));
            assert_eq!(found, (name.to_owned(), offset, line, inlined), "{text}");
        }
        let made_up = "frame #1: 0x000055d0c0de1139 prog`middle at q.c:3:3 [opt] [artificial]";
        assert_eq!(read_frame(made_up).unwrap(), (1, None));
        assert!(read_frame("frame #1 is not here").is_none());
        assert!(read_frame("frame #1: see `notes`").is_none());
    }
}

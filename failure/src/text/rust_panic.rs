//! Rust panics and their backtraces, short and full.

use program::RunAddr;

use super::facts::{Facts, Place, bounded};
use super::lines::Line;
use super::scan::{decimal, hex, location};
use super::signals;
use super::stacks::Stacks;
use crate::report::{Frame, Kind, Location, Source, SymbolRef, Thread};

/// A panic's message is the lines up to the backtrace; more than this is something else.
const MOST_MESSAGE_LINES: usize = 64;

/// Where in a panic's text we are.
#[derive(Debug, Default)]
pub(super) struct RustPanic {
    panics: usize,
    /// The message being read, in the form since Rust 1.73: on the lines after `panicked at`.
    message: Option<Message>,
    in_backtrace: bool,
}

#[derive(Debug)]
struct Message {
    lines: Vec<String>,
    place: Option<Place>,
}

impl RustPanic {
    /// Looks at a line; true if it is of a panic and of nothing else.
    pub fn line(&mut self, line: &Line<'_>, stacks: &mut Stacks, facts: &mut Facts) -> bool {
        let text = line.text();
        if self.panicked(text, stacks, facts) {
            return true;
        }
        if text == "stack backtrace:" || text.starts_with("note: run with `RUST_BACKTRACE") {
            self.in_backtrace = text == "stack backtrace:";
            self.end_of_message(facts);
            return true;
        }
        if text.starts_with("thread caused non-unwinding panic") || text.starts_with("fatal runtime error: ")
        {
            facts.signal = facts.signal.or(Some(signals::SIGABRT));
            let text = text.strip_prefix("fatal runtime error: ").unwrap_or(text);
            if self.panics == 0 {
                facts.say(Kind::Abort, text, None, false);
            }
            return true;
        }
        if let Some(message) = &mut self.message {
            if message.lines.len() < MOST_MESSAGE_LINES {
                message.lines.push(bounded(text));
                return false;
            }
            message.lines.truncate(1);
            self.end_of_message(facts);
        }
        self.frame(text, stacks) || self.source_line(text, stacks) || self.inlined(line, stacks)
    }

    /// Called at the end of the text.
    pub fn finish(&mut self, facts: &mut Facts) {
        if let Some(message) = &mut self.message {
            message.lines.truncate(1);
        }
        self.end_of_message(facts);
    }

    /// `thread 'main' (123) panicked at src/main.rs:4:5:` or, before Rust 1.73,
    /// `thread 'main' panicked at 'message', src/main.rs:4:5`.
    fn panicked(&mut self, text: &str, stacks: &mut Stacks, facts: &mut Facts) -> bool {
        let Some(rest) = text.strip_prefix("thread '") else {
            return false;
        };
        if let Some((name, "")) = rest.split_once(" has overflowed its stack") {
            let name = name.rsplit_once('\'').map_or(name, |(name, _)| name);
            stacks.open(Source::RustPanic, named(name, None), None, self.panics);
            facts.say(Kind::Abort, "stack overflow", None, false);
            return true;
        }
        let Some((who, rest)) = rest.split_once(" panicked at ") else {
            return false;
        };
        let Some((name, id)) = who.rsplit_once('\'') else {
            return false;
        };
        let id = id.trim().strip_prefix('(').and_then(decimal).map(|(id, _)| id);
        self.end_of_message(facts);
        self.panics += 1;
        self.in_backtrace = false;
        stacks.open(Source::RustPanic, named(name, id), None, self.panics);
        let place = |location| {
            Some(Place {
                source: Source::RustPanic,
                function: None,
                location,
            })
        };
        if let Some(quoted) = rest.strip_prefix('\'') {
            let (text, location) = match quoted.rsplit_once("', ") {
                Some((text, at)) => (text, location(at)),
                None => (quoted, None),
            };
            self.say(text, location.and_then(place), facts);
        } else {
            let location = location(rest.trim_end_matches(':'));
            self.message = Some(Message {
                lines: Vec::new(),
                place: location.and_then(place),
            });
        }
        true
    }

    fn end_of_message(&mut self, facts: &mut Facts) {
        if let Some(Message { lines, place }) = self.message.take() {
            self.say(lines.join("\n").trim(), place, facts);
        }
    }

    /// Of several panics, the first is the cause of the others (a poisoned lock, a failed join).
    fn say(&self, text: &str, place: Option<Place>, facts: &mut Facts) {
        if self.panics == 1 {
            let asserted = text.starts_with("assertion ");
            let kind = if asserted { Kind::Assertion } else { Kind::Abort };
            let text = if text.is_empty() { "panicked" } else { text };
            facts.say(kind, text, place, false);
        }
    }

    /// `   3: 0x55… - crate::func::h0123456789abcdef` or `   3: crate::func`.
    fn frame(&mut self, text: &str, stacks: &mut Stacks) -> bool {
        let read = || {
            let (number, rest) = decimal(text)?;
            let body = rest.strip_prefix(':')?;
            let body = body.strip_prefix([' ', '\t'])?.trim_start();
            match hex(body) {
                Some((address, rest)) => Some((number, Some(address), rest.strip_prefix(" - ")?)),
                None => Some((number, None, body)),
            }
        };
        let Some((number, address, name)) = read() else {
            return false;
        };
        // A number and a colon alone may be anything: a count, a line of a listing.
        let next = stacks
            .current(Source::RustPanic)
            .is_some_and(|stack| stack.is_next(number));
        let expected = (self.in_backtrace && (next || name.contains("::")))
            || (name.contains("::") && (next || number == 0));
        if !(expected || address.is_some()) || !is_name(name) {
            return false;
        }
        let unknown = name == "<unknown>";
        if unknown && address == Some(0) {
            return true;
        }
        let symbol = (!unknown).then(|| SymbolRef {
            name: name.to_owned(),
            offset: None,
        });
        let frame = Frame {
            address: address.map(RunAddr),
            symbol,
            ..Frame::default()
        };
        stacks.frame(Source::RustPanic, Some(number), frame);
        true
    }

    /// `at /path/file.rs:3:5`, which belongs to the frame before it.
    fn source_line(&self, text: &str, stacks: &mut Stacks) -> bool {
        let Some(place) = text.strip_prefix("at ").and_then(location) else {
            return false;
        };
        let Some(frame) = stacks.last_frame(Source::RustPanic) else {
            return false;
        };
        if frame.location.is_none() {
            frame.location = Some(Location {
                file: place.file.trim().to_owned(),
                ..place
            });
        }
        true
    }

    /// A name without number under a frame: the function that the frame before it is inlined into.
    fn inlined(&self, line: &Line<'_>, stacks: &mut Stacks) -> bool {
        let text = line.text();
        if !self.in_backtrace || line.indent() < 6 || !text.contains("::") || !is_name(text) {
            return false;
        }
        let Some(inner) = stacks.last_frame(Source::RustPanic) else {
            return false;
        };
        inner.inlined = true;
        let address = inner.address;
        let symbol = Some(SymbolRef {
            name: text.to_owned(),
            offset: None,
        });
        stacks.same_frame(
            Source::RustPanic,
            Frame {
                address,
                symbol,
                ..Frame::default()
            },
        );
        true
    }
}

fn named(name: &str, id: Option<u64>) -> Thread {
    Thread {
        id,
        name: Some(bounded(name)),
        ..Thread::default()
    }
}

/// Whether the text can be a symbol: blanks only inside brackets, as in `<T as Trait<A, B>>::f`.
fn is_name(text: &str) -> bool {
    let mut depth = 0i64;
    for byte in text.bytes() {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' | b')' | b'}' | b']' => depth -= 1,
            b' ' if depth <= 0 => return false,
            _ => {}
        }
    }
    text.starts_with(|first: char| first.is_alphabetic() || "_<{[$".contains(first))
}

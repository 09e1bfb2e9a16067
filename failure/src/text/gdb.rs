//! gdb: `bt`, `bt full`, `thread apply all bt`.
//!
//! A frame's address is left out where it says nothing new: the frame is the caller of an inlined one (then
//! both are one machine frame), or the address is the start of its line.

use program::RunAddr;

use super::facts::{Facts, ThreadHint};
use super::lines::{Line, Lines};
use super::scan::{balanced, decimal, frame_number, hex, location, opening_of_last, outside_quotes};
use super::signals;
use super::stacks::Stacks;
use crate::frames::{self, RuntimeRole};
use crate::report::{Frame, FrameOrigin, Kind, ModuleRef, Source, SymbolRef, Thread};

/// What gdb prints instead of a function for the frame that the kernel pushed.
pub(super) const SIGNAL_FRAME: &str = "<signal handler called>";

/// A wrapped frame is put together from at most this many lines.
const MOST_WRAPPED: usize = 32;

/// The line as one frame record, with the lines that gdb (or a mail program) wrapped it into.
pub(super) fn unwrap_frame<'a>(first: &'a Line<'a>, lines: &mut Lines<'_>) -> std::borrow::Cow<'a, str> {
    let mut record = std::borrow::Cow::Borrowed(first.text());
    if frame_number(&record).is_none() || record.len() > 16 * 1024 {
        return record;
    }
    for _ in 0..MOST_WRAPPED {
        let open = !balanced(&record);
        let Some(next) = lines.peek() else { break };
        if !continues(open, &record, next) {
            break;
        }
        let Some(next) = lines.next_line() else { break };
        record.to_mut().push(' ');
        record.to_mut().push_str(next.text());
        if record.len() > 32 * 1024 {
            break;
        }
    }
    record
}

fn continues(open: bool, record: &str, next: &Line<'_>) -> bool {
    let text = next.text();
    let starts = ["#", "Thread ", "[", "==", "Program ", "No locals", "No symbol"];
    if text.is_empty() || starts.iter().any(|start| text.starts_with(start)) {
        return false;
    }
    let tail = ["at ", "from ", "in "].iter().any(|word| {
        text.strip_prefix(word)
            .is_some_and(|rest| !rest.starts_with("= "))
    });
    let arguments = text.starts_with('(') && parts(record).is_none();
    // Where a mail program broke the line, the part before the break cannot stand alone.
    let broken = [" at", " from", " in", ","]
        .iter()
        .any(|end| record.ends_with(end));
    open || (next.indent() > 0 && (broken || ((tail || arguments) && !has_place(record))))
}

fn has_place(record: &str) -> bool {
    parts(record).is_some_and(|parts| !parts.place.is_empty())
}

/// Reads a frame record. `None` for what gdb would not print.
pub(super) fn frame(record: &str, stacks: &mut Stacks, facts: &mut Facts) -> bool {
    let Some((number, body)) = frame_number(record) else {
        return false;
    };
    if body.starts_with(SIGNAL_FRAME) {
        let symbol = SymbolRef {
            name: SIGNAL_FRAME.to_owned(),
            offset: None,
        };
        let frame = Frame {
            symbol: Some(symbol),
            origin: FrameOrigin::SignalFrame,
            ..Frame::default()
        };
        stacks.frame(Source::Gdb, Some(number), frame);
        return true;
    }
    let Some(parts) = parts(record) else { return false };
    let symbol = (parts.function != "??").then(|| SymbolRef {
        name: parts.function.to_owned(),
        offset: None,
    });
    let mut frame = Frame {
        address: parts.address.map(RunAddr),
        symbol,
        ..Frame::default()
    };
    if let Some(place) = parts.place.strip_prefix("at ") {
        frame.location = location(place);
    } else if let Some(path) = parts.place.strip_prefix("from ") {
        frame.module = Some(ModuleRef {
            path: path.trim().to_owned(),
            ..ModuleRef::default()
        });
    }
    message_in_arguments(parts.function, parts.arguments, facts);
    stacks.frame(Source::Gdb, Some(number), frame);
    true
}

struct Parts<'a> {
    address: Option<u64>,
    function: &'a str,
    arguments: &'a str,
    place: &'a str,
}

/// Takes a record apart. The argument list is the first parenthesised group with ` at `, ` from ` or
/// nothing behind it: those in front belong to the function's name (`operator()`, `std::function<void (int)>`).
fn parts(record: &str) -> Option<Parts<'_>> {
    let (_, body) = frame_number(record)?;
    let (address, body) = match hex(body) {
        Some((address, rest)) => (Some(address), rest.strip_prefix(" in ")?),
        None => (None, body),
    };
    let mut depth = 0usize;
    let mut open = 0;
    for (at, byte) in outside_quotes(body) {
        match byte {
            b'(' => {
                if depth == 0 {
                    open = at;
                }
                depth += 1;
            }
            b')' if depth > 0 => {
                depth -= 1;
                let rest = body.get(at + 1..)?;
                let ends = rest.is_empty() || rest.starts_with(" at ") || rest.starts_with(" from ");
                if depth == 0 && ends {
                    let function = body.get(..open)?.trim();
                    let arguments = body.get(open + 1..at)?;
                    return (!function.is_empty()).then_some(Parts {
                        address,
                        function,
                        arguments,
                        place: rest.trim_start(),
                    });
                }
            }
            _ => {}
        }
    }
    None
}

/// The text that runtime functions were called with: an assertion's expression, a heap complaint.
fn message_in_arguments(function: &str, arguments: &str, facts: &mut Facts) {
    let Some(role) = frames::is_runtime(function) else {
        return;
    };
    let argument = |name| string_argument(arguments, name);
    match role {
        RuntimeRole::Assertion => {
            if let Some(text) = argument("assertion").or_else(|| argument("condition")) {
                facts.say_from_frame(Kind::Assertion, &format!("Assertion `{text}' failed."));
            }
        }
        RuntimeRole::Heap => {
            if let Some(text) = argument("str") {
                facts.say_from_frame(Kind::Abort, &text);
            }
        }
        RuntimeRole::Check => {
            let text = argument("msg").unwrap_or_else(|| "stack smashing detected".to_owned());
            facts.say_from_frame(Kind::Abort, &text);
        }
        _ => {}
    }
}

/// The string that gdb shows for an argument: `name=0x55 "text"`, `name=name@entry=0x55 <sym> "text"`.
fn string_argument(arguments: &str, name: &str) -> Option<String> {
    let start = arguments.match_indices(name).map(|(at, _)| at).find(|&at| {
        let before = arguments.get(..at).unwrap_or_default();
        let after = arguments.get(at + name.len()..).unwrap_or_default();
        (before.is_empty() || before.ends_with(", ")) && after.starts_with('=')
    })?;
    let value = arguments.get(start..)?;
    let quoted = value.get(value.find('"')? + 1..)?;
    if value.get(..value.find('"')?)?.contains(", ") {
        return None;
    }
    let mut text = String::new();
    let mut chars = quoted.chars();
    while let Some(char) = chars.next() {
        match char {
            '"' => break,
            '\\' => text.push(match chars.next()? {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            _ => text.push(char),
        }
    }
    Some(text.trim().to_owned())
}

/// Lines of gdb that are not frames: threads, signals, what the core is of.
pub(super) fn line(text: &str, stacks: &mut Stacks, facts: &mut Facts) -> bool {
    thread_header(text, stacks) || signal(text, facts) || current_thread(text, facts) || core(text, facts)
}

/// `Thread 3 (Thread 0x7f… (LWP 123) "name"):` and older forms.
fn thread_header(text: &str, stacks: &mut Stacks) -> bool {
    let header = || {
        let (number, rest) = decimal(text.strip_prefix("Thread ")?)?;
        let rest = rest.strip_prefix(' ')?.trim_end().strip_suffix(':')?;
        let rest = rest.trim_end();
        let opens = rest.starts_with('(') || rest.starts_with('"');
        (opens && opening_of_last(rest).is_some()).then_some((number, rest))
    };
    let Some((number, rest)) = header() else {
        return false;
    };
    let name = rest
        .split_once('"')
        .and_then(|(_, rest)| rest.rsplit_once('"'))
        .map(|(name, _)| name.to_owned());
    let thread = Thread {
        id: kernel_id(rest).or(Some(number)),
        name,
        ..Thread::default()
    };
    stacks.open(Source::Gdb, thread, Some(number), 0);
    true
}

/// The kernel's id in `(LWP 123)`, `(process 123)` or `(Thread 122.123)`.
fn kernel_id(text: &str) -> Option<u64> {
    let after = |word| {
        text.split_once(word)
            .and_then(|(_, rest)| decimal(rest))
            .map(|(id, _)| id)
    };
    let dotted = || {
        let (_, rest) = decimal(text.split_once("(Thread ")?.1)?;
        Some(decimal(rest.strip_prefix('.')?)?.0)
    };
    after("LWP ").or_else(|| after("process ")).or_else(dotted)
}

fn signal(text: &str, facts: &mut Facts) -> bool {
    let marks = [" received signal ", "Program terminated with signal "];
    let Some((who, rest)) = marks.iter().find_map(|mark| text.split_once(mark)) else {
        return false;
    };
    if !(who.is_empty() || who == "Program" || who.starts_with("Thread ")) {
        return false;
    }
    let Some(signal) = rest.split([',', '.', ' ']).next().and_then(signals::by_name) else {
        return false;
    };
    facts.signal = Some(signal);
    facts.core |= who.is_empty();
    if let Some((number, _)) = who.strip_prefix("Thread ").and_then(decimal) {
        facts.failing = Some(ThreadHint::Number(number));
    }
    true
}

fn current_thread(text: &str, facts: &mut Facts) -> bool {
    let marks = [
        "[Switching to Thread ",
        "[Switching to thread ",
        "[Current thread is ",
        "[Switching to LWP ",
    ];
    if !marks.iter().any(|mark| text.starts_with(mark)) {
        return false;
    }
    let number = || {
        text.strip_prefix("[Current thread is ")
            .and_then(decimal)
            .map(|(number, _)| number)
    };
    let hint = kernel_id(text)
        .map(ThreadHint::Tid)
        .or_else(|| number().map(ThreadHint::Number));
    // A person who walks through the threads switches too; the first one is where gdb stopped.
    facts.current = facts.current.or(hint);
    true
}

fn core(text: &str, facts: &mut Facts) -> bool {
    if let Some(rest) = text.strip_prefix("Core was generated by `") {
        let command = rest.trim_end_matches(['.', '\'']);
        facts.program = command.split_ascii_whitespace().next().map(str::to_owned);
        facts.core = true;
        return true;
    }
    let Some((_, rest)) = text.split_once("si_addr = ") else {
        return false;
    };
    if let Some((address, _)) = hex(rest) {
        facts.fault_address = Some(RunAddr(address));
    }
    false
}

//! `coredumpctl info` and systemd-coredump's journal message.

use program::{BuildId, LinkAddr, RunAddr};

use super::facts::Facts;
use super::scan::{decimal, frame_number, hex, location, trailing_group};
use super::signals;
use super::stacks::Stacks;
use crate::report::{Frame, ModuleRef, Source, SymbolRef, Thread};

/// `#0  0x000055… main (a.out + 0x1139)`.
pub(super) fn frame(record: &str, stacks: &mut Stacks) -> bool {
    let Some((number, frame)) = read_frame(record) else {
        return false;
    };
    stacks.frame(Source::Coredumpctl, Some(number), frame);
    true
}

fn read_frame(record: &str) -> Option<(u64, Frame)> {
    let (number, body) = frame_number(record)?;
    let (address, rest) = hex(body)?;
    let (before, inside) = trailing_group(rest)?;
    let (path, offset) = inside.rsplit_once(" + ")?;
    let (offset, end) = hex(offset.trim())?;
    if !end.is_empty() {
        return None;
    }
    let (name, place) = match trailing_group(before).map(|(name, inside)| (name, location(inside))) {
        Some((name, Some(place))) => (name, Some(place)),
        _ => (before, None),
    };
    let name = name.trim();
    let module = (path != "n/a").then(|| ModuleRef {
        path: path.to_owned(),
        addr: Some(LinkAddr(offset)),
        ..ModuleRef::default()
    });
    let symbol = (!name.is_empty() && name != "n/a").then(|| SymbolRef {
        name: name.to_owned(),
        offset: None,
    });
    let frame = Frame {
        address: Some(RunAddr(address)),
        module,
        symbol,
        location: place,
        ..Frame::default()
    };
    Some((number, frame))
}

/// Lines that are not frames: fields, the thread of the next stack, build-ids.
pub(super) fn line(text: &str, stacks: &mut Stacks, facts: &mut Facts) -> bool {
    header(text, stacks) || field(text, facts) || module(text, facts) || process(text, facts)
}

fn header(text: &str, stacks: &mut Stacks) -> bool {
    let Some((id, ":")) = text.strip_prefix("Stack trace of thread ").and_then(decimal) else {
        return false;
    };
    stacks.open(
        Source::Coredumpctl,
        Thread {
            id: Some(id),
            ..Thread::default()
        },
        None,
        0,
    );
    true
}

fn field(text: &str, facts: &mut Facts) -> bool {
    let Some((name, value)) = text.split_once(": ") else {
        return false;
    };
    let value = value.trim();
    match name {
        "Signal" => {
            let Some((number, rest)) = decimal(value) else {
                return false;
            };
            let named = rest
                .trim()
                .strip_prefix('(')
                .and_then(|rest| rest.strip_suffix(')'));
            let by_number = || signals::by_name(&number.to_string());
            facts.signal = named
                .and_then(signals::by_name)
                .or_else(by_number)
                .or(facts.signal);
        }
        "Executable" if !value.is_empty() => facts.program = Some(value.to_owned()),
        "Message" => return process(value, facts),
        _ => return false,
    }
    true
}

/// `Module /usr/bin/prog with build-id 0123…`, `Found module prog with build-id: 0123…`.
fn module(text: &str, facts: &mut Facts) -> bool {
    let Some(rest) = text
        .strip_prefix("Module ")
        .or_else(|| text.strip_prefix("Found module "))
    else {
        return false;
    };
    if let Some(name) = rest.strip_suffix(" without build-id.") {
        if !name.starts_with("linux-vdso") {
            facts.note(format!(
                "{name} has no build-id: whether a file is the same build cannot be checked"
            ));
        }
        return true;
    }
    let Some((name, id)) = rest.split_once("build-id") else {
        return rest.contains(" from ");
    };
    let digits = id.trim_start_matches([':', ' ']);
    let end = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
    let name = name.split([',', ' ']).next().unwrap_or(name);
    if let Some(id) = digits.get(..end).and_then(BuildId::from_hex) {
        facts.build_id(name, id);
    }
    true
}

/// `Process 1234 (prog) of user 1000 dumped core.` or `… terminated abnormally with signal 11/SEGV, …`.
fn process(text: &str, facts: &mut Facts) -> bool {
    let Some((_, rest)) = text.strip_prefix("Process ").and_then(decimal) else {
        return false;
    };
    let Some((name, rest)) = rest
        .strip_prefix(" (")
        .and_then(|rest| rest.split_once(") of user "))
    else {
        return false;
    };
    if facts.program.is_none() {
        facts.program = Some(name.to_owned());
    }
    if let Some((_, signal)) = rest.split_once(" with signal ") {
        let word = signal.split(['/', ',', ' ', '.']).next();
        facts.signal = word.and_then(signals::by_name).or(facts.signal);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_with_and_without_symbol() {
        let (number, frame) = read_frame("#0  0x000055d4c0a01139 main (a.out + 0x1139)").unwrap();
        assert_eq!(number, 0);
        assert_eq!(frame.symbol.unwrap().name, "main");
        let (_, frame) = read_frame("#12 0x00007f1200001000 n/a (libfoo.so.1 + 0x1000)").unwrap();
        assert_eq!(frame.symbol, None);
        assert_eq!(frame.module.unwrap().addr, Some(LinkAddr(0x1000)));
        let (_, frame) = read_frame("#1  0x0000000000000000 n/a (n/a + 0x0)").unwrap();
        assert_eq!((frame.symbol, frame.module), (None, None));
        assert!(read_frame("#0  0x000055d4 in main (argc=1) at a.c:3").is_none());
    }
}

//! AddressSanitizer, LeakSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer: one frame format.
//!
//! The sanitizers print a call's address as the return address minus one, so that it lies inside the call.
//! It is turned back into the return address here: [`Position::Return`] means the same in every report.

use program::{BuildId, LinkAddr, RunAddr};

use super::facts::{Facts, Place, ThreadHint};
use super::scan::{decimal, frame_number, hex, location, outside_quotes, trailing_group};
use super::signals;
use super::stacks::Stacks;
use crate::report::{Frame, Kind, Location, ModuleRef, Position, Source, SymbolRef, Thread};

/// Which report of which sanitizer is being read.
#[derive(Debug, Default)]
pub(super) struct Sanitizer {
    source: Option<Source>,
    reports: usize,
    /// The stack being read is that of a fatal signal: its first address is the instruction itself.
    fault: bool,
    /// The printed address of that instruction, which the functions have as well that it is inlined into.
    fault_at: Option<u64>,
}

impl Sanitizer {
    /// A line that is not a frame: the error, or what the next stack is about.
    pub fn line(&mut self, text: &str, stacks: &mut Stacks, facts: &mut Facts) -> bool {
        self.error(text, stacks, facts)
            || self.undefined(text, stacks, facts)
            || self.header(text, stacks, facts)
    }

    /// `==123==ERROR: AddressSanitizer: SEGV on unknown address …`, `WARNING: ThreadSanitizer: data race (pid=1)`.
    fn error(&mut self, text: &str, stacks: &mut Stacks, facts: &mut Facts) -> bool {
        let Some(end) = text.find("Sanitizer: ") else {
            return false;
        };
        let Some((before, name)) = text.get(..end).and_then(|head| head.rsplit_once(' ')) else {
            return false;
        };
        let level = before.rsplit("==").next().unwrap_or(before).trim_end_matches(':');
        if !["ERROR", "WARNING", "FATAL"].contains(&level) {
            return false;
        }
        let Some(what) = text.get(end + "Sanitizer: ".len()..) else {
            return false;
        };
        let source = if name == "Thread" {
            Source::ThreadSanitizer
        } else {
            Source::AddressSanitizer
        };
        self.source = Some(source);
        self.reports += 1;
        let word = what.split(' ').next().unwrap_or_default();
        let signal =
            signals::by_name(word).filter(|_| !word.is_empty() && !word.starts_with(char::is_numeric));
        self.fault = signal.is_some();
        if self.reports == 1 {
            facts.signal = signal.or(facts.signal);
            facts.fault_address = address_in(what).map(RunAddr).or(facts.fault_address);
            facts.failing = thread_in(what).map(ThreadHint::Number);
            let kind = match (signal, name, word) {
                (Some(signal), ..) if signals::is_fault(signal) => Kind::Signal,
                (Some(_), ..) => Kind::Abort,
                (None, "Thread" | "Leak" | "UndefinedBehavior", _) => Kind::Oracle,
                _ => Kind::Abort,
            };
            let end = [" at pc ", " (pc ", " (pid=", " (/"]
                .iter()
                .filter_map(|mark| what.find(mark))
                .min();
            let what = end
                .and_then(|end| what.get(..end))
                .unwrap_or(what)
                .trim_end_matches(':');
            facts.say(kind, &format!("{name}Sanitizer: {what}"), None, false);
        }
        self.open(what, stacks);
        true
    }

    /// `file.c:2:27: runtime error: signed integer overflow …`.
    fn undefined(&mut self, text: &str, stacks: &mut Stacks, facts: &mut Facts) -> bool {
        let Some((place, what)) = text.split_once(": runtime error: ") else {
            return false;
        };
        let Some(location) = location(place) else {
            return false;
        };
        self.source = Some(Source::AddressSanitizer);
        self.reports += 1;
        self.fault = false;
        if self.reports == 1 {
            let place = Place {
                source: Source::AddressSanitizer,
                function: None,
                location,
            };
            facts.say(
                Kind::Oracle,
                &format!("runtime error: {what}"),
                Some(place),
                false,
            );
        }
        self.open(what, stacks);
        true
    }

    /// What a sanitizer says in front of a stack: `freed by thread T1 here:`.
    fn header(&mut self, text: &str, stacks: &mut Stacks, facts: &mut Facts) -> bool {
        if self.source.is_none() || text.starts_with('#') || text.starts_with("==") {
            return false;
        }
        let access = ["READ of size ", "WRITE of size ", "ACCESS of size "]
            .iter()
            .any(|mark| text.starts_with(mark));
        let stack_object = text.contains(" is located in stack of thread ");
        if !(access || stack_object || text.ends_with(':')) {
            return false;
        }
        let lower = text.to_ascii_lowercase();
        let tsan_access = lower.contains(" of size ") && self.source == Some(Source::ThreadSanitizer);
        if tsan_access && self.reports == 1 && facts.fault_address.is_none() {
            facts.fault_address = address_in(text).map(RunAddr);
        }
        self.fault &= access;
        self.open(text, stacks);
        true
    }

    fn open(&self, text: &str, stacks: &mut Stacks) {
        let name = text.trim().trim_end_matches(':');
        let name = name
            .strip_suffix(" here")
            .or_else(|| name.strip_suffix(" at"))
            .unwrap_or(name);
        // Of a stack about a thread's creation, the creator is the thread whose stack it is.
        let owner = text.rsplit_once("created by ").map_or(text, |(_, owner)| owner);
        let number = thread_in(owner);
        let name = super::facts::bounded(name);
        let thread = Thread {
            id: number,
            name: Some(name),
            ..Thread::default()
        };
        let source = self.source.unwrap_or(Source::AddressSanitizer);
        stacks.open(source, thread, number, self.reports);
    }

    /// `#0 0x55… in func file.c:12:3`, `#0 func file.c:12:3 (bin+0x1139) (BuildId: …)`.
    pub fn frame(&mut self, record: &str, stacks: &mut Stacks) -> bool {
        let Some((number, body)) = frame_number(record) else {
            return false;
        };
        let Some(mut parts) = parts(body, self.source.is_some()) else {
            return false;
        };
        let guess = if parts.address.is_some() {
            Source::AddressSanitizer
        } else {
            Source::ThreadSanitizer
        };
        if self.fault && number == 0 {
            self.fault_at = parts.address;
        }
        let exact =
            self.fault && (number == 0 || (parts.address.is_some() && parts.address == self.fault_at));
        let shift = u64::from(!exact);
        parts.address = parts.address.map(|address| address.saturating_add(shift));
        if let Some(addr) = parts.module.as_mut().and_then(|module| module.addr.as_mut()) {
            addr.0 = addr.0.saturating_add(shift);
        }
        let frame = Frame {
            address: parts.address.map(RunAddr),
            module: parts.module,
            symbol: parts.function.map(|name| SymbolRef {
                name: name.to_owned(),
                offset: None,
            }),
            location: parts.location,
            position: if exact { Position::Exact } else { Position::Return },
            ..Frame::default()
        };
        stacks.frame(self.source.unwrap_or(guess), Some(number), frame);
        true
    }
}

struct Parts<'a> {
    address: Option<u64>,
    function: Option<&'a str>,
    location: Option<Location>,
    module: Option<ModuleRef>,
}

fn parts(body: &str, in_report: bool) -> Option<Parts<'_>> {
    let (address, rest) = match hex(body) {
        Some((address, rest)) => (Some(address), rest.strip_prefix(" in ").unwrap_or(rest)),
        None => (None, body),
    };
    let (rest, module) = split_module(rest);
    let named = address.is_none_or(|_| body.contains(" in ") || module.is_some());
    if !named {
        return None;
    }
    let (function, location) = split_location(rest.trim());
    // Only inside a report may a frame have neither a source line nor a module.
    if module.is_none() && location.is_none() && !(in_report && address.is_some()) {
        return None;
    }
    if module.is_none() && address.is_none() && !in_report {
        return None;
    }
    // gdb's ` at file:line` and its argument lists are not ours.
    if module.is_none()
        && (function.ends_with(" at") || (!in_report && function.ends_with(')') && location.is_none()))
    {
        return None;
    }
    let function = Some(function).filter(|name| !name.is_empty() && *name != "<null>");
    Some(Parts {
        address,
        function,
        location,
        module,
    })
}

/// Splits `(/path/bin+0x1139) (BuildId: abc)` off the end.
fn split_module(text: &str) -> (&str, Option<ModuleRef>) {
    let mut rest = text.trim_end();
    let mut build_id = None;
    if let Some((before, inside)) = trailing_group(rest)
        && let Some(id) = inside.strip_prefix("BuildId: ")
    {
        build_id = BuildId::from_hex(id.trim());
        rest = before;
    }
    let Some((before, inside)) = trailing_group(rest) else {
        return (rest, None);
    };
    let Some((path, offset)) = inside.rsplit_once('+') else {
        return (rest, None);
    };
    let Some((offset, end)) = hex(offset) else {
        return (rest, None);
    };
    if path.is_empty() || path.ends_with(' ') || path.contains('=') || !end.is_empty() {
        return (rest, None);
    }
    (
        before,
        Some(ModuleRef {
            path: path.to_owned(),
            addr: Some(LinkAddr(offset)),
            build_id,
            ..ModuleRef::default()
        }),
    )
}

/// Splits the source position off the end. A function's name may hold blanks, and so may an absolute path.
fn split_location(text: &str) -> (&str, Option<Location>) {
    if let Some(function) = text.strip_suffix("<null>") {
        return (function.trim_end(), None);
    }
    let absolute = outside_quotes(text)
        .map(|(at, _)| at)
        .find(|&at| text.get(at..).is_some_and(|rest| rest.starts_with(" /")));
    for at in absolute.into_iter().chain(text.rfind(' ')) {
        if let (Some(function), Some(place)) = (text.get(..at), text.get(at + 1..))
            && let Some(location) = location(place)
        {
            return (function.trim_end(), Some(location));
        }
    }
    // A file without line: nothing a frame can use, and no part of the name.
    match text.rsplit_once(' ') {
        Some((function, file)) if file.contains(['.', '/']) && !file.contains(['(', ')', '<', '>']) => {
            (function.trim_end(), None)
        }
        _ => (text, None),
    }
}

fn address_in(text: &str) -> Option<u64> {
    let marks = [
        "on address ",
        "unknown address ",
        "double-free on ",
        "on unknown address ",
        " at ",
    ];
    marks
        .iter()
        .find_map(|mark| hex(text.split_once(mark)?.1).map(|(address, _)| address))
}

/// The number in `thread T1`, `… T2)`, `main thread`.
fn thread_in(text: &str) -> Option<u64> {
    if text.contains("main thread") {
        return Some(0);
    }
    text.match_indices('T').find_map(|(at, _)| {
        let before = text.get(..at)?;
        let (number, rest) = decimal(text.get(at + 1..)?)?;
        let stands_alone = before.is_empty() || before.ends_with([' ', '(']);
        let ends = rest.is_empty() || rest.starts_with([' ', ')', ':', ',', '(']);
        (stands_alone && ends).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_and_paths_with_blanks() {
        let body = "0x10 in Job::operator()(std::map<int, int> const&, int) const /src/my app/job.cc:10:3";
        let parts = parts(body, true).unwrap();
        assert_eq!(
            parts.function,
            Some("Job::operator()(std::map<int, int> const&, int) const")
        );
        assert_eq!(parts.location.unwrap().file, "/src/my app/job.cc");
    }

    #[test]
    fn modules_and_build_ids() {
        let parts = parts("main <null> (app+0x1139) (BuildId: c47e)", false).unwrap();
        let module = parts.module.unwrap();
        assert_eq!(
            (module.path.as_str(), module.addr),
            ("app", Some(LinkAddr(0x1139)))
        );
        assert_eq!(module.build_id, BuildId::from_hex("c47e"));
        assert_eq!(parts.function, Some("main"));
    }

    #[test]
    fn frames_of_gdb_are_left_alone() {
        for body in [
            "0x000055c5 in drain (q=0x55, why=0x55 \"stop (now)\") at src/queue.c:6",
            "0x000055c5 in ?? () from /lib/libc.so.6",
            "0x000055c5 in send (line=\"GET /index\") at src/http.c:16",
            "main () at a.c:3",
            "0x000055c5 in main ()",
            "0x000055c5 main (a.out + 0x1139)",
        ] {
            assert!(parts(body, false).is_none(), "{body}");
        }
    }

    #[test]
    fn threads_by_number() {
        assert_eq!(thread_in("freed by thread T1 here:"), Some(1));
        assert_eq!(
            thread_in("SEGV on unknown address 0x0 (pc 0x1 bp 0x2 sp 0x3 T22)"),
            Some(22)
        );
        assert_eq!(thread_in("Write of size 8 at 0x1 by main thread:"), Some(0));
        assert_eq!(thread_in("The STATE is bad"), None);
    }
}

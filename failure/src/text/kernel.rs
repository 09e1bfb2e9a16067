//! The lines that the kernel writes when processes die of faults.

use program::{FileOffset, LinkAddr, RunAddr};

use super::facts::Facts;
use super::modules::LOWEST_MOVED;
use super::scan::{bare_hex, decimal};
use super::signals;
use super::stacks::{Stack, Stacks};
use crate::report::{Frame, InCode, ModuleRef, Position, Signal, Source, Thread};

/// The kernel's lines of one text.
///
/// Each tells of another process, but for one that debuggers or services tell of as well, with a stack: that of a core
/// which systemd has written comes right after the kernel's line.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    first: Option<Told>,
    others: usize,
}

/// The first fault, as a stack and the facts that belong to it.
#[derive(Debug)]
struct Told {
    tid: u64,
    program: String,
    signal: Signal,
    address: Option<RunAddr>,
    frame: Frame,
}

impl Kernel {
    /// `prog[123]: segfault at 0 ip 000055… sp … error 4 in prog[55…+1000]`, or
    /// `traps: prog[123] general protection fault ip:… sp:… error:0 in prog[55…+1000]`.
    pub fn line(&mut self, text: &str) -> bool {
        let Some(fault) = read(text) else { return false };
        if self.first.is_some() {
            self.others += 1;
        } else {
            self.first = Some(Told {
                tid: fault.tid,
                program: fault.program.to_owned(),
                signal: fault.signal,
                address: fault.address.map(RunAddr),
                frame: frame(&fault),
            });
        }
        true
    }

    /// Adds the first fault: as the failure itself, or to the stack of that thread.
    pub fn finish(self, stacks: &mut Stacks, facts: &mut Facts) {
        let Some(told) = self.first else { return };
        let has_frames = |stack: &&Stack| !stack.thread.frames.is_empty();
        let mut others = stacks.all.iter().filter(has_frames).peekable();
        let is_alone = others.peek().is_none();
        if !is_alone && !others.any(|stack| stack.thread.id == Some(told.tid)) {
            return;
        }
        facts.signal = facts.signal.or(Some(told.signal));
        facts.fault_address = facts.fault_address.or(told.address);
        facts.program.get_or_insert_with(|| told.program.clone());
        if !is_alone {
            return;
        }
        if self.others > 0 {
            facts.note(format!(
                "further failures left out, as this is the first in the text: {}",
                self.others
            ));
        }
        let thread = Thread {
            id: Some(told.tid),
            name: Some(told.program),
            ..Thread::default()
        };
        stacks.open(Source::Perf, thread, None, 0);
        stacks.frame(Source::Perf, None, told.frame);
    }
}

fn frame(fault: &Fault<'_>) -> Frame {
    let ip = fault.ip;
    let module = fault.mapping.as_ref().map(|mapping| {
        let fixed = mapping.start < LOWEST_MOVED;
        let in_code = (!fixed && mapping.file_offset.is_none()).then(|| InCode {
            into: ip.saturating_sub(mapping.start),
            length: mapping.length,
        });
        ModuleRef {
            path: mapping.path.to_owned(),
            addr: fixed.then_some(LinkAddr(ip)),
            file_offset: mapping.file_offset.map(FileOffset),
            in_code,
            build_id: None,
        }
    });
    Frame {
        address: Some(RunAddr(ip)),
        module,
        position: Position::Exact,
        ..Frame::default()
    }
}

struct Fault<'a> {
    program: &'a str,
    tid: u64,
    signal: Signal,
    address: Option<u64>,
    ip: u64,
    mapping: Option<Mapping<'a>>,
}

struct Mapping<'a> {
    path: &'a str,
    /// Kernels since 6.12 print it.
    file_offset: Option<u64>,
    start: u64,
    length: u64,
}

fn read(text: &str) -> Option<Fault<'_>> {
    let text = text.strip_prefix("traps: ").unwrap_or(text);
    let (who, rest) = text.split_once(']')?;
    let rest = rest.strip_prefix(':').unwrap_or(rest).strip_prefix(' ')?;
    let (program, tid) = who.rsplit_once('[')?;
    let (tid, "") = decimal(tid)? else { return None };
    let after = |mark: &str| {
        rest.split_once(mark)
            .and_then(|(_, rest)| bare_hex(rest))
            .map(|(value, _)| value)
    };
    let (signal, address) = match rest.strip_prefix("segfault at ") {
        Some(at) => (signals::SIGSEGV, Some(bare_hex(at)?.0)),
        None => (trap(rest)?, None),
    };
    let ip = after(" ip ").or_else(|| after(" ip:"))?;
    let mapping = rest.rsplit_once(" in ").and_then(|(_, place)| mapping(place));
    Some(Fault {
        program,
        tid,
        signal,
        address,
        ip,
        mapping,
    })
}

fn trap(text: &str) -> Option<Signal> {
    let text = text.strip_prefix("trap ").unwrap_or(text);
    let traps = [
        ("general protection", signals::SIGSEGV),
        ("control protection", signals::SIGSEGV),
        ("overflow", signals::SIGSEGV),
        ("bounds", signals::SIGSEGV),
        ("stack segment", signals::SIGBUS),
        ("segment not present", signals::SIGBUS),
        ("alignment check", signals::SIGBUS),
        ("divide error", signals::SIGFPE),
        ("invalid opcode", signals::SIGILL),
        ("int3", Signal(5)),
    ];
    traps
        .iter()
        .find(|(name, _)| text.starts_with(name))
        .map(|(_, signal)| *signal)
}

/// `prog[55…+1000]`, since Linux 6.12 `prog[1139,55…+1000]`; perhaps with more behind it.
fn mapping(text: &str) -> Option<Mapping<'_>> {
    let (head, _) = text.split_once(']')?;
    let (path, inside) = head.rsplit_once('[')?;
    let (file_offset, range) = match inside.split_once(',') {
        Some((offset, range)) => (Some(bare_hex(offset)?.0), range),
        None => (None, inside),
    };
    let (start, rest) = bare_hex(range)?;
    let (length, "") = bare_hex(rest.strip_prefix('+')?)? else {
        return None;
    };
    Some(Mapping {
        path,
        file_offset,
        start,
        length,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_mapping() {
        let old = read(
            "prog[123]: segfault at 10 ip 000055d0c0de1139 sp 00007ffd error 4 in prog[55d0c0de1000+1000]",
        )
        .unwrap();
        assert_eq!(
            (old.program, old.tid, old.address, old.ip),
            ("prog", 123, Some(0x10), 0x55d0_c0de_1139)
        );
        let mapping = old.mapping.unwrap();
        assert_eq!(
            (mapping.path, mapping.file_offset, mapping.start),
            ("prog", None, 0x55d0_c0de_1000)
        );
        let new = read(
            "prog[123]: segfault at 0 ip 000055d0c0de1139 sp 00007ffd error 4 in prog[1139,55d0c0de1000+1000] likely on CPU 1 (core 1, socket 0)",
        );
        assert_eq!(new.unwrap().mapping.unwrap().file_offset, Some(0x1139));
    }

    #[test]
    fn traps() {
        let fault = read("traps: prog[123] trap divide error ip:401139 sp:7ffd error:0 in prog[401000+1000]")
            .unwrap();
        assert_eq!((fault.signal, fault.ip), (signals::SIGFPE, 0x40_1139));
        assert!(read("prog[123]: started in good order").is_none());
    }
}

//! `symbol+0xoff (module)` lines, as perf, bpftrace, bcc and the kernel print stacks.

use std::collections::BTreeSet;

use program::{FileOffset, RunAddr};

use super::facts::Facts;
use super::lines::Line;
use super::modules::LOWEST_MOVED;
use super::scan::{bare_hex, decimal, hex, trailing_group, whole_number};
use super::stacks::{MOST_STACKS, Stacks};
use crate::report::{Frame, ModuleRef, Source, SymbolRef, Thread};

/// The samples of one text: one stack a thread, its first. What it did later is no other thread.
#[derive(Debug, Default)]
pub(super) struct Perf {
    sampled: BTreeSet<u64>,
    /// The sample that is being read is a later one.
    later: bool,
    left_out: usize,
}

impl Perf {
    /// Reads a frame, or the line with which `perf script` introduces a sample.
    pub fn line(&mut self, line: &Line<'_>, stacks: &mut Stacks) -> bool {
        let text = line.text();
        if let Some(frame) = read_frame(text, line.indent()) {
            if !self.later {
                stacks.frame(Source::Perf, None, frame);
            }
            return true;
        }
        let Some(thread) = sample(text) else { return false };
        let is_full = self.sampled.len() >= MOST_STACKS;
        self.later = thread
            .id
            .is_some_and(|id| self.sampled.contains(&id) || !is_full && !self.sampled.insert(id));
        if self.later {
            self.left_out += 1;
        } else {
            stacks.open(Source::Perf, thread, None, 0);
        }
        true
    }

    pub fn finish(self, facts: &mut Facts) {
        if self.left_out > 0 {
            facts.note(format!(
                "further samples left out, as these are the first of their threads: {}",
                self.left_out
            ));
        }
    }
}

fn read_frame(text: &str, indent: usize) -> Option<Frame> {
    let (address, rest) = split_address(text);
    let (rest, module) = split_module(rest);
    let module = module.filter(|path| *path != "[unknown]");
    let named = rest != "[unknown]" && !rest.is_empty();
    if !named {
        let alone = rest.is_empty() && module.is_none();
        return address
            .filter(|_| !alone || (indent >= 4 && text.starts_with("0x")))
            .map(|address| place(address, module));
    }
    let rest = rest.strip_prefix("? ").unwrap_or(rest);
    let (name, offset) = match rest.rsplit_once('+') {
        Some((name, offset)) => {
            // The kernel adds the function's size: `func+0x1d/0x40`.
            let offset = offset.split('/').next()?;
            (name, Some(whole_number(offset)?))
        }
        None => (rest, None),
    };
    // The less a line says, the more it must look like a frame.
    let enough = match (address, offset, module) {
        (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => true,
        (Some(_), Some(_), None) => true,
        (None, Some(_), None) => indent >= 4,
        _ => false,
    };
    if !enough || !is_symbol(name) {
        return None;
    }
    let mut frame = match address {
        Some(address) => place(address, module),
        None => Frame {
            module: module.map(module_ref),
            ..Frame::default()
        },
    };
    if let (Some(module), Some(_)) = (&mut frame.module, offset) {
        // Some versions print the address even there; the symbol says it without doubt.
        module.file_offset = None;
    }
    frame.symbol = Some(SymbolRef {
        name: name.to_owned(),
        offset,
    });
    Some(frame)
}

/// perf prints a position in the file in place of the address where it knows the file.
fn place(address: u64, module: Option<&str>) -> Frame {
    let mut module = module.map(module_ref);
    match &mut module {
        Some(module) if address < LOWEST_MOVED => module.file_offset = Some(FileOffset(address)),
        _ => {
            return Frame {
                address: Some(RunAddr(address)),
                module,
                ..Frame::default()
            };
        }
    }
    Frame {
        module,
        ..Frame::default()
    }
}

fn module_ref(path: &str) -> ModuleRef {
    ModuleRef {
        path: path.to_owned(),
        ..ModuleRef::default()
    }
}

/// A leading address: `7f12ab340000 `, `0x7f12 `, `[<ffffffff81000000>] `.
fn split_address(text: &str) -> (Option<u64>, &str) {
    let bracketed = || {
        let (inside, rest) = text.strip_prefix("[<")?.split_once(">]")?;
        Some((bare_hex(inside)?.0, rest.strip_prefix(' ')?))
    };
    let plain = || {
        let (address, rest) =
            hex(text).or_else(|| bare_hex(text).filter(|(_, rest)| text.len() - rest.len() >= 3))?;
        (rest.is_empty() || rest.starts_with(' ')).then_some((address, rest))
    };
    match bracketed().or_else(plain) {
        Some((address, rest)) => (Some(address), rest.trim_start()),
        None => (None, text),
    }
}

/// A trailing `(module)` or `[module]`; an argument list is no module, as no blank stands before it.
fn split_module(text: &str) -> (&str, Option<&str>) {
    let round = trailing_group(text).filter(|(before, inside)| {
        let spaced = text.get(before.len()..).is_some_and(|rest| rest.starts_with(' ')) || before.is_empty();
        spaced && !inside.is_empty() && !inside.contains(['=', ';', '"'])
    });
    if round.is_some() {
        return round.map_or((text, None), |(before, inside)| (before, Some(inside)));
    }
    let square = || {
        let (before, inside) = text.strip_suffix(']')?.rsplit_once(" [")?;
        before.contains('+').then_some((before.trim_end(), inside))
    };
    square().map_or((text, None), |(before, inside)| (before, Some(inside)))
}

/// Whether the text can be a symbol: no blank outside brackets, except as in `operator new` and `f() const`.
fn is_symbol(name: &str) -> bool {
    let mut depth = 0i64;
    let mut blanks = 0;
    for byte in name.bytes() {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' | b')' | b'}' | b']' => depth -= 1,
            b' ' if depth <= 0 => blanks += 1,
            b'/' | b'"' | b'\\' | b';' | b'=' if depth <= 0 && !name.contains("operator") => return false,
            _ => {}
        }
    }
    let cpp = name.contains("operator") || name.ends_with(" const") || name.contains("::");
    name.starts_with(|first: char| first.is_alphabetic() || "_<[~.$(".contains(first)) && (blanks == 0 || cpp)
}

/// `prog  1234/1235 [001]  4567.890123:          1 cycles:u: `; processor and process id may be missing.
fn sample(text: &str) -> Option<Thread> {
    let (head, event) = text.split_once(": ")?;
    if !event.trim_end().ends_with(':') {
        return None;
    }
    let (who, time) = head.rsplit_once(' ')?;
    let (_, fraction) = decimal(time)?;
    let (_, "") = decimal(fraction.strip_prefix('.')?)? else {
        return None;
    };
    let who = who.trim_end();
    let who = match who.strip_suffix(']').and_then(|who| who.rsplit_once(" [")) {
        Some((who, processor))
            if whole_number(processor.trim_start_matches('0')).is_some() || processor == "000" =>
        {
            who
        }
        _ => who,
    };
    let (name, id) = who.trim_end().rsplit_once(' ')?;
    let id = id.rsplit('/').next()?;
    let (id, "") = decimal(id)? else { return None };
    Some(Thread {
        id: Some(id),
        name: Some(name.trim().to_owned()),
        ..Thread::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = (Option<u64>, String, Option<u64>, Option<String>);

    fn read(text: &str) -> Option<Read> {
        let frame = read_frame(text.trim_start(), text.len() - text.trim_start().len())?;
        let symbol = frame.symbol.unwrap_or_default();
        Some((
            frame.address.map(|a| a.0),
            symbol.name,
            symbol.offset,
            frame.module.map(|module| module.path),
        ))
    }

    #[test]
    fn every_form_of_a_frame() {
        let module = Some("/usr/bin/prog".to_owned());
        let cases = [
            (
                "    55d0c0de1139 drain+0x1d (/usr/bin/prog)",
                Some((Some(0x55d0_c0de_1139), "drain", Some(0x1d), true)),
            ),
            (
                "    drain+0x1d (/usr/bin/prog)",
                Some((None, "drain", Some(0x1d), true)),
            ),
            (
                "drain+0x1d (/usr/bin/prog)",
                Some((None, "drain", Some(0x1d), true)),
            ),
            (
                "    55d0c0de1139 drain (/usr/bin/prog)",
                Some((Some(0x55d0_c0de_1139), "drain", None, true)),
            ),
            ("        drain+29", Some((None, "drain", Some(29), false))),
            ("    drain+0x1d", Some((None, "drain", Some(0x1d), false))),
            (
                " [<ffffffff81000000>] do_exit+0x1d/0x40",
                Some((Some(0xffff_ffff_8100_0000), "do_exit", Some(0x1d), false)),
            ),
            (
                "    std::map<int, int>::find(int const&)+0x1d (/usr/bin/prog)",
                Some((None, "std::map<int, int>::find(int const&)", Some(0x1d), true)),
            ),
            (
                "    Job::operator()(int) const+0x1d (/usr/bin/prog)",
                Some((None, "Job::operator()(int) const", Some(0x1d), true)),
            ),
            (
                "    55d0c0de1139 [unknown] (/usr/bin/prog)",
                Some((Some(0x55d0_c0de_1139), "", None, true)),
            ),
            ("a+1", None),
            ("    retry in 5+3", None),
            ("see main.c (line 12)", None),
            ("    /src/main.go:5 +0x1d", None),
            ("    \"key\": \"value+1\"", None),
            ("dead main (x)y", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(address, name, offset, in_module): (_, &str, _, bool)| {
                (
                    address,
                    name.to_owned(),
                    offset,
                    module.clone().filter(|_| in_module),
                )
            });
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn samples_of_perf_script() {
        let thread = sample("my prog  1234/1235 [001]  4567.890123:          1 cycles:u: ").unwrap();
        assert_eq!((thread.id, thread.name.as_deref()), (Some(1235), Some("my prog")));
        let thread = sample("prog 24962  2376.504647:   10101010 cpu-clock: ").unwrap();
        assert_eq!((thread.id, thread.name.as_deref()), (Some(24962), Some("prog")));
        assert!(sample("see [1] 2.3 for more").is_none());
        assert!(sample("worker 12 took 3.5: done").is_none());
    }
}

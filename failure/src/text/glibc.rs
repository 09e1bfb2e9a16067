//! `backtrace_symbols` listings and the memory map that old glibc printed after one.

use program::{LinkAddr, RunAddr};

use super::facts::{Facts, Mapping};
use super::scan::{bare_hex, base_name, hex, whole_number};
use super::stacks::Stacks;
use crate::report::{Frame, FrameOrigin, ModuleRef, Position, Source, SymbolRef};

/// `./prog(func+0x1d)[0x55…]`, `./prog(+0x11d9) [0x…]`, `./prog() [0x…]`, `./prog [0x…]`, `[0x…]`.
pub(super) fn frame(text: &str, stacks: &mut Stacks) -> bool {
    let Some(frame) = read_frame(text) else {
        return false;
    };
    stacks.frame(Source::Glibc, None, frame);
    true
}

fn read_frame(text: &str) -> Option<Frame> {
    let (before, address) = text.strip_suffix(']')?.rsplit_once('[')?;
    let (address, end) = hex(address)?;
    let before = before.trim_end();
    if !end.is_empty() || before.contains("  ") {
        return None;
    }
    let mut frame = Frame {
        address: Some(RunAddr(address)),
        ..Frame::default()
    };
    if before.is_empty() {
        return Some(frame);
    }
    let (path, inside) = match before
        .strip_suffix(')')
        .and_then(|before| before.rsplit_once('('))
    {
        Some((path, inside)) => (path, inside),
        // Without the parentheses, only a path is not something else.
        None => (before.contains('/').then_some(before)?, ""),
    };
    if path.is_empty() || path.contains(": ") {
        return None;
    }
    let mut addr = None;
    if let Some((name, offset)) = inside.rsplit_once('+') {
        let offset = whole_number(offset)?;
        if name.is_empty() {
            addr = Some(LinkAddr(offset));
        } else {
            frame.symbol = Some(SymbolRef {
                name: name.to_owned(),
                offset: Some(offset),
            });
        }
    } else if !inside.is_empty() {
        frame.symbol = Some(SymbolRef {
            name: inside.to_owned(),
            offset: None,
        });
    }
    frame.module = Some(ModuleRef {
        path: path.to_owned(),
        addr,
        ..ModuleRef::default()
    });
    Some(frame)
}

/// `55a4c000-55a4d000 r-xp 00001000 08:01 1234   /usr/bin/prog`.
pub(super) fn mapping(text: &str, facts: &mut Facts) -> bool {
    let Some(mapping) = read_mapping(text) else {
        return false;
    };
    if !mapping.path.is_empty() {
        facts.mapping(mapping);
    }
    true
}

fn read_mapping(text: &str) -> Option<Mapping> {
    let (start, rest) = bare_hex(text)?;
    let (end, rest) = bare_hex(rest.strip_prefix('-')?)?;
    let mut words = rest.strip_prefix(' ')?.split_ascii_whitespace();
    let permissions = words.next()?;
    let is_permissions = permissions.len() == 4 && permissions.bytes().all(|byte| b"rwxps-".contains(&byte));
    let (file_offset, "") = bare_hex(words.next()?)? else {
        return None;
    };
    words.next().filter(|device| device.contains(':'))?;
    words.next()?;
    let path = words.collect::<Vec<_>>().join(" ");
    (is_permissions && start < end).then_some(Mapping {
        start,
        end,
        file_offset,
        path,
    })
}

/// Marks the frame that the kernel pushed when a handler printed its own backtrace.
///
/// It has no symbol (`libc.so.6(+0x3c050)`), but it is the only frame whose address is the very start of a
/// function, so aligned to 16; the handler stands before it, and something other than a thread's start
/// after it.
pub(super) fn mark_signal_frame(frames: &mut [Frame]) {
    let is_libc = |frame: &Frame| {
        let name = frame.module.as_ref().map(|module| base_name(&module.path));
        name.is_some_and(|name| {
            name.starts_with("libc.") || name.starts_with("libc-") || name.starts_with("libpthread")
        })
    };
    let first = frames.iter().position(is_libc);
    let Some(at) = first.filter(|at| (1..=4).contains(at)) else {
        return;
    };
    let raised = |frame: &Frame| {
        frame
            .symbol
            .as_ref()
            .is_some_and(|symbol| ["gsignal", "raise", "abort"].contains(&symbol.name.as_str()))
    };
    let starts = |frame: &Frame| {
        frame
            .symbol
            .as_ref()
            .is_some_and(|symbol| symbol.name == "_start")
    };
    let goes_on = frames
        .iter()
        .skip(at + 1)
        .any(|frame| raised(frame) || !(is_libc(frame) || starts(frame)));
    let [candidate, next, ..] = frames.get_mut(at..).unwrap_or_default() else {
        return;
    };
    let aligned = candidate.address.is_some_and(|address| address.0 % 16 == 0);
    if candidate.symbol.is_none() && aligned && goes_on {
        candidate.origin = FrameOrigin::SignalFrame;
        next.position = Position::Exact;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_line() {
        let symbol = |text: &str| {
            read_frame(text)
                .unwrap()
                .symbol
                .map(|symbol| (symbol.name, symbol.offset))
        };
        assert_eq!(
            symbol("./prog(func+0x1d)[0x55d0]"),
            Some(("func".into(), Some(0x1d)))
        );
        assert_eq!(
            symbol("./prog(_ZN3FooC1Ev+0x1d) [0x55d0]"),
            Some(("_ZN3FooC1Ev".into(), Some(0x1d)))
        );
        assert_eq!(symbol("/opt/a (b)/prog() [0x401139]"), None);
        assert_eq!(
            read_frame("./prog(+0x11d9)[0x55d0]")
                .unwrap()
                .module
                .unwrap()
                .addr,
            Some(LinkAddr(0x11d9))
        );
        assert_eq!(read_frame("[0x55d0]").unwrap().address, Some(RunAddr(0x55d0)));
        for text in [
            "prog: failed at [0x12]",
            "array[12]",
            "(x)[0x1]",
            "a  b [0x1]",
            "see code [0x1]",
        ] {
            assert_eq!(read_frame(text), None, "{text}");
        }
    }

    #[test]
    fn lines_of_a_memory_map() {
        let mapping = read_mapping("55a4c000-55a4d000 r-xp 00001000 08:01 1234   /usr/bin/my prog").unwrap();
        assert_eq!(
            (mapping.start, mapping.file_offset, mapping.path.as_str()),
            (0x55a4_c000, 0x1000, "/usr/bin/my prog")
        );
        assert!(read_mapping("55a4c000-55a4d000 hello 0 0 0").is_none());
    }
}

//! `eu-stack` of elfutils: frames with a number, an address and a name, and nothing between them.

use program::{BuildId, LinkAddr, RunAddr};

use super::facts::Facts;
use super::lines::Line;
use super::scan::{decimal, frame_number, hex, location};
use super::stacks::Stacks;
use crate::report::{Frame, ModuleRef, Source, SymbolRef, Thread};

/// `#1  0x000055d0c0de1139 drain`; with `-v` ` - 1` in front of the name where the address is that of the
/// instruction after a call, with `-m` ` - /usr/bin/prog` behind it. With `-i`, functions that are inlined have
/// the address of the one that they are part of.
pub(super) fn frame(record: &str, stacks: &mut Stacks) -> bool {
    let Some((number, frame)) = read_frame(record) else {
        return false;
    };
    stacks.frame(Source::EuStack, Some(number), frame);
    true
}

fn read_frame(record: &str) -> Option<(u64, Frame)> {
    let (number, body) = frame_number(record)?;
    let (address, rest) = hex(body)?;
    if !(rest.is_empty() || rest.starts_with(' ')) || rest.starts_with(" in ") {
        return None;
    }
    let rest = rest.trim();
    let rest = match rest.strip_prefix("- 1") {
        Some(rest) if rest.is_empty() || rest.starts_with(' ') => rest.trim_start(),
        _ => rest,
    };
    let (name, path) = match rest.strip_prefix("- ") {
        Some(path) => ("", Some(path)),
        None => match rest.rsplit_once(" - ") {
            Some((name, path)) => (name, Some(path)),
            None => (rest, None),
        },
    };
    let module = path.map(|path| ModuleRef {
        path: path.to_owned(),
        ..ModuleRef::default()
    });
    let symbol = (!name.is_empty()).then(|| SymbolRef {
        name: name.to_owned(),
        offset: None,
    });
    let frame = Frame {
        address: Some(RunAddr(address)),
        module,
        symbol,
        ..Frame::default()
    };
    Some((number, frame))
}

/// Lines that are not frames: whose stacks follow, and what is said about the frame before.
pub(super) fn line(line: &Line<'_>, stacks: &mut Stacks, facts: &mut Facts) -> bool {
    let text = line.text();
    if let Some((pid, rest)) = text.strip_prefix("PID ").and_then(decimal) {
        // `PID 1234 - core`.
        facts.core |= rest == " - core";
        return pid > 0 && rest.starts_with(" - ");
    }
    if let Some((id, ":")) = text.strip_prefix("TID ").and_then(decimal) {
        let thread = Thread {
            id: Some(id),
            ..Thread::default()
        };
        stacks.open(Source::EuStack, thread, None, 0);
        return true;
    }
    if line.indent() < 4 {
        return false;
    }
    let Some(stack) = stacks.current(Source::EuStack) else {
        return false;
    };
    // The place is inside the call; an address behind a call is the return address in every report.
    let shift = i64::from(stack.thread.frames.len() > 1);
    let Some(frame) = stack.thread.frames.last_mut() else {
        return false;
    };
    if let Some((build_id, place)) = in_file(text) {
        frame.module.get_or_insert_default().build_id = Some(build_id);
        frame.module.get_or_insert_default().addr = Some(place.offset(shift));
        return true;
    }
    if frame.location.is_none() && text.contains('.') {
        frame.location = location(text);
    }
    frame.location.is_some()
}

/// `[0123…]@0x7f0000000000+0x1138`: the build-id, where the file was loaded, and the place in it, one less than the
/// address where that is behind a call.
fn in_file(text: &str) -> Option<(BuildId, LinkAddr)> {
    let (id, rest) = text.strip_prefix('[')?.split_once("]@")?;
    let (_, rest) = hex(rest)?;
    let (place, "") = hex(rest.strip_prefix('+')?)? else {
        return None;
    };
    Some((BuildId::from_hex(id)?, LinkAddr(place)))
}

//! For terminals.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use crate::model::{Failure, FrameLine, Reason, SliceStatement, StatementRef, StaticSketch, ThreadStack};
use crate::sketch::view::fault;
use crate::text::{base_name, cut, pad, plain, width};

/// How a terminal is.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Columns.
    pub width: usize,
    /// Whether it shows colours.
    pub colour: bool,
}

impl Terminal {
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        if self.colour {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn strong(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }

    pub(crate) fn alarm(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
    }
}

/// Frames shown of a thread that did not fail; its innermost own code is always among them.
const OTHER_THREAD_FRAMES: usize = 8;

/// A static sketch: failure, stacks, slice.
#[must_use]
pub fn static_sketch(sketch: &StaticSketch, terminal: Terminal) -> String {
    let mut out = String::new();
    headline(&mut out, &sketch.failure, terminal);
    let build = sketch
        .build_id
        .as_deref()
        .map_or(String::new(), |id| format!(" (build {})", cut(id, 12)));
    let _ = writeln!(
        out,
        "{}",
        terminal.faint(&format!("in {}{build}", plain(&sketch.program)))
    );
    notes(&mut out, &sketch.notes, terminal);
    for thread in sketch.threads.iter().filter(|thread| thread.failed) {
        let state = if sketch.failure.kind == "hang" {
            "stuck"
        } else {
            "failed"
        };
        stack(&mut out, &[thread], state, usize::MAX, terminal);
    }
    if !sketch.statements.is_empty() {
        let _ = writeln!(
            out,
            "\n{}{}",
            terminal.strong("Static sketch"),
            terminal.faint("  what the failing statement depends on, nearest first; no run was watched")
        );
        statements(&mut out, &sketch.statements, sketch.more, terminal);
    }
    for threads in alike(&sketch.threads) {
        stack(&mut out, &threads, "", OTHER_THREAD_FRAMES, terminal);
    }
    out
}

/// The threads that did not fail, those with the same frames together, in the order of their first.
fn alike(threads: &[ThreadStack]) -> Vec<Vec<&ThreadStack>> {
    let mut groups: Vec<Vec<&ThreadStack>> = Vec::new();
    for thread in threads.iter().filter(|thread| !thread.failed) {
        match groups
            .iter_mut()
            .find(|group| group.first().is_some_and(|first| first.frames == thread.frames))
        {
            Some(group) => group.push(thread),
            None => groups.push(vec![thread]),
        }
    }
    groups
}

/// A slice as a table.
#[must_use]
pub fn slice(slice: &crate::SliceResult, terminal: Terminal) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} {}",
        terminal.strong("Slice from"),
        position(&slice.criterion)
    );
    notes(&mut out, &slice.notes, terminal);
    statements(&mut out, &slice.statements, slice.more, terminal);
    out
}

fn headline(out: &mut String, failure: &Failure, terminal: Terminal) {
    let what = match (&failure.signal, failure.kind) {
        (Some(signal), "signal") => signal.clone(),
        (Some(signal), kind) => format!("{kind} ({signal})"),
        (None, kind) => kind.to_owned(),
    };
    let place = failure
        .statement
        .as_ref()
        .map_or(String::new(), |at| format!(" at {}", position(at)));
    let address = fault(failure.signal.as_deref(), failure.fault_address)
        .map_or(String::new(), |addr| format!(", address {addr:#x}"));
    let _ = writeln!(
        out,
        "{}{}{address}",
        terminal.alarm(&plain(&what)),
        terminal.strong(&place)
    );
    if let Some(message) = &failure.message {
        let _ = writeln!(
            out,
            "  {}",
            cut(&plain(message), terminal.width.saturating_sub(2))
        );
    }
    if let Some(text) = failure.statement.as_ref().and_then(|at| at.text.as_deref()) {
        let _ = writeln!(
            out,
            "  {}",
            terminal.strong(&cut(plain(text).trim(), terminal.width.saturating_sub(2)))
        );
    }
}

fn notes(out: &mut String, notes: &[String], terminal: Terminal) {
    for note in notes {
        let _ = writeln!(
            out,
            "{} {}",
            terminal.paint(AnsiColor::Yellow.on_default(), "note:"),
            plain(note)
        );
    }
}

/// `function (file:line)`, or what there is of it.
pub(crate) fn position(statement: &StatementRef) -> String {
    let function = plain(&statement.function);
    match (&statement.file, statement.line) {
        (Some(file), Some(line)) => format!("{function} ({}:{line})", plain(base_name(file))),
        _ => format!("{function} ({:#x})", statement.pc),
    }
}

/// [`position`] in so many columns: the file and the line are what people look up, so the function's name
/// is cut.
fn short_position(statement: &StatementRef, columns: usize) -> String {
    let function = plain(&statement.function);
    let whole = position(statement);
    let place = whole.strip_prefix(function.as_str()).unwrap_or_default();
    let room = columns.saturating_sub(width(place)).max(8);
    let short = format!("{}{place}", cut(&function, room));
    if width(&short) < columns {
        pad(&short, columns)
    } else {
        short
    }
}

fn stack(out: &mut String, threads: &[&ThreadStack], state: &str, limit: usize, terminal: Terminal) {
    let Some(thread) = threads.first() else { return };
    let mark = if state.is_empty() {
        String::new()
    } else {
        terminal.alarm(&format!(" {state}"))
    };
    let others = match threads.len() {
        1 => String::new(),
        count => terminal.faint(&format!(" and {} more like it", count - 1)),
    };
    let _ = writeln!(out, "\n{}{mark}{others}", terminal.strong(&plain(&thread.label)));
    let first_own = thread.frames.iter().position(|frame| frame.own).unwrap_or(0);
    let shown = limit.max(first_own.saturating_add(3));
    for (number, frame) in thread.frames.iter().enumerate().take(shown) {
        frame_line(out, number, frame, terminal);
    }
    let hidden = thread.frames.len().saturating_sub(shown);
    if hidden > 0 {
        let _ = writeln!(out, "  {}", terminal.faint(&format!("… {hidden} more frames")));
    }
}

fn frame_line(out: &mut String, number: usize, frame: &FrameLine, terminal: Terminal) {
    let statement = &frame.statement;
    let place = match (&statement.file, statement.line, &frame.module) {
        (Some(file), Some(line), _) => format!("{}:{line}", plain(base_name(file))),
        (_, _, Some(module)) => format!("{} {:#x}", plain(base_name(module)), statement.pc),
        _ => format!("{:#x}", statement.pc),
    };
    let inlined = if frame.inlined { " (inlined)" } else { "" };
    let guess = if frame.origin == "scan" {
        " (guessed from stack contents)"
    } else {
        ""
    };
    let head = format!(
        "  #{number:<2} {}{inlined}{guess}  ",
        cut(&plain(&statement.function), 60)
    );
    let place_shown = cut(&place, 48);
    let text = statement
        .text
        .as_deref()
        .map(|text| plain(text).trim().to_owned())
        .unwrap_or_default();
    let room = terminal
        .width
        .saturating_sub(width(&head) + width(&place_shown) + 2);
    let text = if room >= 12 {
        cut(&text, room)
    } else {
        String::new()
    };
    let head = if frame.own {
        terminal.strong(&head)
    } else {
        terminal.faint(&head)
    };
    let text = if text.is_empty() {
        text
    } else {
        format!("  {text}")
    };
    let _ = writeln!(out, "{head}{}{text}", terminal.faint(&place_shown));
}

fn why(statement: &SliceStatement) -> &'static str {
    match (statement.distance, statement.why) {
        (0, _) => "failing",
        (_, Reason::Data) => "data",
        (_, Reason::Control) => "control",
        (_, Reason::Call) => "call",
        (_, Reason::Thread) => "thread",
    }
}

fn statements(out: &mut String, statements: &[SliceStatement], more: bool, terminal: Terminal) {
    let places: Vec<String> = statements.iter().map(|item| position(&item.statement)).collect();
    let column = places
        .iter()
        .map(|place| width(place))
        .max()
        .unwrap_or(0)
        .clamp(10, terminal.width * 2 / 5);
    for (item, place) in statements.iter().zip(&places) {
        let text = item
            .statement
            .text
            .as_deref()
            .map(|text| plain(text).trim().to_owned())
            .unwrap_or_default();
        let names: Vec<String> = item
            .statement
            .accesses
            .iter()
            .map(|access| format!("{} {}", access.access, plain(&access.variable)))
            .collect();
        let names = names.join(", ");
        let place = if width(place) > column {
            short_position(&item.statement, column)
        } else {
            pad(place, column)
        };
        let head = format!("{:>4}  {:<8}{place}  ", item.distance, why(item));
        let room = terminal.width.saturating_sub(width(&head));
        let shown = cut(&text, room.max(12));
        let rest = room.saturating_sub(width(&shown) + 3);
        let head = if item.distance == 0 {
            terminal.alarm(&head)
        } else {
            head
        };
        let names = if !names.is_empty() && rest >= width(&names) {
            terminal.faint(&format!("  [{names}]"))
        } else {
            String::new()
        };
        let _ = writeln!(out, "{head}{shown}{names}");
    }
    if more {
        let _ = writeln!(
            out,
            "      {}",
            terminal.faint("… more statements further away; ask for them with --max N")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_too_wide_keeps_its_file_and_line() {
        let statement = StatementRef {
            function: "storage::table::BlockBasedTableIterator::NextAndGetResult".to_owned(),
            file: Some("/src/table/block_iterator.cc".to_owned()),
            line: Some(1187),
            pc: 0x1234,
            text: None,
            accesses: Vec::new(),
        };
        let shown = short_position(&statement, 40);
        assert_eq!(width(&shown), 40);
        assert!(shown.contains("(block_iterator.cc:1187)"), "{shown}");
        assert!(shown.starts_with("storage::"), "{shown}");
    }
}

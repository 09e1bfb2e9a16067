//! What a host can do, as a table for people.

use std::fmt::Write as _;

use anstyle::AnsiColor;

use crate::term::Terminal;
use crate::text::{pad, plain, width};

/// Whether something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Works,
    /// In part.
    Degraded,
    /// It does not.
    Missing,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub purpose: String,
    /// Whether it works.
    pub state: State,
    /// What happened.
    pub detail: String,
    /// The commands that would make it work.
    pub enable: Vec<String>,
}

/// The host's own words, what was tried, and what it comes to.
#[must_use]
pub fn report(
    host: &[(String, String)],
    tried: &[Tried],
    conclusion: &[String],
    terminal: Terminal,
) -> String {
    let mut out = String::new();
    let column = |names: &mut dyn Iterator<Item = &String>| names.map(|name| width(name)).max().unwrap_or(0);
    let names = column(&mut tried.iter().map(|tried| &tried.name));
    for tried in tried {
        let (mark, colour) = match tried.state {
            State::Works => ("works   ", AnsiColor::Green),
            State::Degraded => ("degraded", AnsiColor::Yellow),
            State::Missing => ("missing ", AnsiColor::Red),
        };
        let mark = terminal.paint(colour.on_default(), mark);
        let name = terminal.strong(&pad(&plain(&tried.name), names));
        let _ = writeln!(out, "{mark}  {name}  {}", plain(&tried.purpose));
        let indent = " ".repeat(names + 12);
        for line in wrapped(&plain(&tried.detail), terminal.width.saturating_sub(names + 12)) {
            let _ = writeln!(out, "{indent}{}", terminal.faint(&line));
        }
        for command in &tried.enable {
            let _ = writeln!(out, "{indent}to enable: {}", terminal.strong(&plain(command)));
        }
    }
    let names = column(&mut host.iter().map(|(name, _)| name));
    out.push('\n');
    for (name, value) in host {
        let line = format!("{}  {}", pad(&plain(name), names), plain(value));
        let _ = writeln!(out, "{}", terminal.faint(&line));
    }
    out.push('\n');
    for line in conclusion {
        let _ = writeln!(out, "{}", plain(line));
    }
    out
}

/// A text as lines of so many columns, broken between words.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_the_command_that_enables_it() {
        let tried = [
            Tried {
                name: "ptrace".to_owned(),
                purpose: "stops threads".to_owned(),
                state: State::Works,
                detail: "seized a child".to_owned(),
                enable: Vec::new(),
            },
            Tried {
                name: "uprobe".to_owned(),
                purpose: "probes code".to_owned(),
                state: State::Missing,
                detail: "opening one was refused with a reason that takes more than one line".to_owned(),
                enable: vec!["sysctl kernel.perf_event_paranoid=1".to_owned()],
            },
        ];
        let host = [("kernel".to_owned(), "6.18".to_owned())];
        let terminal = Terminal {
            width: 60,
            colour: false,
        };
        assert_eq!(
            report(&host, &tried, &["Enough to watch.".to_owned()], terminal),
            "works     ptrace  stops threads\n\
             \u{20}                 seized a child\n\
             missing   uprobe  probes code\n\
             \u{20}                 opening one was refused with a reason that\n\
             \u{20}                 takes more than one line\n\
             \u{20}                 to enable: sysctl kernel.perf_event_paranoid=1\n\
             \nkernel  6.18\n\nEnough to watch.\n"
        );
    }
}

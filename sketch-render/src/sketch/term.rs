//! For terminals: the sentence, the failure, the lanes, the predictors, and what is missing.

use std::fmt::Write as _;

use anstyle::AnsiColor;
use diagnosis::sketch::{Predictor, PredictorStatement, Sketch};

use super::arrows::waits;
use super::figures::{figures, kind};
use super::names::short;
use super::{columns, view, words};
use crate::model::StaticSketch;
use crate::term::Terminal;
use crate::text::{base_name, cut, pad, plain_start, width, wrap};

/// Predictors shown; the other forms have all.
const MOST_PREDICTORS: usize = 5;
/// Notes and messages may come from elsewhere.
const LONGEST_NOTE: usize = 1000;

/// A sketch on a terminal.
#[must_use]
pub fn term(sketch: &Sketch, terminal: Terminal) -> String {
    if view::is_static(sketch) {
        return crate::term::static_sketch(&StaticSketch::from(sketch), terminal);
    }
    let mut out = String::new();
    for line in wrap(&words::sentence(sketch).plain(), terminal.width) {
        let _ = writeln!(out, "{}", terminal.strong(&line));
    }
    headline(&mut out, sketch, terminal);
    if !sketch.steps.is_empty() {
        out.push('\n');
        columns::draw(&mut out, sketch, terminal);
        legend(&mut out, sketch, terminal);
    }
    if sketch.failure.kind == "hang" {
        stuck(&mut out, sketch, terminal);
    }
    predictors(&mut out, sketch, terminal);
    list(&mut out, "Missing", &sketch.gaps, terminal);
    list(&mut out, "Notes", &sketch.notes, terminal);
    out
}

fn headline(out: &mut String, sketch: &Sketch, terminal: Terminal) {
    let kind = view::failure_kind(sketch);
    let fault = view::fault(sketch.failure.signal.as_deref(), sketch.failure.fault_address)
        .map_or(String::new(), |addr| format!(", address {addr:#x}"));
    let place = sketch.failure.statement.as_ref().map_or(String::new(), |at| {
        let room = terminal.width.saturating_sub(width(&kind) + width(&fault) + 4);
        let name = room.saturating_sub(width(&view::place(at)) + 3);
        format!(" at {}", view::position(at, name))
    });
    let rest = cut(
        &format!("{place}{fault}"),
        terminal.width.saturating_sub(width(&kind)),
    );
    let _ = writeln!(out, "{}{rest}", terminal.alarm(&kind));
    if let Some(message) = &sketch.failure.message {
        for line in wrap(
            &plain_start(message, LONGEST_NOTE),
            terminal.width.saturating_sub(2),
        ) {
            let _ = writeln!(out, "  {line}");
        }
    }
    let build = sketch.program.build_id.as_deref();
    let build = build.map_or(String::new(), |id| {
        format!(" (build {})", cut(&plain_start(id, 64), 12))
    });
    let name = short(base_name(&sketch.program.name), 48);
    let runs = if view::is_static(sketch) {
        "no run was watched".to_owned()
    } else {
        format!(
            "{} failing and {} successful runs, {} statements tracked",
            sketch.runs.failing, sketch.runs.successful, sketch.sigma
        )
    };
    for line in wrap(&format!("in {name}{build}; {runs}"), terminal.width) {
        let _ = writeln!(out, "{}", terminal.faint(&line));
    }
}

/// Explains only the marks that were used.
fn legend(out: &mut String, sketch: &Sketch, terminal: Terminal) {
    let steps = &sketch.steps;
    let boxed = steps.iter().any(|step| step.predictor == Some(1));
    let unordered = steps.iter().any(|step| step.unordered_after.is_some());
    let inferred = steps.iter().any(|step| view::is_inferred(sketch, step));
    let unknown = steps
        .iter()
        .any(|step| step.access.is_some() && step.value.is_none());
    let marks = [
        (boxed, "box and [n]: part of predictor n"),
        (
            unordered,
            "~n: not known to come after the other threads' steps right above it",
        ),
        (view::is_slice(sketch), view::SLICE),
        (inferred, "(n): follows from the code, was not seen"),
        (unknown, "?: value not known"),
    ];
    let used: Vec<&str> = marks
        .iter()
        .filter(|(used, _)| *used)
        .map(|&(_, text)| text)
        .collect();
    if !used.is_empty() {
        out.push('\n');
        for line in wrap(&used.join("; "), terminal.width) {
            let _ = writeln!(out, "{}", terminal.faint(&line));
        }
    }
}

/// Where each thread of a hang was: its innermost frame in the program's own code.
fn stuck(out: &mut String, sketch: &Sketch, terminal: Terminal) {
    let own = |frames: &&Vec<diagnosis::sketch::Frame>| frames.iter().any(|frame| frame.own);
    let mut stacks = sketch.failure.stacks.iter().filter(own).peekable();
    if stacks.peek().is_none() {
        return;
    }
    let _ = writeln!(out, "\n{}", terminal.strong("Where the threads were"));
    for frames in stacks {
        let Some(frame) = frames.iter().find(|frame| frame.own) else {
            continue;
        };
        let position = view::position(&frame.statement, 40);
        let room = terminal.width.saturating_sub(width(&position) + 4);
        let code = if room >= 12 && view::has_code(&frame.statement) {
            cut(&view::code(&frame.statement), room)
        } else {
            String::new()
        };
        let _ = writeln!(out, "{}", format!("  {position}  {code}").trim_end());
    }
}

fn predictors(out: &mut String, sketch: &Sketch, terminal: Terminal) {
    if sketch.predictors.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{}",
        terminal.strong("What separates failing from successful runs")
    );
    for predictor in sketch.predictors.iter().take(MOST_PREDICTORS) {
        one_predictor(out, sketch, predictor, terminal);
    }
    let more = sketch.predictors.len().saturating_sub(MOST_PREDICTORS);
    if more > 0 {
        let _ = writeln!(
            out,
            "   {}",
            terminal.faint(&format!("… {more} more, weaker ones"))
        );
    }
}

fn one_predictor(out: &mut String, sketch: &Sketch, predictor: &Predictor, terminal: Terminal) {
    let kind = kind(predictor);
    let text = format!("{kind}: {}", words::predictor(sketch, predictor).plain());
    let rank = format!("{:>2} ", predictor.rank);
    for (number, line) in wrap(&text, terminal.width.saturating_sub(3)).iter().enumerate() {
        let head = if number == 0 {
            terminal.paint(AnsiColor::Yellow.on_default().bold(), &rank)
        } else {
            "   ".to_owned()
        };
        let _ = writeln!(out, "{head}{line}");
    }
    if predictor.statements.len() > 1 {
        let waits = waits(predictor);
        for (wait, held) in &waits {
            for (what, at) in [("waits", wait), ("for  ", held)] {
                let _ = writeln!(out, "{}", statement_line(what, at, terminal).trim_end());
            }
        }
        for statement in predictor.statements.iter().filter(|_| waits.is_empty()) {
            let access = format!("{:<2}", statement.access.map_or("", view::letter));
            let _ = writeln!(out, "{}", statement_line(&access, statement, terminal).trim_end());
        }
    }
    for line in wrap(&figures(predictor), terminal.width.saturating_sub(3)) {
        let _ = writeln!(out, "   {}", terminal.faint(&line));
    }
}

fn statement_line(what: &str, item: &PredictorStatement, terminal: Terminal) -> String {
    let role = pad(&view::role(&item.thread_role, 16), 16);
    let head = format!("     {what} {role} {}", view::position(&item.statement, 28));
    let room = terminal.width.saturating_sub(width(&head) + 2);
    if room >= 12 && view::has_code(&item.statement) {
        format!("{head}  {}", cut(&view::code(&item.statement), room))
    } else {
        cut(&head, terminal.width)
    }
}

fn list(out: &mut String, heading: &str, items: &[String], terminal: Terminal) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", terminal.strong(heading));
    for item in items {
        let lines = wrap(&plain_start(item, LONGEST_NOTE), terminal.width.saturating_sub(4));
        for (number, line) in lines.iter().enumerate() {
            let head = if number == 0 { "  - " } else { "    " };
            let _ = writeln!(out, "{head}{line}");
        }
    }
}

//! Markdown for issue trackers: a table with a column a thread, as GitHub, GitLab and Gitea show it.

use std::fmt::Write as _;

use diagnosis::sketch::{Sketch, Step};

use super::figures::{figures, kind};
use super::names::short;
use super::stretches::{Stretch, stretches, summary};
use super::view::{self, Lane};
use super::words::{self, Phrase, Piece};
use crate::text::{base_name, plain_start};

/// Of a longer grey prefix only so many steps are shown: a tracker takes 64 kB.
const LONGEST_PREFIX: usize = 12;
/// Of a longer stretch in which nothing happens that matters the middle is left out,
const LONGEST_STRETCH: usize = 30;
/// but for so many steps at either end.
const NEAR: usize = 6;
/// Steps shown after it, for the same reason.
const MOST_STEPS: usize = 100;
/// More lanes make a table that nobody can read; the threads then go into one column.
const MOST_LANES: usize = 4;
/// Predictors shown.
const MOST_PREDICTORS: usize = 5;
/// Characters of a name, a statement or a message.
const LONGEST_CODE: usize = 120;
const LONGEST_NOTE: usize = 1000;

/// A sketch as Markdown.
#[must_use]
pub fn markdown(sketch: &Sketch) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "### {}\n", phrase(&words::sentence(sketch)));
    failure(&mut out, sketch);
    steps(&mut out, sketch);
    predictors(&mut out, sketch);
    list(&mut out, "Missing", &sketch.gaps);
    list(&mut out, "Notes", &sketch.notes);
    out
}

fn failure(out: &mut String, sketch: &Sketch) {
    let _ = write!(out, "**{}**", escaped(&view::failure_kind(sketch)));
    if let Some(at) = &sketch.failure.statement {
        let function = code(&short(&at.function, LONGEST_CODE));
        let _ = write!(out, " at {function} ({})", escaped(&view::place(at)));
    }
    let _ = write!(out, " in {}", code(&short(base_name(&sketch.program.name), 60)));
    if let Some(build) = &sketch.program.build_id {
        let _ = write!(out, ", build {}", code(&plain_start(build, 40)));
    }
    if view::is_static(sketch) {
        out.push_str("; no run was watched");
    } else {
        let runs = sketch.runs;
        let _ = write!(
            out,
            "; {} failing and {} successful runs",
            runs.failing, runs.successful
        );
    }
    out.push_str("\n\n");
    if let Some(message) = &sketch.failure.message {
        let _ = writeln!(out, "> {}\n", escaped(&plain_start(message, LONGEST_NOTE)));
    }
}

fn steps(out: &mut String, sketch: &Sketch) {
    if sketch.steps.is_empty() {
        return;
    }
    if view::is_slice(sketch) {
        let _ = writeln!(out, "The steps are {}.\n", view::SLICE);
    }
    let lanes = view::lanes(sketch);
    let apart = lanes.len() <= MOST_LANES;
    let heads: Vec<String> = if apart {
        lanes.iter().map(|lane| escaped(&lane.name)).collect()
    } else {
        vec!["thread".to_owned(), "statement".to_owned()]
    };
    let _ = writeln!(out, "| # | {} | value |", heads.join(" | "));
    let _ = writeln!(out, "|--:|{}---|", "---|".repeat(heads.len()));
    let hidden = view::prefix(sketch).saturating_sub(LONGEST_PREFIX);
    if hidden > 0 {
        let blank = " |".repeat(heads.len());
        let _ = writeln!(out, "| … | {hidden} earlier steps{blank}");
    }
    let blank = " |".repeat(heads.len());
    let mut rows = 0;
    for stretch in stretches(sketch, hidden, LONGEST_STRETCH, NEAR) {
        let steps = match stretch {
            Stretch::Shown(steps) => sketch.steps.get(steps).unwrap_or(&[]),
            Stretch::Folded(steps) => {
                let text = escaped(&summary(sketch, &steps, &lanes));
                let _ = writeln!(out, "| … | {text}{blank}");
                continue;
            }
        };
        for step in steps {
            rows += 1;
            // The failing statement is the last one.
            if rows < MOST_STEPS || step.failing {
                row(out, sketch, step, &lanes, apart);
            }
        }
    }
    if rows > MOST_STEPS {
        let _ = writeln!(
            out,
            "| … | {} steps were left out above{blank}",
            rows - MOST_STEPS
        );
    }
    out.push('\n');
    legend(out, sketch);
}

fn row(out: &mut String, sketch: &Sketch, step: &Step, lanes: &[Lane], apart: bool) {
    let mut cell = String::new();
    if let Some(gap) = &step.gap_before {
        let _ = write!(cell, "*gap: {}*<br>", escaped(&plain_start(gap, LONGEST_CODE)));
    }
    if step.failing {
        cell.push_str("❌ ");
    }
    if let Some(rank) = step.predictor {
        let _ = write!(cell, "**\\[{rank}\\]** ");
    }
    let _ = write!(
        cell,
        "{}<br><sub>{} {}</sub>",
        code(&plain_start(&view::code(&step.statement), LONGEST_CODE)),
        escaped(&short(&step.statement.function, 60)),
        escaped(&view::place(&step.statement))
    );
    let number = match (step.unordered_after.is_some(), view::is_inferred(sketch, step)) {
        (true, _) => format!("\\~{}", step.n),
        (false, true) => format!("({})", step.n),
        (false, false) => step.n.to_string(),
    };
    let cells: Vec<String> = if apart {
        let own = |lane: &Lane| {
            if lane.thread == step.thread {
                cell.clone()
            } else {
                String::new()
            }
        };
        lanes.iter().map(own).collect()
    } else {
        let lane = lanes.iter().find(|lane| lane.thread == step.thread);
        vec![lane.map_or(String::new(), |lane| escaped(&lane.name)), cell]
    };
    let effect = view::effect_in(step, LONGEST_CODE).map_or(String::new(), |effect| code(&effect));
    let _ = writeln!(out, "| {number} | {} | {effect} |", cells.join(" | "));
}

fn legend(out: &mut String, sketch: &Sketch) {
    let any = |holds: fn(&Step) -> bool| sketch.steps.iter().any(holds);
    let mut marks = Vec::new();
    if any(|step| step.predictor.is_some()) {
        marks.push("**\\[n\\]** part of predictor n");
    }
    if any(|step| step.unordered_after.is_some()) {
        marks.push("\\~n not known to come after the other threads' steps right above it");
    }
    if sketch.steps.iter().any(|step| view::is_inferred(sketch, step)) {
        marks.push("(n) follows from the code, was not seen");
    }
    if any(|step| step.access.is_some() && step.value.is_none()) {
        marks.push("? value not known");
    }
    if !marks.is_empty() {
        let _ = writeln!(out, "<sub>{}</sub>\n", marks.join("; "));
    }
}

fn predictors(out: &mut String, sketch: &Sketch) {
    if sketch.predictors.is_empty() {
        return;
    }
    out.push_str("#### What separates failing from successful runs\n\n");
    for predictor in sketch.predictors.iter().take(MOST_PREDICTORS) {
        let _ = writeln!(
            out,
            "{}. *{}*: {}<br>{}",
            predictor.rank,
            escaped(&kind(predictor)),
            phrase(&words::predictor(sketch, predictor)),
            escaped(&figures(predictor))
        );
    }
    let more = sketch.predictors.len().saturating_sub(MOST_PREDICTORS);
    if more > 0 {
        let _ = writeln!(out, "\n{more} more, weaker ones");
    }
    out.push('\n');
}

fn list(out: &mut String, heading: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(out, "#### {heading}\n");
    for item in items {
        let _ = writeln!(out, "- {}", escaped(&plain_start(item, LONGEST_NOTE)));
    }
    out.push('\n');
}

fn phrase(phrase: &Phrase) -> String {
    let pieces = phrase.0.iter().map(|piece| match piece {
        Piece::Text(text) => escaped(text),
        Piece::Code(text) => code(text),
    });
    pieces.collect()
}

/// Words in which nothing is markup, nobody is mentioned and no issue is linked.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A link or an emoji may follow; the line of a place may not.
            ':' if chars
                .peek()
                .is_some_and(|next| !next.is_ascii_digit() && *next != ' ') =>
            {
                out.push_str("&#58;")
            }
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '!' | '$' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

/// Code between as many backticks as it takes. A table cell ends at a bar, also inside code.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{space}{}{space}{fence}", text.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_text() {
        assert_eq!(
            escaped("a_b <i> @me #1 [x](y)"),
            "a\\_b &lt;i&gt; &#64;me &#35;1 \\[x\\](y)"
        );
        assert_eq!(code("a | b"), "`a \\| b`");
        assert_eq!(code("`x`` y"), "``` `x`` y ```");
    }
}

//! The lanes: a table with a column a thread, so that it reads in order without any style or script.

use std::fmt::Write as _;

use diagnosis::sketch::{PredictorKind, Sketch, Step, Why};

use super::markup::{effect, escaped, place};
use super::sources;
use super::values::variables;
use crate::sketch::view::{self, Lane};
use crate::text::plain_start;

/// A longer grey prefix is hidden at first, but for the steps right before what matters.
const LONGEST_OPEN_PREFIX: usize = 12;
/// How many those are.
const NEAR: usize = 6;
/// With more lanes than this, a step may lie over the empty lanes beside it.
const FEW_LANES: usize = 3;
/// Lanes have so many colours.
pub(super) const COLOURS: usize = 6;

pub(super) fn section(out: &mut String, sketch: &Sketch) {
    if sketch.steps.is_empty() {
        return;
    }
    let lanes = view::lanes(sketch);
    let prefix = view::prefix(sketch);
    let far = if prefix > LONGEST_OPEN_PREFIX {
        prefix - NEAR
    } else {
        prefix
    };
    bar(out, sketch, far);
    let many = if lanes.len() > FEW_LANES { " many" } else { "" };
    let _ = write!(
        out,
        "<div class=\"wrap\">\n<table class=\"lanes{many}\" data-pattern=\"{}\">\n<thead><tr><th class=\"n\" scope=\"col\">#</th>",
        pattern(sketch)
    );
    for (at, lane) in lanes.iter().enumerate() {
        let _ = write!(
            out,
            "<th scope=\"col\"><button class=\"follow c{}\" data-k=\"t\" data-i=\"{}\">{}</button></th>",
            at % COLOURS,
            lane.thread,
            // Without runs the only lane is no thread: a slice goes through all of them.
            if view::is_static(sketch) {
                "statement".to_owned()
            } else {
                super::markup::name(&lane.name, 40)
            }
        );
    }
    out.push_str("<th class=\"v\" scope=\"col\">value</th></tr></thead>\n");
    let variables = variables(sketch);
    let sources = sources::Index::new(sketch);
    let parts = [
        ("prefix grey", 0, far),
        ("grey", far, prefix),
        ("", prefix, sketch.steps.len()),
    ];
    for (class, from, to) in parts {
        let steps = sketch.steps.get(from..to).unwrap_or(&[]);
        if steps.is_empty() {
            continue;
        }
        let _ = writeln!(out, "<tbody class=\"{class}\">");
        for step in steps {
            row(out, sketch, step, &lanes, &variables, &sources);
        }
        out.push_str("</tbody>\n");
    }
    out.push_str("</table>\n</div>\n");
}

/// What can be switched and pressed, and the marks that were used.
fn bar(out: &mut String, sketch: &Sketch, prefix: usize) {
    out.push_str("<div class=\"bar\">");
    if prefix > 0 {
        let open = if prefix <= LONGEST_OPEN_PREFIX {
            " checked"
        } else {
            ""
        };
        let steps = if prefix == 1 { "step" } else { "steps" };
        let _ = write!(
            out,
            "<label><input type=\"checkbox\" id=\"prefix\"{open}> show the {prefix} {steps} before</label> <kbd>p</kbd>"
        );
    }
    if view::is_static(sketch) {
        out.push_str("<span>what the failing statement depends on, nearest last; no run was watched, so this is no order of execution</span>");
    }
    let any = |holds: fn(&Step) -> bool| sketch.steps.iter().any(holds);
    if any(|step| step.unordered_after.is_some()) {
        out.push_str("<span>~n: not known to come after the other threads' steps right above it</span>");
    }
    if sketch.steps.iter().any(|step| view::is_inferred(sketch, step)) {
        out.push_str("<span>italic: follows from the code, was not seen</span>");
    }
    out.push_str(
        "<span class=\"keys\"><kbd>j</kbd> <kbd>k</kbd> steps · <kbd>a</kbd> along the arrow · <kbd>v</kbd> same variable · \
         <kbd>t</kbd> same thread · <kbd>f</kbd> follow · <kbd>c</kbd> source</span>\
         <span class=\"now\" role=\"status\"></span></div>\n",
    );
}

/// The numbers of the steps that arrows connect.
fn pattern(sketch: &Sketch) -> String {
    let best = sketch
        .predictors
        .iter()
        .find(|predictor| matches!(predictor.kind, PredictorKind::Order | PredictorKind::Atomicity));
    let Some(best) = best else {
        return String::new();
    };
    let steps = view::pattern_steps(sketch, best);
    let steps = steps
        .into_iter()
        .flatten()
        .filter_map(|index| sketch.steps.get(index));
    steps.map(|step| step.n.to_string()).collect::<Vec<_>>().join(" ")
}

fn row(
    out: &mut String,
    sketch: &Sketch,
    step: &Step,
    lanes: &[Lane],
    variables: &[&str],
    sources: &sources::Index,
) {
    let variable = step
        .variable
        .as_deref()
        .and_then(|name| variables.iter().position(|known| *known == name));
    let mut classes: Vec<&str> = Vec::new();
    classes.extend((step.predictor == Some(1)).then_some("key"));
    classes.extend(step.failing.then_some("bad"));
    classes.extend(view::is_inferred(sketch, step).then_some("inferred"));
    classes.extend(step.unordered_after.is_some().then_some("part"));
    let _ = write!(
        out,
        "<tr id=\"n{0}\" data-n=\"{0}\" data-t=\"{1}\" class=\"{2}\" tabindex=\"{3}\"",
        step.n,
        step.thread,
        classes.join(" "),
        // The steps that matter are reached by the tab key, the others from there.
        if step.failing || step.predictor == Some(1) {
            0
        } else {
            -1
        }
    );
    if let Some(variable) = variable {
        let _ = write!(out, " data-v=\"{variable}\"");
    }
    let unordered = if step.unordered_after.is_some() { "~" } else { "" };
    let _ = write!(out, "><td class=\"n\">{unordered}{}</td>", step.n);
    for (at, lane) in lanes.iter().enumerate() {
        // The last lanes have no neighbours at the right to lie over.
        let late = if at + 2 >= lanes.len() { " late" } else { "" };
        let _ = write!(out, "<td class=\"lane{late}\">");
        if lane.thread == step.thread {
            cell(out, step, (at, lane), sources);
        }
        out.push_str("</td>");
    }
    let mut effect = effect(step, variable);
    // Where runs were watched, what a step did says more than why it was looked at.
    let why = step.why.filter(|_| view::is_static(sketch) && !step.failing);
    if let (Some(why), Some(distance)) = (why, step.distance) {
        let _ = write!(
            effect,
            "<span class=\"soft\">{}, distance {distance}</span>",
            reason(why)
        );
    }
    for named in &step.statement.accesses {
        let letter = view::letter(named.access);
        let name = super::markup::name(&named.variable, 40);
        let _ = write!(
            effect,
            " <span class=\"acc {letter}\">{letter}</span> <code>{name}</code>"
        );
    }
    let _ = writeln!(out, "<td class=\"v\">{effect}</td></tr>");
}

fn reason(why: Why) -> &'static str {
    match why {
        Why::Data => "data",
        Why::Control => "control",
        Why::Call => "call",
        Why::Thread => "thread",
    }
}

fn cell(out: &mut String, step: &Step, (at, lane): (usize, &Lane), sources: &sources::Index) {
    if let Some(gap) = &step.gap_before {
        let _ = write!(
            out,
            "<div class=\"gap\">gap: {}</div>",
            escaped(&plain_start(gap, 300))
        );
    }
    let _ = write!(
        out,
        "<div class=\"step k{}\" data-who=\"{}\">",
        at % COLOURS,
        escaped(&lane.name)
    );
    if let Some(rank) = step.predictor {
        let _ = write!(
            out,
            "<span class=\"rank\" title=\"part of predictor {rank}\">{rank}</span>"
        );
    }
    if step.failing {
        out.push_str("<span class=\"died\">✗ failed here</span>");
    }
    let code = view::code(&step.statement);
    if view::has_code(&step.statement) {
        let _ = write!(out, "<code>{}</code>", marked(&code, step.variable.as_deref()));
    } else {
        let _ = write!(out, "<span class=\"soft\">{}</span>", escaped(&code));
    }
    let place = place(&step.statement);
    match sources.anchor(&step.statement) {
        Some(anchor) => {
            let _ = write!(
                out,
                "<small><a href=\"#{anchor}\" data-src=\"{anchor}\">{place}</a></small></div>"
            );
        }
        None => {
            let _ = write!(out, "<small>{place}</small></div>");
        }
    }
}

/// Code with the variable in it underlined.
fn marked(code: &str, variable: Option<&str>) -> String {
    let found = variable
        .filter(|name| !name.is_empty())
        .and_then(|name| Some((code.find(name)?, name.len())));
    match found {
        Some((at, len)) => {
            let (before, rest) = code.split_at(at);
            let (name, after) = rest.split_at(len);
            format!(
                "{}<mark>{}</mark>{}",
                escaped(before),
                escaped(name),
                escaped(after)
            )
        }
        None => escaped(code),
    }
}

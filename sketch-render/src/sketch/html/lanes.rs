//! The lanes: a table with a column a thread, so that it reads in order without any style or script.

use std::fmt::Write as _;
use std::ops::Range;

use diagnosis::sketch::{Predictor, Sketch, Step, Why};

use super::markup::{effect, escaped, place};
use super::sources;
use super::values::variables;
use crate::sketch::arrows::{arrows, waits};
use crate::sketch::stretches::{Stretch, stretches, summary};
use crate::sketch::view::{self, Lane};
use crate::text::plain_start;

/// A longer grey prefix is hidden at first, but for the steps right before what matters.
const LONGEST_OPEN_PREFIX: usize = 12;
/// How many those are.
const NEAR: usize = 6;
/// Of a longer stretch in which nothing happens that matters, the middle is hidden at first.
const LONGEST_STRETCH: usize = 40;
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
    let after = stretches(sketch, prefix, LONGEST_STRETCH, NEAR);
    let folds = after.iter().any(|stretch| matches!(stretch, Stretch::Folded(_)));
    let far = match prefix {
        long if long > LONGEST_OPEN_PREFIX => prefix - NEAR,
        // One switch is for all: what is short is not hidden with what is long.
        _ if folds => 0,
        _ => prefix,
    };
    bar(out, sketch, far, folds);
    let links = Links::of(sketch);
    let many = if lanes.len() > FEW_LANES { " many" } else { "" };
    let slice = if view::is_slice(sketch) { " slice" } else { "" };
    let waits = if links.are_waits { " waits" } else { "" };
    let _ = write!(
        out,
        "<div class=\"wrap\">\n<table class=\"lanes{many}{waits}{slice}\" data-pattern=\"{}\">\n<thead><tr><th class=\"n\" scope=\"col\">#</th>",
        pattern(sketch)
    );
    for (at, lane) in lanes.iter().enumerate() {
        let _ = write!(
            out,
            "<th scope=\"col\"><button class=\"follow c{}\" data-k=\"t\" data-i=\"{}\">{}</button></th>",
            at % COLOURS,
            lane.thread,
            super::markup::name(&lane.name, 40)
        );
    }
    out.push_str("<th class=\"v\" scope=\"col\">value</th></tr></thead>\n");
    let variables = variables(sketch);
    let sources = sources::Index::new(sketch);
    let part = |out: &mut String, class: &str, steps: Range<usize>| {
        let steps = sketch.steps.get(steps).unwrap_or(&[]);
        if steps.is_empty() {
            return;
        }
        let _ = writeln!(out, "<tbody class=\"{class}\">");
        for step in steps {
            row(out, (sketch, step), &lanes, &variables, &sources, &links);
        }
        out.push_str("</tbody>\n");
    };
    part(out, "prefix grey", 0..far);
    part(out, "grey", far..prefix);
    for stretch in after {
        match stretch {
            Stretch::Shown(steps) => part(out, "", steps),
            Stretch::Folded(steps) => {
                let _ = writeln!(
                    out,
                    "<tbody class=\"folded\"><tr class=\"more\"><td class=\"n\">⋮</td><td colspan=\"{}\">\
                     <label for=\"prefix\">{}</label></td></tr></tbody>",
                    lanes.len() + 1,
                    escaped(&summary(sketch, &steps, &lanes))
                );
                part(out, "prefix", steps);
            }
        }
    }
    out.push_str("</table>\n</div>\n");
}

/// What can be switched and pressed, and the marks that were used.
fn bar(out: &mut String, sketch: &Sketch, prefix: usize, folds: bool) {
    out.push_str("<div class=\"bar\">");
    if folds {
        let _ = write!(
            out,
            "<label><input type=\"checkbox\" id=\"prefix\"> show all {} steps</label> <kbd>p</kbd>",
            sketch.steps.len()
        );
    } else if prefix > 0 {
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
    if view::is_slice(sketch) {
        let _ = write!(out, "<span>{}</span>", view::SLICE);
    }
    let any = |holds: fn(&Step) -> bool| sketch.steps.iter().any(holds);
    if any(|step| step.unordered_after.is_some()) {
        out.push_str("<span>~n: not known to come after the other threads' steps right above it</span>");
    }
    if Links::of(sketch).are_waits {
        out.push_str("<span class=\"keys\">arrow: waits for what was taken there</span>");
    }
    if sketch.steps.iter().any(|step| view::is_inferred(sketch, step)) {
        out.push_str("<span>italic: follows from the code, was not seen</span>");
    }
    if any(|step| step.statement.line.is_some() && !view::has_code(&step.statement)) {
        out.push_str("<span>without text: the source was not available</span>");
    }
    if any(|step| step.access.is_some()) {
        out.push_str("<span>R: read, W: written</span>");
    }
    out.push_str("<span class=\"keys\"><kbd>j</kbd> <kbd>k</kbd> steps");
    if !numbers(sketch).is_empty() {
        out.push_str(" · <kbd>a</kbd> along the arrow");
    }
    let follows = any(|step| step.variable.is_some());
    if follows {
        out.push_str(" · <kbd>v</kbd> same variable");
    }
    if view::lanes(sketch).len() > 1 {
        out.push_str(" · <kbd>t</kbd> same thread");
    }
    if follows {
        out.push_str(" · <kbd>f</kbd> <kbd>F</kbd> follow them");
    }
    if !sketch.sources.is_empty() {
        out.push_str(" · <kbd>c</kbd> source");
    }
    out.push_str("</span><span class=\"now\" role=\"status\"></span></div>\n");
}

/// The numbers of the steps that arrows connect.
fn numbers(sketch: &Sketch) -> Vec<(u32, u32)> {
    let number = |index: usize| sketch.steps.get(index).map(|step| step.n);
    let pairs = arrows(sketch).into_iter();
    pairs
        .filter_map(|(from, to)| number(from).zip(number(to)))
        .collect()
}

/// The same for the script: `3>7 7>9`.
fn pattern(sketch: &Sketch) -> String {
    let pairs = numbers(sketch).into_iter();
    let pairs = pairs.map(|(from, to)| format!("{from}&gt;{to}"));
    pairs.collect::<Vec<_>>().join(" ")
}

/// There may be hundreds: what HTML does without (ends of cells and rows) is left out.
fn row(
    out: &mut String,
    (sketch, step): (&Sketch, &Step),
    lanes: &[Lane],
    variables: &[&str],
    sources: &sources::Index,
    links: &Links,
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
    let class = match classes.join(" ") {
        none if none.is_empty() => none,
        classes => format!(" class=\"{classes}\""),
    };
    // The steps that matter are reached by the tab key, the others from there.
    let stop = if step.failing || step.predictor == Some(1) {
        " tabindex=\"0\""
    } else {
        ""
    };
    let _ = write!(
        out,
        "<tr id=\"n{}\" data-t=\"{}\"{class}{stop}",
        step.n, step.thread,
    );
    if let Some(variable) = variable {
        let _ = write!(out, " data-v=\"{variable}\"");
    }
    let unordered = if step.unordered_after.is_some() { "~" } else { "" };
    let _ = write!(out, "><td class=\"n\">{unordered}{}", step.n);
    for (at, lane) in lanes.iter().enumerate() {
        // The last lanes have no neighbours at the right to lie over.
        let late = if lanes.len() > FEW_LANES && at + 2 >= lanes.len() {
            " late"
        } else {
            ""
        };
        let _ = write!(out, "<td class=\"lane{late}\">");
        if lane.thread == step.thread {
            cell(out, step, (at, lane), sources);
        }
    }
    let mut effect = effect(step, variable.is_some());
    // Where runs were watched, what a step did says more than why it was looked at.
    let why = step.why.filter(|_| view::is_slice(sketch) && !step.failing);
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
    links.write(&mut effect, step.n);
    let _ = writeln!(out, "<td class=\"v\">{effect}");
}

/// The arrows, for whoever does not see them: they are drawn by the script, and not on paper, where a page may end between.
struct Links {
    /// From which step to which.
    pairs: Vec<(u32, u32)>,
    /// Whether they are waits for what was taken there.
    are_waits: bool,
}

impl Links {
    fn of(sketch: &Sketch) -> Self {
        let deadlock = |predictor: &Predictor| !waits(predictor).is_empty();
        Self {
            pairs: numbers(sketch),
            are_waits: sketch.predictors.first().is_some_and(deadlock),
        }
    }

    fn write(&self, out: &mut String, step: u32) {
        let Some((_, to)) = self.pairs.iter().find(|(from, _)| *from == step) else {
            return;
        };
        let link = format!("<a href=\"#n{to}\" data-to=\"{to}\">{to}</a>");
        let _ = if self.are_waits {
            write!(out, "<small>waits for what {link} took</small>")
        } else {
            write!(out, "<small class=\"then\">then {link}</small>")
        };
    }
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
    let place = place(&step.statement);
    if !view::has_code(&step.statement) {
        let _ = write!(out, "<span class=\"mono\">{place}</span></div>");
        return;
    }
    let code = view::code(&step.statement);
    let _ = write!(out, "<code>{}</code>", marked(&code, step.variable.as_deref()));
    match sources.anchor(&step.statement) {
        Some(anchor) => {
            let _ = write!(
                out,
                "<small><a href=\"#{anchor}\" data-src>{place}</a></small></div>"
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

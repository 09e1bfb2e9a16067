//! The history of each variable.

use std::fmt::Write as _;

use diagnosis::sketch::{Sketch, Step};

use super::markup::{escaped, name};
use crate::sketch::view;

/// Accesses of a variable shown; those nearest to the failure.
const MOST: usize = 40;

/// The variables of a sketch, in the order in which they are first accessed.
pub(super) fn variables(sketch: &Sketch) -> Vec<&str> {
    let mut known: Vec<&str> = Vec::new();
    for name in sketch.steps.iter().filter_map(|step| step.variable.as_deref()) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

pub(super) fn section(out: &mut String, sketch: &Sketch) {
    let variables = variables(sketch);
    if variables.is_empty() {
        return;
    }
    out.push_str(
        "<section>\n<h2>Values over time</h2>\n<table class=\"grid\"><thead><tr><th scope=\"col\">variable</th>\
         <th scope=\"col\">accesses, the last one at the end</th></tr></thead><tbody>\n",
    );
    let lanes = view::lanes(sketch);
    for (number, variable) in variables.iter().enumerate() {
        let steps: Vec<&Step> = sketch
            .steps
            .iter()
            .filter(|step| step.variable.as_deref() == Some(variable))
            .collect();
        let _ = write!(
            out,
            "<tr><td><button class=\"follow mono\" data-k=\"v\" data-i=\"{number}\">{}</button></td><td><ol class=\"hist\">",
            name(variable, 60)
        );
        let hidden = steps.len().saturating_sub(MOST);
        if hidden > 0 {
            let _ = write!(out, "<li class=\"soft\">{hidden} earlier ones</li>");
        }
        for step in steps.into_iter().skip(hidden) {
            let lane = lanes.iter().position(|lane| lane.thread == step.thread);
            let who = lane.and_then(|at| Some((at, lanes.get(at)?)));
            item(
                out,
                step,
                who.map_or((0, ""), |(at, lane)| (at, lane.name.as_str())),
            );
        }
        out.push_str("</ol></td></tr>\n");
    }
    out.push_str("</tbody></table>\n</section>\n");
}

fn item(out: &mut String, step: &Step, (lane, who): (usize, &str)) {
    let class = match (step.failing, step.predictor) {
        (true, _) => " class=\"bad\"",
        (false, Some(1)) => " class=\"key\"",
        _ => "",
    };
    let access = step.access.map_or("", view::letter);
    let value = match &step.value {
        Some(value) => format!("<code class=\"val\">{}</code>", escaped(&view::value(value))),
        None => "<span class=\"unk\" title=\"not known\">?</span>".to_owned(),
    };
    let _ = write!(
        out,
        "<li{class}><a href=\"#n{0}\" data-to=\"{0}\">{0}</a> <span class=\"acc {access}\">{access}</span> \
         <span class=\"c{1}\">{2}</span> {value}</li>",
        step.n,
        lane % super::lanes::COLOURS,
        name(who, 30)
    );
}

//! What separates failing from successful runs: two runs side by side for the best, a table for all.

use std::fmt::Write as _;

use diagnosis::sketch::{Predictor, PredictorStatement, Sketch, Step};

use super::lanes::COLOURS;
use super::markup::{effect, escaped, name, phrase, place};
use crate::sketch::arrows::{pattern_steps, waits};
use crate::sketch::figures::{interval, kind};
use crate::sketch::{view, words};

/// Predictors shown at once, and a few more where there are no others.
const FIRST: usize = 8;
const FEW: usize = 4;
/// Predictors shown when asked for.
const MOST: usize = 58;
/// Steps of an example.
const MOST_STEPS: usize = 20;
/// Units of the whole of a meter.
const WHOLE: u64 = 1000;

pub(super) fn sides_section(out: &mut String, sketch: &Sketch) {
    if sketch.predictors.is_empty() {
        return;
    }
    out.push_str("<section>\n<h2>Failing and successful runs</h2>\n");
    for (at, predictor) in sketch.predictors.iter().enumerate() {
        if at == 0 {
            sides(out, sketch, predictor);
        } else if predictor.examples.is_some() {
            let what = phrase(&words::predictor(sketch, predictor));
            let _ = writeln!(out, "<details><summary>{}. {what}</summary>", predictor.rank);
            sides(out, sketch, predictor);
            out.push_str("</details>\n");
        }
    }
    out.push_str("</section>\n");
}

fn sides(out: &mut String, sketch: &Sketch, predictor: &Predictor) {
    out.push_str("<div class=\"sides\">\n");
    let [failing, successful] = match &predictor.examples {
        Some(examples) => [examples.failing.as_slice(), examples.successful.as_slice()],
        None => [&[][..], &[][..]],
    };
    let own: Vec<Step> = pattern_steps(sketch, predictor)
        .into_iter()
        .flatten()
        .filter_map(|index| sketch.steps.get(index).cloned())
        .collect();
    let failing = if failing.is_empty() { &own } else { failing };
    let counts = [predictor.failing_with, predictor.failing];
    side(out, (sketch, predictor), ("f", "Failing"), counts, failing);
    let counts = [predictor.successful_with, predictor.successful];
    side(out, (sketch, predictor), ("s", "Successful"), counts, successful);
    out.push_str("</div>\n");
}

fn side(
    out: &mut String,
    (sketch, predictor): (&Sketch, &Predictor),
    (class, title): (&str, &str),
    [with, all]: [u64; 2],
    steps: &[Step],
) {
    let width = (WHOLE * with).checked_div(all).unwrap_or(0).min(WHOLE);
    let _ = write!(
        out,
        "<div class=\"side {class}\"><h3><span>{title} runs</span><span class=\"soft\">{with} of {all} have it</span></h3>\
         <svg class=\"meter\" viewBox=\"0 0 {WHOLE} 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"all\" width=\"{WHOLE}\" height=\"10\"/><rect class=\"with\" width=\"{width}\" height=\"10\"/></svg>"
    );
    if steps.is_empty() {
        let _ = write!(
            out,
            "<p class=\"soft\">no example of a {} run was kept</p>",
            title.to_lowercase()
        );
    } else {
        out.push_str("<ol>");
        let lanes = view::lanes(sketch);
        for step in steps.iter().take(MOST_STEPS) {
            let role = role(sketch, predictor, step);
            let lane = lanes.iter().position(|lane| lane.role.as_deref() == Some(role));
            let who = match role {
                "" => "unknown thread".to_owned(),
                role => {
                    view::role(role, 60) + &which(steps, step, |step| self::role(sketch, predictor, step))
                }
            };
            let _ = write!(
                out,
                "<li class=\"mini\"><span class=\"who c{}\">{}</span><span>{}</span></li>",
                lane.unwrap_or(0) % COLOURS,
                name(&who, 24),
                did(step)
            );
        }
        out.push_str("</ol>");
    }
    out.push_str("</div>\n");
}

/// The statement and what it did.
fn did(step: &Step) -> String {
    let (effect, place) = (effect(step, false), place(&step.statement));
    if view::has_code(&step.statement) {
        let code = escaped(&view::code(&step.statement));
        format!("<code>{code}</code><br>{effect} <small>{place}</small>")
    } else {
        format!("<span class=\"mono\">{place}</span><br>{effect}")
    }
}

/// ` A` or ` B` where several threads of one role are there. The numbers of lanes would say that it is the same thread as there.
fn which<'s>(steps: &[Step], step: &Step, role: impl Fn(&Step) -> &'s str) -> String {
    let mut threads: Vec<u32> = Vec::new();
    for other in steps.iter().filter(|other| role(other) == role(step)) {
        if !threads.contains(&other.thread) {
            threads.push(other.thread);
        }
    }
    let at = threads.iter().position(|thread| *thread == step.thread);
    match at.and_then(|at| (b'A'..=b'Z').nth(at)) {
        Some(letter) if threads.len() > 1 => format!(" {}", char::from(letter)),
        _ => String::new(),
    }
}

/// An example is of another run than the sketch, and its threads have that run's numbers: who it was is known by
/// the statement.
fn role<'s>(sketch: &'s Sketch, predictor: &'s Predictor, step: &Step) -> &'s str {
    let same = |statement: &&PredictorStatement| view::same_place(&statement.statement, &step.statement);
    let thread = || sketch.threads.iter().find(|thread| thread.id == step.thread);
    match predictor.statements.iter().chain(&predictor.missing).find(same) {
        Some(statement) => &statement.thread_role,
        None => thread()
            .and_then(|thread| thread.role.as_deref())
            .unwrap_or_default(),
    }
}

/// The table of all predictors; `runs` gives the address of a page about the runs behind one.
pub(super) fn table_section(out: &mut String, sketch: &Sketch, runs: &dyn Fn(&Predictor) -> Option<String>) {
    if sketch.predictors.is_empty() {
        return;
    }
    out.push_str("<section>\n<h2>What separates them, best first</h2>\n");
    let shown = sketch.predictors.get(..MOST).unwrap_or(&sketch.predictors);
    // For a few more it takes no switch.
    let first = if shown.len() > FIRST + FEW {
        FIRST
    } else {
        shown.len()
    };
    let weaker = shown.len() - first;
    if weaker > 0 {
        let _ = writeln!(
            out,
            "<p><label><input type=\"checkbox\" id=\"weaker\"> show {weaker} weaker ones</label></p>"
        );
    }
    out.push_str(
        "<table class=\"grid sortable\"><thead><tr>\
         <th scope=\"col\">#</th><th scope=\"col\">kind</th><th scope=\"col\">what</th><th scope=\"col\">failing</th>\
         <th scope=\"col\">successful</th><th scope=\"col\">F</th><th scope=\"col\">precision (95 %)</th>\
         <th scope=\"col\">recall (95 %)</th></tr></thead><tbody>\n",
    );
    for (at, predictor) in shown.iter().enumerate() {
        row(out, sketch, predictor, at >= first, runs(predictor));
    }
    out.push_str("</tbody></table>\n");
    let left = sketch.predictors.len().saturating_sub(MOST);
    if left > 0 {
        let _ = writeln!(out, "<p class=\"soft\">{left} more are in the JSON</p>");
    }
    out.push_str("</section>\n");
}

/// `data-s` is what a row is sorted by.
fn row(out: &mut String, sketch: &Sketch, predictor: &Predictor, weaker: bool, runs: Option<String>) {
    let class = match (predictor.rank, weaker) {
        (1, _) => " class=\"best\"",
        (_, true) => " class=\"weaker\"",
        _ => "",
    };
    let runs = runs.map(|address| format!(" <a class=\"runs\" href=\"{}\">runs</a>", escaped(&address)));
    let _ = writeln!(
        out,
        "<tr{class}><td class=\"num\" data-s=\"{0}\">{0}</td><td class=\"kind\">{1}</td><td>{2}{3}{13}</td>\
         <td class=\"num\" data-h=\"failing\" data-s=\"{4}\">{4} of {5}</td>\
         <td class=\"num\" data-h=\"successful\" data-s=\"{6}\">{6} of {7}</td>\
         <td class=\"num\" data-h=\"F\" data-s=\"{8}\">{8:.2}</td>\
         <td class=\"num\" data-h=\"precision\" data-s=\"{9}\">{9:.2} <span class=\"soft\">{10}</span></td>\
         <td class=\"num\" data-h=\"recall\" data-s=\"{11}\">{11:.2} <span class=\"soft\">{12}</span></td></tr>",
        predictor.rank,
        escaped(&kind(predictor)),
        phrase(&words::predictor(sketch, predictor)),
        runs.unwrap_or_default(),
        predictor.failing_with,
        predictor.failing,
        predictor.successful_with,
        predictor.successful,
        predictor.f,
        predictor.precision,
        interval(predictor.precision_interval),
        predictor.recall,
        interval(predictor.recall_interval),
        places(predictor)
    );
}

/// Where, in the order in which it happens: two predictors may read the same otherwise.
fn places(predictor: &Predictor) -> String {
    let waits = waits(predictor);
    if !waits.is_empty() {
        let wait = |(wait, held): &(&PredictorStatement, &PredictorStatement)| {
            let (at, since) = (view::place(&wait.statement), view::place(&held.statement));
            format!("{at} waits for {since}")
        };
        let waits: Vec<String> = waits.iter().map(wait).collect();
        return format!("<small class=\"at\">{}</small>", escaped(&waits.join(", ")));
    }
    let places = predictor.statements.iter().chain(&predictor.missing);
    let places: Vec<String> = places.map(|place| view::place(&place.statement)).collect();
    format!("<small class=\"at\">{}</small>", escaped(&places.join(" → ")))
}

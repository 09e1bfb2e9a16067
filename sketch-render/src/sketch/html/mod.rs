//! One self-contained HTML file: no request to anywhere, readable without its script, which only adds arrows and
//! ways to follow things. Style and script are allowed by their hashes and nothing else is.

mod lanes;
mod markup;
mod predictors;
mod sources;
mod values;

use std::fmt::Write as _;

use diagnosis::sketch::{Predictor, Sketch};

use self::markup::{escaped, phrase};
use super::names::short;
use super::{view, words};
use crate::text::{base_name, plain_start};

/// What the parts look like.
pub const STYLE: &str = include_str!("page.css");
/// What adds arrows and ways to follow things. Told that the parts were replaced (an event `sketch` of the document), it begins anew.
pub const SCRIPT: &str = include_str!("page.js");
/// SHA-256 of the style and the script in base64; a test compares them with what Python says.
pub(crate) const STYLE_HASH: &str = "CNGLxuI1cx5tnlYhEA2vUi24iCicIZ5Cb6XI+jMcMOg=";
pub(crate) const SCRIPT_HASH: &str = "l2akWVJ6X1JMfIXrwe5hprnXGK1P/hl6Wg/P8fOZ9WE=";

/// Notes and messages may come from elsewhere.
const LONGEST_NOTE: usize = 2000;

/// A sketch as an HTML page.
#[must_use]
pub fn html(sketch: &Sketch) -> String {
    let mut out = String::with_capacity(64 << 10);
    head(&mut out, sketch);
    out.push_str("<body>\n<header>\n");
    let _ = writeln!(out, "<h1>{}</h1>", sentence(sketch));
    failure(&mut out, sketch);
    facts(&mut out, sketch);
    out.push_str("</header>\n<main>\n");
    lanes::section(&mut out, sketch);
    predictors::sides_section(&mut out, sketch);
    predictors::table_section(&mut out, sketch, &|_| None);
    missing(&mut out, sketch);
    values::section(&mut out, sketch);
    sources::section(&mut out, sketch);
    sources::stacks(&mut out, sketch);
    out.push_str("</main>\n");
    if !sketch.steps.is_empty() {
        let _ = writeln!(out, "<script>{SCRIPT}</script>");
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// The parts of the page as markup, for pages that have more to say. Each is empty where there is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// What happened, for a heading.
    pub sentence: String,
    /// How and where it failed, in paragraphs.
    pub failure: String,
    /// What is missing.
    pub missing: String,
    /// The lanes.
    pub lanes: String,
    /// A failing and a successful run beside one another.
    pub sides: String,
    /// The table of predictors.
    pub predictors: String,
    /// The history of each variable.
    pub values: String,
    /// Source text.
    pub sources: String,
    /// Stacks.
    pub stacks: String,
}

/// The parts of a sketch's page; `runs` gives the address of a page about the runs behind a predictor.
#[must_use]
pub fn parts(sketch: &Sketch, runs: &dyn Fn(&Predictor) -> Option<String>) -> Parts {
    let part = |write: &dyn Fn(&mut String)| {
        let mut out = String::new();
        write(&mut out);
        out
    };
    Parts {
        sentence: sentence(sketch),
        failure: part(&|out| failure(out, sketch)),
        missing: part(&|out| missing(out, sketch)),
        lanes: part(&|out| lanes::section(out, sketch)),
        sides: part(&|out| predictors::sides_section(out, sketch)),
        predictors: part(&|out| predictors::table_section(out, sketch, runs)),
        values: part(&|out| values::section(out, sketch)),
        sources: part(&|out| sources::section(out, sketch)),
        stacks: part(&|out| sources::stacks(out, sketch)),
    }
}

/// What the page lets a browser do: as a header, for whoever serves it.
#[must_use]
pub fn policy() -> String {
    format!(
        "default-src 'none'; style-src 'sha256-{STYLE_HASH}'; script-src 'sha256-{SCRIPT_HASH}'; base-uri 'none'; \
         form-action 'none'"
    )
}

/// A sentence with its code as code, as markup.
#[must_use]
pub fn phrased(sentence: &words::Phrase) -> String {
    phrase(sentence)
}

fn head(out: &mut String, sketch: &Sketch) {
    let title = escaped(&plain_start(&words::sentence(sketch).plain(), 200));
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n",
        policy()
    );
}

fn sentence(sketch: &Sketch) -> String {
    let (what, rest) = words::headline(sketch);
    format!("{} <span class=\"count\">{}</span>", phrase(&what), phrase(&rest))
}

fn failure(out: &mut String, sketch: &Sketch) {
    let _ = write!(
        out,
        "<p><span class=\"fail\">{}</span>",
        escaped(&view::failure_kind(sketch))
    );
    if let Some(at) = &sketch.failure.statement {
        let function = short(&at.function, 100);
        let whole = plain_start(&at.function, LONGEST_NOTE);
        let _ = write!(
            out,
            " at <code title=\"{}\">{}</code> ({})",
            escaped(&whole),
            escaped(&function),
            escaped(&view::place(at))
        );
    }
    if let Some(addr) = view::fault(sketch.failure.signal.as_deref(), sketch.failure.fault_address) {
        let _ = write!(out, ", address <code>{addr:#x}</code>");
    }
    out.push_str("</p>\n");
    if let Some(message) = &sketch.failure.message {
        let text = plain_start(message, LONGEST_NOTE);
        let _ = writeln!(out, "<p class=\"message mono\">{}</p>", escaped(&text));
    }
}

fn facts(out: &mut String, sketch: &Sketch) {
    let mut facts = vec![("program", short(base_name(&sketch.program.name), 80))];
    let ids = [("build", &sketch.program.build_id), ("bug", &sketch.bug)];
    for (name, id) in ids {
        facts.extend(id.as_deref().map(|id| (name, plain_start(id, 40))));
    }
    if view::is_static(sketch) {
        facts.push(("runs", "none was watched".to_owned()));
    } else {
        facts.push(("failing runs", sketch.runs.failing.to_string()));
        facts.push(("successful runs", sketch.runs.successful.to_string()));
        facts.push(("statements tracked", sketch.sigma.to_string()));
        facts.push(("control flow", plain_start(&sketch.backends.control_flow, 40)));
        facts.push(("data flow", plain_start(&sketch.backends.data_flow, 40)));
    }
    out.push_str("<p class=\"facts\">");
    for (name, value) in facts {
        let _ = write!(out, "<span>{name} <b>{}</b></span> ", escaped(&value));
    }
    out.push_str("</p>\n");
}

fn missing(out: &mut String, sketch: &Sketch) {
    let lists = [
        ("What is missing", &sketch.gaps),
        ("To judge it by", &sketch.notes),
    ];
    if lists.iter().all(|(_, items)| items.is_empty()) {
        return;
    }
    out.push_str("<section class=\"missing\">\n");
    for (name, items) in lists.iter().filter(|(_, items)| !items.is_empty()) {
        let _ = writeln!(out, "<h2>{name}</h2>\n<ul>");
        for item in *items {
            let _ = writeln!(out, "<li>{}</li>", escaped(&plain_start(item, LONGEST_NOTE)));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</section>\n");
}

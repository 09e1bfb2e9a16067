//! Annotations: lines that GitHub Actions turns into marks beside the source.

use std::fmt::Write as _;

use diagnosis::sketch::{Sketch, StatementRef};

use super::{view, words};
use crate::text::plain_start;

/// An error at the failing statement, a notice at each other statement of the best predictor.
#[must_use]
pub fn annotations(sketch: &Sketch) -> String {
    let mut out = String::new();
    let sentence = words::sentence(sketch).plain();
    let title = format!("failsketch: {}", view::failure_kind(sketch));
    let failing = sketch.failure.statement.as_ref();
    line(&mut out, "error", failing, &title, &sentence);
    let Some(best) = sketch.predictors.first() else {
        return out;
    };
    let mut told: Vec<(&Option<String>, Option<u32>)> = Vec::new();
    if let Some(at) = failing {
        told.push((&at.file, at.line));
    }
    for item in &best.statements {
        let place = (&item.statement.file, item.statement.line);
        if !told.contains(&place) {
            told.push(place);
            let role = view::role(&item.thread_role, 100);
            let access = item.access.map_or("runs this", |access| match access {
                diagnosis::run::AccessKind::Read => "reads here",
                diagnosis::run::AccessKind::Write => "writes here",
                diagnosis::run::AccessKind::ReadWrite => "reads and writes here",
            });
            let text = format!("{role} {access}: {sentence}");
            line(
                &mut out,
                "notice",
                Some(&item.statement),
                "failsketch: part of the cause",
                &text,
            );
        }
    }
    out
}

fn line(out: &mut String, level: &str, at: Option<&StatementRef>, title: &str, text: &str) {
    let _ = write!(out, "::{level} ");
    if let Some((file, number)) = at.and_then(|at| Some((at.file.as_deref()?, at.line?))) {
        let _ = write!(out, "file={},line={number},", property(&plain_start(file, 1000)));
    }
    let _ = writeln!(out, "title={}::{}", property(title), data(text));
}

/// What Actions reads as a line end or an escape must be escaped.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// In front of the message a colon and a comma have a meaning too.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_a_property_or_a_line() {
        assert_eq!(property("a,b:c%\n"), "a%2Cb%3Ac%25%0A");
    }
}

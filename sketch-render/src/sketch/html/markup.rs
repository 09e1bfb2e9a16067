//! Text inside markup.

use std::fmt::Write as _;

use diagnosis::sketch::Step;

use crate::sketch::names::short;
use crate::sketch::view;
use crate::sketch::words::{Phrase, Piece};
use crate::text::plain_start;

/// Columns of a variable's name in the page; the whole name is its title.
const NAME: usize = 60;
/// Characters of a title.
const TITLE: usize = 2000;

/// Text that is no markup, in content and in quoted attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// A sentence with its code as code.
pub(super) fn phrase(phrase: &Phrase) -> String {
    let pieces = phrase.0.iter().map(|piece| match piece {
        Piece::Text(text) => escaped(text),
        Piece::Code(code) => format!("<code>{}</code>", escaped(code)),
    });
    pieces.collect()
}

/// A name that may be long: cut, with the whole of it as title.
pub(super) fn name(text: &str, columns: usize) -> String {
    let shown = short(text, columns);
    if shown == text {
        return escaped(text);
    }
    let whole = escaped(&plain_start(text, TITLE));
    format!("<span title=\"{whole}\">{}</span>", escaped(&shown))
}

/// `queue_take compress.c:82`.
pub(super) fn place(statement: &diagnosis::sketch::StatementRef) -> String {
    format!(
        "{} {}",
        name(&statement.function, NAME),
        escaped(&view::place(statement))
    )
}

/// What a step did to its variable, which can be followed or not.
pub(super) fn effect(step: &Step, follow: bool) -> String {
    let mut out = String::new();
    if let Some(access) = step.access {
        let letter = view::letter(access);
        let _ = write!(out, "<span class=\"acc {letter}\">{letter}</span> ");
    }
    match (&step.variable, follow) {
        (Some(variable), true) => {
            let _ = write!(
                out,
                "<button class=\"follow mono\">{}</button>",
                name(variable, NAME)
            );
        }
        (Some(variable), false) => {
            let _ = write!(out, "<code>{}</code>", name(variable, NAME));
        }
        (None, _) if step.access.is_some() => out.push_str("<span class=\"soft\">unnamed</span>"),
        (None, _) => {}
    }
    match &step.value {
        Some(value) => {
            let equals = if out.is_empty() { "" } else { " = " };
            let _ = write!(
                out,
                "{equals}<code class=\"val\">{}</code>",
                escaped(&view::value(value))
            );
        }
        None if step.access.is_some() => {
            out.push_str(" = <span class=\"unk\" title=\"not known\">?</span>");
        }
        None => {}
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_is_markup() {
        assert_eq!(
            escaped("</script a=\"b\" c='d'>&"),
            "&lt;/script a=&quot;b&quot; c=&#39;d&#39;&gt;&amp;"
        );
    }
}

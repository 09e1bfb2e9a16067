//! Version 1 of the contract; `schema/sketch-v1.schema.json` describes it.

use std::fmt::Write as _;

use diagnosis::sketch::Sketch;
use serde::Serialize;

use crate::text::is_active;

/// The sketch as JSON.
///
/// # Errors
/// Never, for a sketch; serialisation is fallible by its signature.
pub fn json(sketch: &Sketch) -> Result<String, serde_json::Error> {
    pretty(sketch)
}

/// Pretty JSON, and a line end. Whatever a terminal or an editor would obey rather than show is escaped: outside
/// strings JSON is plain ASCII, so this can be done to the finished text.
pub(crate) fn pretty<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let mut text = inert(serde_json::to_string_pretty(value)?, is_active);
    text.push('\n');
    Ok(text)
}

/// JSON with some characters of its strings written as escapes.
pub(crate) fn inert(text: String, escaped: impl Fn(char) -> bool) -> String {
    let escaped = |c: char| c != '\n' && escaped(c);
    if !text.contains(escaped) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if escaped(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_means_the_same() {
        let name = "a\u{9b}31m\u{202e}\u{7f}\u{e0041}é";
        let text = pretty(&name).unwrap();
        assert_eq!(text, "\"a\\u009b31m\\u202e\\u007f\\udb40\\udc41é\"\n");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), name);
    }
}

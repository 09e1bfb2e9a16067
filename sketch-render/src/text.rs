//! Making text from elsewhere harmless and making it fit.
//!
//! Symbol names, paths, messages and source lines come from files that somebody else wrote. On a terminal an
//! escape sequence or a right-to-left mark in a name could rewrite what the reader sees.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Text without anything that moves the cursor, changes direction or breaks the line. Tabs become spaces.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            _ if c.is_control() || is_format(c) => '\u{fffd}',
            _ => c,
        })
        .collect()
}

/// Invisible characters that change how their neighbours are shown.
fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}')
}

/// How many terminal columns a text takes.
#[must_use]
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// A text cut to a number of columns, with `…` where something is missing at the end.
#[must_use]
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut taken = 0;
    let mut short = String::new();
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if taken + wide + 1 > columns {
            break;
        }
        taken += wide;
        short.push(c);
    }
    short.push('…');
    short
}

/// A text padded with spaces to a number of columns (or cut to them).
#[must_use]
pub fn pad(text: &str, columns: usize) -> String {
    let mut text = cut(text, columns);
    let missing = columns.saturating_sub(width(&text));
    text.extend(std::iter::repeat_n(' ', missing));
    text
}

/// The last part of a path.
#[must_use]
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_direction_marks_are_shown_not_obeyed() {
        assert_eq!(plain("a\u{1b}[31mb\u{202e}c\td"), "a\u{fffd}[31mb\u{fffd}c d");
    }

    #[test]
    fn cutting_counts_columns_not_bytes() {
        assert_eq!(cut("日本語テキスト", 7), "日本語…");
        assert_eq!(cut("short", 5), "short");
        assert_eq!(pad("ab", 4), "ab  ");
    }
}

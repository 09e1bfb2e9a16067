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
            _ if is_active(c) => '\u{fffd}',
            _ => c,
        })
        .collect()
}

/// Whether a character does something to its surroundings instead of being shown: control characters, and
/// invisible ones that change how their neighbours look (direction marks, joiners, tags, line separators).
#[must_use]
pub fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// [`plain`] text of at most so many characters, with `…` where something is missing: what somebody else wrote may
/// be a megabyte.
#[must_use]
pub fn plain_start(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => plain(text.get(..end).unwrap_or(text)) + "…",
        None => plain(text),
    }
}

/// A text in lines of at most so many columns, broken at spaces where there are some.
#[must_use]
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(8);
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut word = word;
        loop {
            let line = lines.last_mut().expect("there is a line");
            let used = width(line) + usize::from(!line.is_empty());
            if used + width(word) <= columns {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
                break;
            }
            if line.is_empty() {
                let end = fitting(word, columns);
                let (head, tail) = word.split_at(end);
                line.push_str(head);
                word = tail;
            }
            lines.push(String::new());
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

/// The bytes of the longest beginning that fits into so many columns; at least one character.
pub(crate) fn fitting(text: &str, columns: usize) -> usize {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += c.width().unwrap_or(0);
        if taken > columns && at > 0 {
            return at;
        }
    }
    text.len()
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
    fn wrapping_keeps_every_word_and_breaks_only_those_that_are_too_long() {
        assert_eq!(wrap("one two  three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefghijkl m", 8), ["abcdefgh", "ijkl m"]);
        assert!(wrap("", 8).is_empty());
    }

    #[test]
    fn cutting_counts_columns_not_bytes() {
        assert_eq!(cut("日本語テキスト", 7), "日本語…");
        assert_eq!(cut("short", 5), "short");
        assert_eq!(pad("ab", 4), "ab  ");
    }
}

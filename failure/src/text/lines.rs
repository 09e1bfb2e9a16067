//! Bytes into clean lines: decoded, bounded, without colours and without what a log put in front.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::prefix;

/// Longer lines are cut here: no frame of any format comes near it.
const LONGEST_LINE: usize = 64 * 1024;

/// One line without its log prefix and trailing white space; leading white space is kept.
#[derive(Clone, Debug)]
pub(super) struct Line<'a>(Cow<'a, str>);

impl Line<'_> {
    /// The text without indentation.
    pub fn text(&self) -> &str {
        self.0.trim_start()
    }

    /// How many characters of white space precede the text; a tab counts as eight.
    pub fn indent(&self) -> usize {
        let leading = self.0.bytes().take_while(|byte| matches!(byte, b' ' | b'\t'));
        leading.map(|byte| if byte == b'\t' { 8 } else { 1 }).sum()
    }

    pub fn is_blank(&self) -> bool {
        self.text().is_empty()
    }
}

/// The lines of a text, read one at a time with a few lines of lookahead.
pub(super) struct Lines<'a> {
    rest: Option<&'a [u8]>,
    ahead: VecDeque<Line<'a>>,
    /// How many lines were handed out.
    pub read: usize,
    /// How many lines were longer than what is looked at.
    pub cut: usize,
}

impl<'a> Lines<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: Some(bytes),
            ahead: VecDeque::new(),
            read: 0,
            cut: 0,
        }
    }

    /// The next line, which is consumed.
    pub fn next_line(&mut self) -> Option<Line<'a>> {
        let line = self.ahead.pop_front().or_else(|| self.fetch())?;
        self.read += 1;
        Some(line)
    }

    /// The line after the ones consumed so far, left where it is.
    pub fn peek(&mut self) -> Option<&Line<'a>> {
        if self.ahead.is_empty() {
            let line = self.fetch()?;
            self.ahead.push_back(line);
        }
        self.ahead.front()
    }

    fn fetch(&mut self) -> Option<Line<'a>> {
        let bytes = self.rest.take()?;
        let line = match memchr::memchr(b'\n', bytes) {
            Some(end) => {
                let (line, rest) = bytes.split_at_checked(end)?;
                self.rest = rest.get(1..);
                line
            }
            None if bytes.is_empty() => return None,
            None => bytes,
        };
        let bounded = match line.get(..LONGEST_LINE) {
            Some(start) if line.len() > LONGEST_LINE => {
                self.cut += 1;
                start
            }
            _ => line,
        };
        Some(clean(bounded))
    }
}

fn clean(bytes: &[u8]) -> Line<'_> {
    if bytes.is_empty() {
        return Line(Cow::Borrowed(""));
    }
    let text = match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) if !needs_rewriting(text) => Cow::Borrowed(text),
        text => Cow::Owned(without_controls(&text)),
    };
    Line(match text {
        Cow::Borrowed(text) => Cow::Borrowed(prefix::strip(text.trim_end())),
        Cow::Owned(text) => Cow::Owned(prefix::strip(text.trim_end()).to_owned()),
    })
}

fn needs_rewriting(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t')
}

/// Drops terminal escape sequences and control characters. `#033` is how rsyslog writes an escape.
fn without_controls(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' if chars.peek() == Some(&'[') => {
                chars.next();
                // A control sequence ends with its first byte in 0x40..=0x7e.
                for inside in chars.by_ref() {
                    if ('\u{40}'..='\u{7e}').contains(&inside) {
                        break;
                    }
                }
            }
            '\t' => clean.push('\t'),
            _ if char.is_control() => {}
            _ => clean.push(char),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<String> {
        let mut lines = Lines::new(bytes);
        std::iter::from_fn(|| lines.next_line().map(|line| line.0.into_owned())).collect()
    }

    #[test]
    fn colours_and_line_ends_go() {
        assert_eq!(
            all(b"\x1b[1m\x1b[31mred\x1b[0m\r\n\tin\r\n\nlast"),
            ["red", "\tin", "", "last"]
        );
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut lines = Lines::new(&[b'('; 300_000]);
        assert_eq!(lines.next_line().unwrap().text().len(), LONGEST_LINE);
        assert_eq!(lines.cut, 1);
        assert!(lines.next_line().is_none());
    }

    #[test]
    fn bytes_that_are_not_text_stay_lines() {
        assert_eq!(all(b"\xff#0\n\xf0\x9f").len(), 2);
    }
}

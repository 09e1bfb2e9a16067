//! Small scanners over one line, shared by the formats.

use crate::report::Location;

/// Splits off a leading decimal number.
pub(super) fn decimal(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

/// Splits off a leading hexadecimal number without prefix.
pub(super) fn bare_hex(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    let (digits, rest) = text.split_at_checked(end)?;
    Some((u64::from_str_radix(digits, 16).ok()?, rest))
}

/// Splits off a leading `0x…` number.
pub(super) fn hex(text: &str) -> Option<(u64, &str)> {
    bare_hex(text.strip_prefix("0x")?)
}

/// A number that fills the whole text: `0x1d` or `29`.
pub(super) fn whole_number(text: &str) -> Option<u64> {
    let (value, rest) = hex(text).or_else(|| decimal(text))?;
    rest.is_empty().then_some(value)
}

/// The leading `#N` of a numbered frame and what follows it.
pub(super) fn frame_number(text: &str) -> Option<(u64, &str)> {
    let (number, rest) = decimal(text.strip_prefix('#')?)?;
    let body = rest.trim_start();
    (body.len() < rest.len()).then_some((number, body))
}

/// Reads `file:line` or `file:line:column`; the file must not be empty.
pub(super) fn location(text: &str) -> Option<Location> {
    let text = text.trim();
    let (head, last) = split_trailing_number(text)?;
    match split_trailing_number(head) {
        Some((file, line)) => Some(Location {
            file: file.to_owned(),
            line,
            column: Some(last),
        }),
        None => Some(Location {
            file: head.to_owned(),
            line: last,
            column: None,
        }),
    }
}

fn split_trailing_number(text: &str) -> Option<(&str, u32)> {
    let (head, digits) = text.rsplit_once(':')?;
    let number = digits
        .parse()
        .ok()
        .filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    (!head.is_empty()).then_some((head, number))
}

/// Walks over text that contains string and character literals, yielding only the bytes outside them.
///
/// An apostrophe opens a literal only where one closes it right after (`'('`, `'\000'`): Rust lifetimes
/// and `digit'separators` have no partner.
pub(super) fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, u8)> + '_ {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let byte = *bytes.get(at)?;
            let start = at;
            at += 1;
            match byte {
                b'"' => at = end_of_string(bytes, at),
                b'\'' => match end_of_char(bytes, at) {
                    Some(end) => at = end,
                    None => return Some((start, byte)),
                },
                _ => return Some((start, byte)),
            }
        }
    })
}

fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    bytes.len()
}

fn end_of_char(bytes: &[u8], at: usize) -> Option<usize> {
    let longest = match bytes.get(at)? {
        b'\\' => 5,
        _ => 1,
    };
    let window = bytes.get(at + 1..bytes.len().min(at + 1 + longest))?;
    window
        .iter()
        .position(|&byte| byte == b'\'')
        .map(|offset| at + offset + 2)
}

/// Whether every parenthesis opened outside literals is closed again.
pub(super) fn balanced(text: &str) -> bool {
    let mut depth = 0usize;
    for (_, byte) in outside_quotes(text) {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth == 0
}

/// For text ending in `)`: where the parenthesis that this one closes stands.
pub(super) fn opening_of_last(text: &str) -> Option<usize> {
    if !text.ends_with(')') {
        return None;
    }
    let mut open = Vec::new();
    let mut last = None;
    for (at, byte) in outside_quotes(text) {
        match byte {
            b'(' => open.push(at),
            b')' => last = open.pop().map(|start| (start, at)),
            _ => {}
        }
    }
    last.filter(|&(_, end)| end + 1 == text.len())
        .map(|(start, _)| start)
}

/// Strips a trailing `(…)` group whose content satisfies `wanted`, returning what is before and the content.
pub(super) fn trailing_group(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_end();
    let body = text.strip_suffix(')')?;
    let open = body.rfind('(')?;
    Some((body.get(..open)?.trim_end(), body.get(open + 1..)?))
}

/// The last component of a path.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_with_and_without_column() {
        let with = location("/src/app/a b.c:12:3").unwrap();
        assert_eq!(
            (with.file.as_str(), with.line, with.column),
            ("/src/app/a b.c", 12, Some(3))
        );
        let without = location("a.c:12").unwrap();
        assert_eq!(
            (without.file.as_str(), without.line, without.column),
            ("a.c", 12, None)
        );
        assert_eq!(location(":12"), None);
        assert_eq!(location("a.c:99999999999"), None);
        assert_eq!(location("a.c:+1"), None);
    }

    #[test]
    fn literals_hide_parentheses() {
        assert!(balanced(r#"f (s=0x1 "a(b\"(", c=40 '(', d=0 '\000')"#));
        assert!(!balanced("f (s=0x1"));
        assert_eq!(opening_of_last("f<void (int)> (x=\"(\")"), Some(14));
        assert!(balanced("<impl Fn<&'a T> for X>::call ()"));
    }
}

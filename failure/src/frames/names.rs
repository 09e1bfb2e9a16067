//! Symbol names reduced to a plain path: no module, version, hash, parameters or template arguments.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// A plain name, or for `<Type as Trait>::method` the two paths it belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    /// `core::panicking::panic_fmt`, `abort`; for a method of a trait's implementation, the type's path.
    pub path: String,
    /// The trait of an implementation.
    pub of_trait: Option<String>,
}

/// Names are looked at up to here; demangled Rust names can be much longer than mangled ones.
const LONGEST: usize = 1024;

pub(crate) fn plain(symbol: &str) -> Plain {
    let symbol = without_module(symbol.trim());
    let symbol = symbol
        .get(..symbol.floor_char_boundary(LONGEST))
        .unwrap_or(symbol);
    let name = demangled(symbol);
    let name = without_suffixes(&name);
    match name.strip_prefix('<') {
        Some(rest) => implementation(rest),
        None => Plain {
            path: path(name),
            of_trait: None,
        },
    }
}

/// ``libc.so.6`abort``, `libc.so.6!abort` and `/lib/libc.so.6(abort+0xd3)`.
fn without_module(symbol: &str) -> &str {
    if symbol.starts_with(['/', '.'])
        && let Some(inside) = symbol
            .split_once('(')
            .and_then(|(_, rest)| rest.split(')').next())
    {
        return inside;
    }
    match symbol.split_once(['`', '!']) {
        Some((module, name)) if module.contains(".so") || module.starts_with('/') => name,
        _ => symbol,
    }
}

fn demangled(symbol: &str) -> Cow<'_, str> {
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        let mut text = Bounded(String::new());
        // Stopping at the limit is fine: only the beginning of a name is looked at.
        let _ = write!(text, "{name:#}");
        return Cow::Owned(text.0);
    }
    match symbol.strip_prefix("_Z").and_then(itanium_path) {
        Some(path) => Cow::Owned(path),
        None => Cow::Borrowed(symbol),
    }
}

struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// The leading identifiers of an Itanium-mangled name. Enough to know whose name it is, and linear, which
/// full demangling is not.
fn itanium_path(mangled: &str) -> Option<String> {
    for (code, name) in [
        ("nw", "operator new"),
        ("na", "operator new[]"),
        ("dl", "operator delete"),
        ("da", "operator delete[]"),
    ] {
        if mangled.starts_with(code) {
            return Some(name.to_owned());
        }
    }
    let mut path = String::new();
    let mut rest = mangled;
    rest = rest.strip_prefix('N').unwrap_or(rest);
    rest = rest.trim_start_matches(['K', 'V', 'r', 'R', 'O']);
    for (code, name) in [
        ("St", "std"),
        ("Sa", "std::allocator"),
        ("Ss", "std::string"),
        ("Sb", "std::basic_string"),
    ] {
        if let Some(after) = rest.strip_prefix(code) {
            path.push_str(name);
            rest = after;
            break;
        }
    }
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Some(length) = rest.get(..digits).and_then(|digits| digits.parse::<usize>().ok()) else {
            break;
        };
        let Some(name) = rest.get(digits..).and_then(|rest| rest.get(..length)) else {
            break;
        };
        if !path.is_empty() {
            path.push_str("::");
        }
        path.push_str(name);
        rest = rest.get(digits + length..)?;
    }
    (!path.is_empty()).then_some(path)
}

/// Symbol versions, offsets, compiler clones, Rust's hash.
fn without_suffixes(name: &str) -> &str {
    let mut name = name;
    for mark in ["@", " [clone "] {
        name = name.split_once(mark).map_or(name, |(head, _)| head);
    }
    if let Some((head, offset)) = name.rsplit_once('+')
        && !offset.is_empty()
        && offset
            .strip_prefix("0x")
            .unwrap_or(offset)
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit())
    {
        name = head;
    }
    if let Some((head, hash)) = name.rsplit_once("::h")
        && hash.len() == 16
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        name = head;
    }
    match name.find('.') {
        Some(at) if at > 0 && !name.contains("::") => name.get(..at).unwrap_or(name),
        _ => name,
    }
}

/// `Type as Trait>::method`, with the opening bracket already gone.
fn implementation(rest: &str) -> Plain {
    let mut depth = 1usize;
    let mut end = rest.len();
    let mut previous = 0;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            // The arrow of a function type closes nothing.
            b'>' if previous != b'-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            end = at;
            break;
        }
        previous = byte;
    }
    let inside = rest.get(..end).unwrap_or(rest);
    let (kind, of_trait) = match split_as(inside) {
        Some((kind, of_trait)) => (kind, Some(path(of_trait))),
        None => (inside, None),
    };
    let kind = kind
        .trim_start_matches(['&', '*'])
        .trim_start_matches("mut ")
        .trim_start_matches("dyn ");
    let method = rest.get(end + 1..).unwrap_or_default();
    let kind = match kind.strip_prefix('<') {
        Some(inner) => implementation(inner).path,
        None => path(kind),
    };
    Plain {
        path: if of_trait.is_some() {
            kind
        } else {
            join(&kind, method)
        },
        of_trait,
    }
}

fn join(kind: &str, method: &str) -> String {
    path(&format!("{kind}{method}"))
}

/// Splits at the ` as ` that is not inside a nested type.
fn split_as(inside: &str) -> Option<(&str, &str)> {
    let mut depth = 0i64;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' => depth += 1,
            b'>' | b')' | b']' => depth -= 1,
            b' ' if depth == 0 => {
                let rest = inside.get(at..)?;
                if let Some(of_trait) = rest.strip_prefix(" as ") {
                    return Some((inside.get(..at)?, of_trait));
                }
            }
            _ => {}
        }
    }
    None
}

/// Drops everything in brackets, a return type in front and qualifiers behind.
fn path(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut depth = 0usize;
    let mut rest = name;
    while let Some(char) = rest.chars().next() {
        let after = rest.get(char.len_utf8()..).unwrap_or_default();
        if depth == 0 && plain.ends_with("operator") && !char.is_alphanumeric() && char != ' ' {
            // The brackets of `operator<`, `operator()` and `operator[]` are its name.
            let taken = [
                "()", "[]", "<<=", ">>=", "<=>", "->*", "<<", ">>", "->", "<=", ">=",
            ]
            .iter()
            .find(|symbol| rest.starts_with(**symbol))
            .map_or(char.len_utf8(), |symbol| symbol.len());
            plain.push_str(rest.get(..taken).unwrap_or_default());
            rest = rest.get(taken..).unwrap_or_default();
            continue;
        }
        match char {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(char),
            _ => {}
        }
        rest = after;
    }
    let plain = plain.replace("::::", "::");
    let plain = plain
        .trim()
        .trim_end_matches(" const")
        .trim_end_matches(['&', ' '])
        .trim_end_matches("::");
    let start = match plain.rfind(' ') {
        Some(at) if !plain.get(..at).is_some_and(|head| head.ends_with("operator")) => at + 1,
        _ => 0,
    };
    plain.get(start..).unwrap_or(plain).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(symbol: &str, expected: &str) {
        assert_eq!(plain(symbol).path, expected, "{symbol}");
    }

    #[test]
    fn paths() {
        check("void foo::bar<int, std::less<int> >(int) const", "foo::bar");
        check("Job::operator()(int) const", "Job::operator()");
        check("a::operator<< <int>(b)", "a::operator<<");
        check("operator new[](unsigned long)", "operator new");
        check(
            "<core[c1f1a4ba060b9bfa]::fmt::rt::Argument>::fmt",
            "core::fmt::rt::Argument::fmt",
        );
        check(
            "core::slice::index::<impl core::ops::index::Index<I> for [T]>::index",
            "core::slice::index::index",
        );
        check(
            "std[e28293b1aa0f68bd]::rt::lang_start_internal::{closure#0}",
            "std::rt::lang_start_internal::{closure#0}",
        );
        check("_int_free.part.0", "_int_free");
    }

    #[test]
    fn implementations() {
        let name = plain("<alloc::vec::Vec<T,A> as core::ops::index::Index<I>>::index");
        assert_eq!(
            (name.path.as_str(), name.of_trait.as_deref()),
            ("alloc::vec::Vec", Some("core::ops::index::Index"))
        );
        let name = plain("<<app::A as app::B>::C as core::fmt::Display>::fmt");
        assert_eq!(
            (name.path.as_str(), name.of_trait.as_deref()),
            ("app::A", Some("core::fmt::Display"))
        );
    }
}

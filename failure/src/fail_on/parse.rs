//! Reading the expression.

use regex::bytes::RegexBuilder;
use thiserror::Error;

use super::{Comparison, Pattern, Stream, Term};
use crate::report::Signal;
use crate::text::signal_by_name;

/// What is wrong with an expression.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FailOnError {
    /// Nothing between the separators.
    #[error("a term is missing in `{0}`: give one such as `signal`, `hang`, `exit!=0` or `stderr~REGEX`")]
    Empty(String),
    /// A word that is none of the terms.
    #[error(
        "`{0}` is no term: use `signal`, `signal=SEGV`, `abort`, `hang`, `exit=N`, `exit!=N`, `stdout~REGEX` or \
         `stderr~REGEX`"
    )]
    Unknown(String),
    /// A status that is none.
    #[error("`{0}` is no exit status: they are the numbers from 0 to 255")]
    Status(String),
    /// A signal that is none.
    #[error("`{0}` is no signal: use a name such as SEGV or ABRT, or a number from 1 to 64")]
    Signal(String),
    /// A regular expression without its end.
    #[error("the regular expression `{0}` has no closing {1}")]
    Unclosed(String, char),
    /// A regular expression that cannot be read.
    #[error("`{regex}` is no regular expression: {why}")]
    Regex {
        /// The expression.
        regex: String,
        /// What is wrong with it, in one line.
        why: String,
    },
}

pub(super) fn terms(text: &str) -> Result<Vec<Term>, FailOnError> {
    let mut terms = Vec::new();
    let mut rest = text;
    loop {
        let (term, after) = term(rest, text)?;
        terms.push(term);
        let after = after.trim_start();
        match after.strip_prefix([',', '|']) {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(terms),
            None => return Err(FailOnError::Unknown(after.to_owned())),
        }
    }
}

/// The first term and what comes after it.
fn term<'t>(rest: &'t str, whole: &str) -> Result<(Term, &'t str), FailOnError> {
    let rest = rest.trim_start();
    if let Some((stream, wanted, regex)) = output(rest) {
        let (regex, after) = delimited(regex)?;
        let pattern = pattern(stream, wanted, regex)?;
        return Ok((Term::Output(pattern), after));
    }
    let end = rest.find([',', '|']).unwrap_or(rest.len());
    let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
    match word.trim() {
        "" => Err(FailOnError::Empty(whole.to_owned())),
        word => Ok((simple(word)?, after)),
    }
}

fn output(text: &str) -> Option<(Stream, bool, &str)> {
    let (stream, rest) = match text.strip_prefix("stdout") {
        Some(rest) => (Stream::Stdout, rest),
        None => (Stream::Stderr, text.strip_prefix("stderr")?),
    };
    let rest = rest.trim_start();
    match rest.strip_prefix("!~") {
        Some(regex) => Some((stream, false, regex.trim_start())),
        None => Some((stream, true, rest.strip_prefix('~')?.trim_start())),
    }
}

/// A regular expression, and what comes after it.
fn delimited(text: &str) -> Result<(&str, &str), FailOnError> {
    if let Some(quote) = text.chars().next().filter(|first| "/'\"".contains(*first)) {
        let inside = text.get(1..).unwrap_or_default();
        // A slash may stand in it as `\/`, which is a slash for the regular expression too.
        let escaped = |at: usize| inside.get(..at).is_some_and(|before| before.ends_with('\\'));
        let end = inside
            .match_indices(quote)
            .map(|(at, _)| at)
            .find(|&at| !escaped(at))
            .ok_or_else(|| FailOnError::Unclosed(text.to_owned(), quote))?;
        let (regex, after) = inside.split_at_checked(end).unwrap_or((inside, ""));
        return Ok((regex, after.get(1..).unwrap_or_default()));
    }
    let end = text
        .match_indices([',', '|'])
        .map(|(at, _)| at)
        .find(|&at| text.get(at + 1..).is_some_and(starts_a_term))
        .unwrap_or(text.len());
    let (regex, after) = text.split_at_checked(end).unwrap_or((text, ""));
    Ok((regex.trim_end(), after))
}

fn starts_a_term(text: &str) -> bool {
    let text = text.trim_start();
    let end = text.find([',', '|']).unwrap_or(text.len());
    let word = text.get(..end).unwrap_or_default().trim();
    output(text).is_some() || simple(word).is_ok()
}

fn pattern(stream: Stream, wanted: bool, text: &str) -> Result<Pattern, FailOnError> {
    /// Larger automata are of expressions that nobody means.
    const LARGEST: usize = 1 << 20;
    let regex = RegexBuilder::new(text).size_limit(LARGEST).build();
    let regex = regex.map_err(|error| FailOnError::Regex {
        regex: text.to_owned(),
        why: error
            .to_string()
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned(),
    })?;
    Ok(Pattern {
        stream,
        wanted,
        regex,
    })
}

fn simple(word: &str) -> Result<Term, FailOnError> {
    match word {
        "signal" => return Ok(Term::AnySignal),
        "abort" => return Ok(Term::Signal(Signal(6))),
        "hang" => return Ok(Term::Hang),
        "exit" => return Ok(Term::Exit(Comparison::NotEqual, 0)),
        _ => {}
    }
    let unknown = || FailOnError::Unknown(word.to_owned());
    if let Some(rest) = word.strip_prefix("signal") {
        let name = rest.trim_start().strip_prefix('=').ok_or_else(unknown)?;
        let name = name.trim_start_matches('=').trim();
        let signal = signal_by_name(&name.to_ascii_uppercase());
        return signal
            .map(Term::Signal)
            .ok_or_else(|| FailOnError::Signal(name.to_owned()));
    }
    let rest = word.strip_prefix("exit").ok_or_else(unknown)?.trim_start();
    let (comparison, number) = [
        ("!=", Comparison::NotEqual),
        ("==", Comparison::Equal),
        ("=", Comparison::Equal),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ]
    .into_iter()
    .find_map(|(sign, comparison)| Some((comparison, rest.strip_prefix(sign)?.trim())))
    .ok_or_else(unknown)?;
    let status = number.parse::<u8>();
    let status = status.map_err(|_| FailOnError::Status(number.to_owned()))?;
    Ok(Term::Exit(comparison, i32::from(status)))
}

#[cfg(test)]
mod tests {
    use super::super::FailOn;
    use super::*;

    fn read(text: &str) -> FailOn {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn signals() {
        let (segv, term) = (Signal(11), Signal(15));
        let any = read("signal");
        assert!(any.signal(segv, false) && any.signal(segv, true) && any.signal(term, false));
        assert!(!any.signal(term, true) && !any.hang());
        for text in [
            "signal=SEGV",
            "signal=SIGSEGV",
            "signal == segv",
            "exit=3|signal=11",
        ] {
            assert!(
                read(text).signal(segv, false) && !read(text).signal(term, false),
                "{text}"
            );
        }
        assert!(read("signal=TERM").signal(term, true));
        assert!(read("abort").signal(Signal(6), false));
    }

    #[test]
    fn statuses() {
        for (text, fails, passes) in [
            ("exit!=0", 1, 0),
            ("exit", 7, 0),
            ("exit=3,hang", 3, 4),
            ("exit==3", 3, 0),
            ("exit>2", 3, 2),
            ("exit >= 2", 2, 1),
            ("exit<2", 1, 2),
            ("hang|exit<=2", 2, 3),
        ] {
            assert!(read(text).exit(fails) && !read(text).exit(passes), "{text}");
        }
        assert!(!read("signal").asks_for_exit());
    }

    fn regexes(text: &str) -> Vec<String> {
        let read = read(text);
        let both = [Stream::Stdout, Stream::Stderr];
        let found = both.into_iter().flat_map(|stream| read.patterns(stream));
        found.map(ToString::to_string).collect()
    }

    #[test]
    fn regular_expressions_end_where_a_term_begins() {
        assert_eq!(regexes("stderr~error|failed"), ["stderr~/error|failed/"]);
        assert_eq!(regexes("stderr~a{1,2}, exit=3"), ["stderr~/a{1,2}/"]);
        assert!(read("stderr~a{1,2}, exit=3").exit(3));
        assert_eq!(regexes("stderr~error|hang"), ["stderr~/error/"]);
        assert!(read("stderr~error|hang").hang());
        assert_eq!(regexes("stderr~/error|hang/"), ["stderr~/error|hang/"]);
        assert!(!read("stderr~/error|hang/").hang());
        assert_eq!(
            regexes(r"stdout~'a,exit'|stderr!~ \d+$"),
            [r"stdout~/a,exit/", r"stderr!~/\d+$/"]
        );
        assert_eq!(regexes(r"stdout~/a\/b/,hang"), [r"stdout~/a\/b/"]);
    }

    #[test]
    fn lines_match() {
        let read = read("stdout~^sum: -");
        let pattern = read.patterns(Stream::Stdout).next().unwrap();
        assert!(pattern.matches(b"sum: -3") && !pattern.matches(b"a sum: -3"));
        assert!(pattern.matches(b"sum: -\xff\xfe"));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in [
            ("", "a term is missing in ``"),
            ("signal,,hang", "a term is missing in `signal,,hang`"),
            ("crash", "`crash` is no term"),
            ("exit=300", "`300` is no exit status"),
            ("exit=-1", "`-1` is no exit status"),
            ("signal=FOO", "`FOO` is no signal"),
            ("signal~FOO", "`signal~FOO` is no term"),
            ("stdout~(", "`(` is no regular expression: unclosed group"),
            ("stdout~/a", "has no closing /"),
            ("stdout~/a/b", "`b` is no term"),
        ] {
            let error = text.parse::<FailOn>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}

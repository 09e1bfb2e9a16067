//! What counts as a failure: the expression that a user gives.
//!
//! Terms joined by `,` or `|`; a run fails when one of them holds:
//!
//! | term | holds when |
//! |---|---|
//! | `signal` | a signal ended the program, other than a request from outside to end |
//! | `signal=SEGV` | this signal ended it, whoever sent it; by name or number |
//! | `abort` | `signal=ABRT` |
//! | `hang` | the time limit passed |
//! | `exit=3`, `exit!=0`, `exit>1`, … | it exited by itself with such a status; `exit` alone is `exit!=0` |
//! | `stdout~REGEX`, `stderr~REGEX` | a line of its output matches |
//! | `stdout!~REGEX`, `stderr!~REGEX` | no line of its output matches, and it exited by itself |
//!
//! A regular expression goes on to the next `,` or `|` that a term stands behind. Between slashes or quotes it may contain
//! anything: `stderr~/error|hang/`.

mod parse;

pub use parse::FailOnError;

use std::fmt;
use std::str::FromStr;

use regex::bytes::Regex;

use crate::report::Signal;

const SIGHUP: Signal = Signal(1);
const SIGINT: Signal = Signal(2);
const SIGQUIT: Signal = Signal(3);
const SIGKILL: Signal = Signal(9);
const SIGTERM: Signal = Signal(15);

/// What counts as a failure.
#[derive(Clone, Debug)]
pub struct FailOn {
    text: String,
    terms: Vec<Term>,
}

#[derive(Clone, Debug)]
enum Term {
    AnySignal,
    Signal(Signal),
    Hang,
    Exit(Comparison, i32),
    Output(Pattern),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// One of a program's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A regular expression on the lines of an output.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Which output.
    pub stream: Stream,
    /// Whether a line that matches is a failure, or there being none.
    pub wanted: bool,
    regex: Regex,
}

impl Pattern {
    /// Whether a line matches; line ends are not part of it.
    #[must_use]
    pub fn matches(&self, line: &[u8]) -> bool {
        self.regex.is_match(line)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = match self.stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        let not = if self.wanted { "" } else { "!" };
        write!(f, "{stream}{not}~/{}/", self.regex.as_str())
    }
}

impl FailOn {
    /// Whether an end by this signal is a failure. One that comes from outside may be a request to end, such as
    /// Ctrl-C in a terminal.
    #[must_use]
    pub fn signal(&self, signal: Signal, from_outside: bool) -> bool {
        let is_request = from_outside && [SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM].contains(&signal);
        self.terms.iter().any(|term| match term {
            Term::AnySignal => !is_request,
            Term::Signal(named) => *named == signal,
            _ => false,
        })
    }

    /// Whether this signal is a failure by its name.
    #[must_use]
    pub fn names(&self, signal: Signal) -> bool {
        let names = |term: &Term| matches!(term, Term::Signal(named) if *named == signal);
        self.terms.iter().any(names)
    }

    /// Whether a run over the time limit is a failure.
    #[must_use]
    pub fn hang(&self) -> bool {
        self.terms.iter().any(|term| matches!(term, Term::Hang))
    }

    /// Whether this exit status is a failure.
    #[must_use]
    pub fn exit(&self, status: i32) -> bool {
        self.terms.iter().any(|term| match term {
            Term::Exit(comparison, number) => comparison.holds(status, *number),
            _ => false,
        })
    }

    /// Whether an exit status can be a failure.
    #[must_use]
    pub fn asks_for_exit(&self) -> bool {
        self.terms.iter().any(|term| matches!(term, Term::Exit(..)))
    }

    /// The regular expressions on an output, in order.
    pub fn patterns(&self, stream: Stream) -> impl Iterator<Item = &Pattern> {
        self.terms.iter().filter_map(move |term| match term {
            Term::Output(pattern) if pattern.stream == stream => Some(pattern),
            _ => None,
        })
    }
}

impl Comparison {
    fn holds(self, status: i32, number: i32) -> bool {
        match self {
            Self::Equal => status == number,
            Self::NotEqual => status != number,
            Self::Less => status < number,
            Self::LessOrEqual => status <= number,
            Self::Greater => status > number,
            Self::GreaterOrEqual => status >= number,
        }
    }
}

/// A fatal signal, an abort among them, or a hang.
impl Default for FailOn {
    fn default() -> Self {
        Self {
            text: "signal,hang".to_owned(),
            terms: vec![Term::AnySignal, Term::Hang],
        }
    }
}

impl fmt::Display for FailOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for FailOn {
    type Err = FailOnError;

    fn from_str(text: &str) -> Result<Self, FailOnError> {
        let terms = parse::terms(text)?;
        Ok(Self {
            text: text.trim().to_owned(),
            terms,
        })
    }
}

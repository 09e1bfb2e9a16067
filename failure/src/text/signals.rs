//! Signal names of Linux on x86-64.

use std::fmt;

use crate::report::Signal;

const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

pub(super) const SIGILL: Signal = Signal(4);
pub(super) const SIGABRT: Signal = Signal(6);
pub(super) const SIGBUS: Signal = Signal(7);
pub(super) const SIGFPE: Signal = Signal(8);
pub(super) const SIGSEGV: Signal = Signal(11);

/// A signal by name (`SIGSEGV` or `SEGV`) or number.
pub(super) fn by_name(word: &str) -> Option<Signal> {
    let bare = word.strip_prefix("SIG").unwrap_or(word);
    let number = match NAMES.iter().position(|&name| name == bare) {
        Some(at) => i32::try_from(at).ok()? + 1,
        None => bare.parse().ok()?,
    };
    (1..=64).contains(&number).then_some(Signal(number))
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = usize::try_from(self.0)
            .ok()
            .and_then(|number| number.checked_sub(1));
        match index.and_then(|index| NAMES.get(index)) {
            Some(name) => write!(f, "SIG{name}"),
            None => write!(f, "signal {}", self.0),
        }
    }
}

/// Signals that the processor's faults become.
pub(super) fn is_fault(signal: Signal) -> bool {
    [SIGILL, SIGBUS, SIGFPE, SIGSEGV].contains(&signal)
}

/// Signals that somebody sends to a program that does not move any more.
pub(super) fn is_sent_to_the_stuck(signal: Signal) -> bool {
    ["INT", "QUIT", "ABRT", "KILL", "TERM", "STOP", "TRAP"]
        .iter()
        .any(|name| by_name(name) == Some(signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(by_name("SIGSEGV"), Some(SIGSEGV));
        assert_eq!(by_name("ABRT"), Some(SIGABRT));
        assert_eq!(by_name("11"), Some(SIGSEGV));
        assert_eq!(by_name("SYS"), Some(Signal(31)));
        assert_eq!(by_name("SIGNOTHING"), None);
        assert_eq!(by_name("0"), None);
        assert_eq!(
            [SIGSEGV.to_string(), Signal(40).to_string()],
            ["SIGSEGV", "signal 40"]
        );
    }
}

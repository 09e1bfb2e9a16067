//! From what was seen of a run to its failure.

use failure::fail_on::Stream;
use failure::report::{Frame, FrameOrigin, Kind, Position, Report, Source, SymbolRef, Thread};
use failure::text::{self, Said};

use super::capture::Seen;
use super::options::RunOptions;
use super::outcome::Ended;

/// What was seen of a run, apart from its end.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The report of a signal or of a hang that counts as a failure.
    pub(super) failure: Option<Report>,
    /// The stack of the thread that ended the process by itself.
    pub(super) at_exit: Option<Report>,
}

/// The failure of a run, if it was one.
pub(super) fn failure(
    evidence: Evidence,
    ended: Ended,
    stdout: &Seen,
    stderr: &Seen,
    options: &RunOptions<'_>,
) -> Option<Report> {
    let said = text::said(&stderr.captured.tail);
    if let Some(mut report) = evidence.failure {
        complete_message(&mut report, said);
        return Some(report);
    }
    let Ended::Exited(status) = ended else {
        return by_output(evidence.at_exit, ended, stdout, stderr, options);
    };
    if options.fail_on.exit(status) {
        let mut report = evidence.at_exit.unwrap_or_else(|| without_stack(ended));
        report.kind = Kind::ExitStatus;
        report.message = Some(match &said {
            Some(said) => format!("exit status {status}: {}", said.message),
            None => format!("exit status {status}"),
        });
        point_at_panic(&mut report, status, said);
        return Some(report);
    }
    by_output(evidence.at_exit, ended, stdout, stderr, options)
}

fn by_output(
    at_exit: Option<Report>,
    ended: Ended,
    stdout: &Seen,
    stderr: &Seen,
    options: &RunOptions<'_>,
) -> Option<Report> {
    let of = |stream| options.fail_on.patterns(stream);
    let patterns = of(Stream::Stdout).chain(of(Stream::Stderr));
    let lines = stdout.matched.iter().chain(&stderr.matched);
    let message = patterns.zip(lines).find_map(|(pattern, line)| match line {
        Some(line) => pattern.wanted.then(|| format!("{pattern}: {line}")),
        // Output that is cut short proves nothing.
        None => {
            (!pattern.wanted && matches!(ended, Ended::Exited(_))).then(|| format!("no line for {pattern}"))
        }
    })?;
    let mut report = at_exit.unwrap_or_else(|| without_stack(ended));
    report.kind = Kind::Oracle;
    report.message = Some(message);
    Some(report)
}

/// Standard error may say more than memory: a panic's message, what an exception of the program's own says.
fn complete_message(report: &mut Report, said: Option<Said>) {
    if report.kind != Kind::Abort {
        return;
    }
    let Some(said) = said.filter(|said| matches!(said.kind, Kind::Abort | Kind::Assertion)) else {
        return;
    };
    let known = report.message.as_deref();
    if known.is_none_or(|known| said.message.starts_with(known)) {
        report.message = Some(said.message);
    }
}

/// A panic that unwinds its thread ends the program long after: what it said names the statement.
fn point_at_panic(report: &mut Report, status: i32, said: Option<Said>) {
    const OF_A_PANIC: i32 = 101;
    let place = said.filter(|_| status == OF_A_PANIC).and_then(|said| said.place);
    let Some((location, function)) = place else {
        return;
    };
    let frame = Frame {
        symbol: function.map(|name| SymbolRef { name, offset: None }),
        location: Some(location),
        position: Position::Exact,
        origin: FrameOrigin::Text,
        ..Frame::default()
    };
    let panicked = Thread {
        frames: vec![frame],
        ..Thread::default()
    };
    report.threads.insert(0, panicked);
    report.failing = 0;
    report.notes.push(
        "the panicking thread's stack was unwound before the end: only the panic's place is known".to_owned(),
    );
}

fn without_stack(ended: Ended) -> Report {
    let signal = match ended {
        Ended::Killed { signal, .. } => Some(signal),
        _ => None,
    };
    Report {
        source: Source::Live,
        kind: Kind::Signal,
        signal,
        message: None,
        fault_address: None,
        program: None,
        build_id: None,
        threads: Vec::new(),
        failing: 0,
        notes: vec!["the process was gone before its stacks could be taken".to_owned()],
    }
}

/// The report of a process that nobody could look at before it died, such as of SIGKILL.
pub(super) fn killed_unseen(ended: Ended, options: &RunOptions<'_>) -> Option<Report> {
    let Ended::Killed { signal, .. } = ended else {
        return None;
    };
    options.fail_on.signal(signal, true).then(|| without_stack(ended))
}

//! From what was seen of a run to its failure.

use std::path::Path;

use failure::fail_on::Stream;
use failure::report::{Frame, FrameOrigin, Kind, Position, Report, Sign, Source, SymbolRef, Thread};
use failure::resolve::is_in_own_code;
use failure::text::{self, Said};

use super::capture::Seen;
use super::options::RunOptions;
use super::outcome::Ended;
use super::panics::Panicked;
use crate::files::ProgramFiles;

/// What was seen of a run, apart from its end.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The report of a signal or of a hang that counts as a failure.
    pub(super) failure: Option<Report>,
    /// When that was, if the program went on after it, in a handler.
    pub(super) failed_at_ns: Option<u64>,
    /// A thread failed, and the process was gone before it could be looked at.
    pub(super) missed: bool,
    /// Threads of the process that failed block the signal of a trap: they cannot be stopped at one.
    pub(super) unstoppable: bool,
    /// The stack of the thread that ended the process by itself.
    pub(super) at_exit: Option<Report>,
    /// The first panic that the program went on after.
    pub(super) panicked: Option<Panicked>,
}

/// A failure.
pub(super) struct Failed {
    pub(super) report: Report,
    /// When it was, if the program went on after it.
    pub(super) at_ns: Option<u64>,
}

impl From<Report> for Failed {
    fn from(report: Report) -> Self {
        Self { report, at_ns: None }
    }
}

/// The failure of a run, if it was one.
pub(super) fn failure(
    evidence: Evidence,
    ended: Ended,
    stdout: &Seen,
    stderr: &Seen,
    options: &RunOptions<'_>,
) -> Option<Failed> {
    let said = text::said(&stderr.captured.tail);
    if let Some(mut report) = evidence.failure {
        complete_message(&mut report, said);
        return Some(Failed {
            report,
            at_ns: evidence.failed_at_ns,
        });
    }
    if let Ended::Exited(status) = ended
        && options.fail_on.exit(status)
    {
        let mut failed = at_end(evidence, ended);
        let told = failed.report.message.take().filter(|_| failed.at_ns.is_some());
        let told = told.or_else(|| Some(said.as_ref()?.message.clone()));
        failed.report.kind = Kind::ExitStatus;
        failed.report.sign = Some(Sign::Status(status));
        failed.report.message = Some(match told {
            Some(told) => format!("exit status {status}: {told}"),
            None => format!("exit status {status}"),
        });
        if failed.at_ns.is_none() {
            point_at_panic(&mut failed.report, status, said);
        }
        return Some(failed);
    }
    let (message, sign) = told_by_output(ended, stdout, stderr, options)?;
    let mut failed = at_end(evidence, ended);
    failed.report.kind = Kind::Oracle;
    // A panic says better than its output where it was.
    failed.report.sign = sign.filter(|_| failed.at_ns.is_none());
    failed.report.message = Some(message);
    Some(failed)
}

/// Where a run failed that ended by itself: in the code that ended it, or, if that has returned or was unwound, where it
/// panicked.
fn at_end(evidence: Evidence, ended: Ended) -> Failed {
    let at_exit = evidence.at_exit.unwrap_or_else(|| without_stack(ended));
    match evidence.panicked {
        Some(panicked) if !ended_by_own_code(&at_exit) => Failed {
            report: panicked.report,
            at_ns: Some(panicked.time_ns),
        },
        _ => at_exit.into(),
    }
}

fn ended_by_own_code(at_exit: &Report) -> bool {
    let files = ProgramFiles::default();
    let Some(path) = &at_exit.program else {
        return false;
    };
    let program = files.program_of(Path::new(path), at_exit);
    program.is_ok_and(|program| is_in_own_code(at_exit, &program))
}

/// What the output says about the failure that it shows, if it shows one, and the line that does.
fn told_by_output(
    ended: Ended,
    stdout: &Seen,
    stderr: &Seen,
    options: &RunOptions<'_>,
) -> Option<(String, Option<Sign>)> {
    let of = |stream| options.fail_on.patterns(stream);
    let patterns = of(Stream::Stdout).chain(of(Stream::Stderr));
    let lines = stdout.matched.iter().chain(&stderr.matched);
    patterns.zip(lines).find_map(|(pattern, line)| match line {
        Some(line) => {
            let printed = || (format!("{pattern}: {line}"), Some(Sign::Output(line.clone())));
            pattern.wanted.then(printed)
        }
        // Output that is cut short proves nothing.
        None => (!pattern.wanted && matches!(ended, Ended::Exited(_)))
            .then(|| (format!("no line for {pattern}"), None)),
    })
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
        sign: None,
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

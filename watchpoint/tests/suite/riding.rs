//! Watching from inside a run that tells the outcome.

use failure::FailOn;
use failure::image::Limits;
use tracee::HostModules;
use tracee::ptrace::Launch;
use tracee::run::{Ended, Outcome, Output, RunOptions, run};
use watchpoint::code::CodeFiles;
use watchpoint::exact::rider::rider;
use watchpoint::session::Session;
use watchpoint::{Hit, Mode, Summary, Trigger, WatchSpec};

use crate::support::can_watch;
use crate::watched::{LIMIT, Program, to_end};

#[test]
fn the_accesses_and_the_failure_of_one_run() {
    if !can_watch() {
        return;
    }
    for mode in [Mode::Exact, Mode::Observe, Mode::Compat] {
        one_run(mode);
    }
}

/// One run with locations watched in it: the accesses, what is said of them, and how it ended.
pub(crate) fn ride(program: &Program, locations: &[WatchSpec], mode: Mode) -> (Vec<Hit>, Summary, Outcome) {
    let (mut rider, passenger) = rider(locations.to_vec(), mode, false).expect("memory can be watched");
    let path = program.path();
    let running = std::thread::spawn(move || {
        let options = RunOptions {
            time_limit: Some(LIMIT),
            deadlocks: false,
            fail_on: &FailOn::default(),
            stdout: Output::Discard,
            stderr: Output::Discard,
            child_crashes: false,
            subject: None,
            modules: &HostModules::of_this_host(),
            limits: Limits::default(),
            cancel: None,
        };
        run(Launch::new(path), &options, &mut [&mut *rider])
    });
    let files = CodeFiles::default();
    let mut session = Session::over(passenger, locations, &files);
    let (hits, _) = to_end(&mut session);
    let outcome = running.join().expect("the run does not panic");
    (hits, session.summary(), outcome.expect("the run works"))
}

fn one_run(mode: Mode) {
    let program = Program::compile("use_after_reset.c", "-O0");
    let locations = [program.global("shared", 8, Trigger::ReadWrite)];
    let (hits, summary, outcome) = ride(&program, &locations, mode);
    assert!(matches!(outcome.ended, Ended::Killed { signal, .. } if signal.0 == 11));
    assert!(outcome.failure.is_some());
    // The loader relocated it; it was read, reset by another thread, read again, and then the program died.
    let shown: Vec<(String, bool)> = hits
        .iter()
        .map(|hit: &Hit| {
            let access = hit.access.map(|access| access.to_string()).unwrap_or_default();
            (access, hit.value.is_some_and(|value| value.bits == 0))
        })
        .collect();
    let want = [("W", false), ("R", false), ("W", true), ("R", true)]
        .map(|(access, null)| (access.to_owned(), null));
    assert_eq!(shown, want);
    assert_ne!(hits[1].tid, hits[2].tid);
    assert_eq!(hits[1].tid, hits[3].tid);
    assert_eq!(summary.lost, 0);
}

/// A division traps before the access to its operand is reported.
#[test]
fn what_a_thread_read_that_dies_of_a_division() {
    if !can_watch() {
        return;
    }
    for mode in [Mode::Exact, Mode::Observe, Mode::Compat] {
        let program = Program::compile("divides.c", "-O0");
        let locations = [program.global("divisor", 4, Trigger::ReadWrite)];
        let (hits, summary, outcome) = ride(&program, &locations, mode);
        assert!(matches!(outcome.ended, Ended::Killed { signal, .. } if signal.0 == 8));
        let shown: Vec<(String, Option<u64>)> = hits
            .iter()
            .map(|hit| {
                let access = hit.access.map(|access| access.to_string()).unwrap_or_default();
                (access, hit.value.map(|value| value.bits))
            })
            .collect();
        let want = ["W", "R"].map(|access| (access.to_owned(), Some(0)));
        assert_eq!(shown, want, "{mode:?}");
        assert_eq!(summary.lost, 0);
    }
}

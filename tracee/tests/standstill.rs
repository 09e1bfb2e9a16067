//! Attached processes whose threads do not go on, and those that only look like it.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod traced;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use failsketch_tests::folder::Folder;
use failure::FailOn;
use failure::image::Limits;
use failure::report::{Kind, Report};
use traced::compile;
use tracee::ptrace::on_own_thread;
use tracee::run::{Blocked, Guard, Look, Progress, Standstill};
use tracee::{HostModules, Pid};

/// Far more than two looks take.
const LONG: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

struct Target {
    _folder: Folder,
    child: Child,
}

impl Target {
    fn start(how: &str) -> Self {
        let folder = Folder::new("standstill");
        let program = compile(&folder, "standstill.c", &[]);
        let mut child = Command::new(program)
            .arg(how)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut output = BufReader::new(child.stdout.as_mut().unwrap());
        output.read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        Self {
            _folder: folder,
            child,
        }
    }

    fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Threads that do not go on; none if several looks found none.
    fn blocked(&self, longest: Option<Duration>, looks: usize) -> Option<Blocked> {
        let mut standstill = Standstill::new(self.pid(), longest);
        let began = Instant::now();
        let mut clear = 0;
        while clear < looks && began.elapsed() < LONG {
            match standstill.look() {
                Some(Progress::Stuck(blocked)) => return Some(blocked),
                Some(Progress::GoesOn) => clear += 1,
                Some(Progress::Doubtful) | None => thread::sleep(PAUSE),
            }
        }
        None
    }

    fn report(&self, blocked: Blocked) -> Option<Report> {
        let pid = self.pid();
        on_own_thread(move || {
            let mut guard = Guard::attach(pid).unwrap();
            let look = Look {
                fail_on: &FailOn::default(),
                modules: &HostModules::of_this_host(),
                limits: Limits::default(),
            };
            let report = guard.look_at(&blocked, &look).unwrap();
            guard.leave(LONG).unwrap();
            report
        })
    }

    /// Whether it answers, as if nobody had looked.
    fn answers(mut self) -> bool {
        self.child.stdin.take().unwrap().write_all(b"?").unwrap();
        self.child.wait().unwrap().code() == Some(7)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _taken = self.child.wait();
    }
}

#[test]
fn threads_that_wait_for_one_another_are_seen_and_the_others_do_not_notice() {
    for (how, threads) in [("circle", 2), ("book", 2), ("twice", 1)] {
        let target = Target::start(how);
        // Locks that the others wait behind are waited for for ever, too.
        let blocked = target.blocked(None, usize::MAX).unwrap();
        let report = target.report(blocked).unwrap();
        assert_eq!(report.kind, Kind::Hang);
        assert!(report.threads.len() >= threads, "{how}: {report:?}");
        assert!(
            report.threads.iter().all(|thread| thread.frames.len() >= 3),
            "{report:?}"
        );
        assert!(target.answers(), "{how}");
    }
}

#[test]
fn a_process_of_which_no_thread_can_go_on_is_seen() {
    let target = Target::start("everybody");
    let blocked = target.blocked(None, usize::MAX).unwrap();
    let report = target.report(blocked).unwrap();
    assert_eq!((report.kind, report.threads.len()), (Kind::Hang, 2), "{report:?}");
}

#[test]
fn those_that_wait_for_work_or_for_a_signal_do_not_hang() {
    for how in ["", "asked", "held"] {
        let target = Target::start(how);
        let blocked = target.blocked(None, 4);
        assert!(blocked.is_none(), "{how}: {blocked:?}");
    }
}

#[test]
fn a_lock_may_be_waited_for_as_long_as_somebody_says() {
    let target = Target::start("held");
    let blocked = target.blocked(Some(Duration::from_secs(2)), usize::MAX).unwrap();
    let report = target.report(blocked).unwrap();
    assert_eq!(report.kind, Kind::Hang);
    assert!(report.notes.iter().any(|note| note.contains("2 s")), "{report:?}");
    assert!(target.answers());
}

//! Attached programs do not notice: no call is interrupted, no signal is lost, whatever happens to us.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod traced;

use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use failsketch_tests::folder::Folder;
use traced::{LONG, Ran, compile, end_of, run_alone, until};
use tracee::Pid;
use tracee::process::{Memory, ModuleMap, Process, ThreadState};
use tracee::ptrace::{Attached, End, Launch, Resume, Stream, Tracer, What, on_own_thread};

/// A program that says "ready" and then waits for a line.
struct Target {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    said: String,
}

impl Target {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut target = Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            said: String::new(),
            child,
        };
        target.stdout.read_line(&mut target.said).unwrap();
        assert_eq!(target.said, "ready\n");
        target
    }

    fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    fn finish(mut self) -> Ran {
        self.stdin.write_all(b"go on\n").unwrap();
        self.stdout.read_to_string(&mut self.said).unwrap();
        Ran {
            stdout: self.said,
            end: end_of(self.child.wait().unwrap()),
        }
    }

    fn tracers(&self) -> usize {
        let process = Process::new(self.pid());
        let threads = process.threads().unwrap();
        let statuses = threads
            .into_iter()
            .filter_map(|tid| process.thread_status(tid).ok());
        statuses.filter(|status| status.tracer.is_some()).count()
    }

    /// Waits until all threads wait for something.
    fn until_blocked(&self, threads: usize) {
        let process = Process::new(self.pid());
        until("all threads wait", || {
            let statuses = process.threads().unwrap().into_iter();
            let sleeping = statuses
                .filter_map(|tid| process.thread_status(tid).ok())
                .filter(|status| status.state == ThreadState::Sleeping);
            sleeping.count() == threads
        });
    }
}

/// Passes on everything for a while; counts the new threads.
fn serve(tracer: &mut Tracer<Attached>, time: Duration) -> usize {
    let end = Instant::now() + time;
    let mut new = 0;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        let Some(stop) = tracer.wait(left).unwrap() else {
            break;
        };
        new += usize::from(matches!(stop.what, What::NewThread { .. }));
        if stop.is_stopped() {
            tracer.resume(stop.tid, Resume::Deliver).unwrap();
        }
    }
    new
}

#[test]
fn calls_are_not_interrupted() {
    let folder = Folder::new("attach");
    let program = compile(&folder, "blocked.c", &[]);
    let alone = run_alone(&program, &[], "go on\n");
    assert!(alone.stdout.contains("epoll_wait: 1 Success"), "{}", alone.stdout);
    let target = Target::start(&program);
    target.until_blocked(10);
    for _ in 0..20 {
        on_own_thread(|| {
            let mut tracer = Tracer::attach(target.pid(), false).unwrap();
            assert_eq!(tracer.threads().count(), target.tracers());
            serve(&mut tracer, Duration::from_millis(2));
            tracer.detach(LONG, |_| false).unwrap();
        });
        assert_eq!(target.tracers(), 0);
    }
    assert_eq!(target.finish(), alone);
}

#[test]
fn a_busy_program_loses_nothing() {
    let folder = Folder::new("attach");
    let program = compile(&folder, "busy.c", &[]);
    let alone = run_alone(&program, &[], "go on\n");
    for follow_forks in [false, true] {
        let target = Target::start(&program);
        let mut seen = 0;
        for _ in 0..15 {
            seen += on_own_thread(|| {
                let mut tracer = Tracer::attach(target.pid(), follow_forks).unwrap();
                let new = serve(&mut tracer, Duration::from_millis(20));
                tracer.detach(LONG, |_| false).unwrap();
                new
            });
            assert_eq!(target.tracers(), 0);
        }
        assert!(seen > 0, "no thread was created while we looked");
        assert_eq!(target.finish(), alone);
    }
}

/// The tracer is this test's program, started again, killed at moments of all kinds.
#[test]
fn killing_the_tracer_harms_nobody() {
    const INNER: &str = "FAILSKETCH_TEST_ATTACH_TO";
    if let Ok(pid) = env::var(INNER) {
        let mut tracer = Tracer::attach(Pid(pid.parse().unwrap()), false).unwrap();
        serve(&mut tracer, LONG);
        return;
    }
    let folder = Folder::new("attach");
    for (source, kills) in [("busy.c", 40), ("blocked.c", 20)] {
        let program = compile(&folder, source, &[]);
        let alone = run_alone(&program, &[], "go on\n");
        let target = Target::start(&program);
        for kill in 0..kills {
            let mut tracer = Command::new(env::current_exe().unwrap())
                .args(["--exact", "killing_the_tracer_harms_nobody"])
                .env(INNER, target.pid().to_string())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            if kill % 4 != 0 {
                until("it is attached", || target.tracers() > 0);
            }
            thread::sleep(Duration::from_micros(997 * (kill % 17)));
            tracer.kill().unwrap();
            tracer.wait().unwrap();
        }
        until("nobody traces", || target.tracers() == 0);
        assert_eq!(target.finish(), alone);
    }
}

/// Killed right between a signal's stop and the resuming, we take the signal with us, unless the kernel has
/// kept it.
#[test]
fn a_signal_that_we_hold_is_not_lost_with_us() {
    const INNER: &str = "FAILSKETCH_TEST_HOLD_A_SIGNAL_OF";
    if let Ok(pid) = env::var(INNER) {
        let mut tracer = Tracer::attach(Pid(pid.parse().unwrap()), false).unwrap();
        loop {
            let stop = tracer.wait(LONG).unwrap().unwrap();
            if matches!(stop.what, What::Signal(_)) {
                std::io::stderr().write_all(b"h").unwrap();
                thread::sleep(LONG);
            } else if stop.is_stopped() {
                tracer.resume(stop.tid, Resume::Deliver).unwrap();
            }
        }
    }
    let folder = Folder::new("attach");
    let program = compile(&folder, "busy.c", &[]);
    let alone = run_alone(&program, &[], "go on\n");
    let target = Target::start(&program);
    for _ in 0..5 {
        let mut tracer = Command::new(env::current_exe().unwrap())
            .args(["--exact", "a_signal_that_we_hold_is_not_lost_with_us"])
            .env(INNER, target.pid().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut held = [0];
        tracer.stderr.take().unwrap().read_exact(&mut held).unwrap();
        assert_eq!(held, *b"h");
        tracer.kill().unwrap();
        tracer.wait().unwrap();
    }
    assert_eq!(target.finish(), alone);
}

/// A first thread that is over cannot be traced and has no memory; the process has.
#[test]
fn a_process_without_its_first_thread_is_traced_all_the_same() {
    let folder = Folder::new("attach");
    let program = compile(&folder, "leaderless.c", &[]);
    let mut target = Target::start(&program);
    let process = Process::new(target.pid());
    until("the first thread is over", || process.status().unwrap().is_over());
    let map = ModuleMap::of(target.pid()).unwrap();
    let module = map.executable().unwrap();
    assert_eq!(map.file(module), Some(program.clone()));
    let (range, _) = &module.mapped.ranges[0];
    assert_eq!(
        Memory::of(target.pid()).read(range.start, 4),
        Some(b"\x7fELF".to_vec())
    );
    let ended = on_own_thread(|| {
        let mut tracer = Tracer::attach(target.pid(), false).unwrap();
        assert_eq!(tracer.threads().count(), 1);
        target.stdin.write_all(b"x").unwrap();
        loop {
            let stop = tracer.wait(LONG).unwrap().unwrap();
            match stop.what {
                What::ProcessExited(end) => break end,
                _ if stop.is_stopped() => tracer.resume(stop.tid, Resume::Deliver).unwrap(),
                _ => (),
            }
        }
    });
    assert_eq!(ended, End::Unknown);
    assert_eq!(end_of(target.child.wait().unwrap()), End::Exited(9));

    on_own_thread(|| {
        let launch = Launch::new(&program).stdin(Stream::Pipe).stdout(Stream::Pipe);
        let (mut tracer, mut pipes) = Tracer::launch(launch).unwrap();
        let process = Process::new(tracer.pid());
        tracer
            .resume(tracer.pid().first_thread(), Resume::Deliver)
            .unwrap();
        let end = loop {
            let Some(stop) = tracer.wait(Duration::from_millis(10)).unwrap() else {
                if process.status().unwrap().is_over() && pipes.stdin.is_some() {
                    assert_eq!(tracer.interrupt_all(LONG).unwrap(), []);
                    tracer.resume_interrupted().unwrap();
                    pipes.stdin.take().unwrap().write_all(b"x").unwrap();
                }
                continue;
            };
            match stop.what {
                What::ProcessExited(end) => break end,
                _ if stop.is_stopped() => tracer.resume(stop.tid, Resume::Deliver).unwrap(),
                _ => (),
            }
        };
        assert_eq!(end, End::Exited(9));
    });
}

#[test]
fn the_end_of_an_attached_program_is_told_to_us_and_to_its_parent() {
    let folder = Folder::new("attach");
    let program = compile(&folder, "blocked.c", &[]);
    // The parent must be another process than the one that traces.
    let mut parent = Command::new("sh")
        .args(["-c", "exec 3<&0; \"$0\" <&3 & echo $!; wait $!; echo status $?"])
        .arg(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let first: Vec<String> = lines.by_ref().take(2).collect();
    let pid = first.iter().find_map(|line| line.parse().ok()).unwrap();
    let ended = on_own_thread(|| {
        let mut tracer = Tracer::attach(Pid(pid), false).unwrap();
        parent.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        loop {
            let stop = tracer.wait(LONG).unwrap().unwrap();
            match stop.what {
                What::ProcessExited(end) => break end,
                _ if stop.is_stopped() => tracer.resume(stop.tid, Resume::Deliver).unwrap(),
                _ => (),
            }
        }
    });
    assert_eq!(ended, End::Exited(5));
    assert_eq!(lines.last().unwrap(), "status 5");
    parent.wait().unwrap();
}

//! Programs for the tests: compiled when asked for, run without us and under our eyes.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use failsketch_tests::folder::Folder;
use failure::Signal;
use tracee::ptrace::{End, Launch, Resume, Stop, Stream, Tracer, What, on_own_thread};

/// Longer than anything takes on a machine that does other things too.
pub const LONG: Duration = Duration::from_secs(60);

/// Compiles a program of `programs/` with these options; gives its path in the folder.
pub fn compile(folder: &Folder, source: &str, options: &[&str]) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let to = folder.path().join(source.split('.').next().unwrap());
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-Wall", "-pthread", "-Wl,--build-id", "-o"]);
    gcc.arg(&to).arg(programs.join(source)).args(options);
    let done = gcc.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    to
}

/// What a program wrote and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub stdout: String,
    pub end: End,
}

pub fn end_of(status: ExitStatus) -> End {
    status.code().map_or_else(
        || End::Killed {
            signal: Signal(status.signal().unwrap()),
            core_dumped: status.core_dumped(),
        },
        End::Exited,
    )
}

/// Runs a program without us.
pub fn run_alone(program: &Path, arguments: &[&str], input: &str) -> Ran {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    Ran {
        stdout: String::from_utf8(done.stdout).unwrap(),
        end: end_of(done.status),
    }
}

/// Runs a launched program to its end; everything that happened to it comes back, too.
pub fn run_launched(launch: Launch, input: &str) -> (Ran, Vec<Stop>) {
    let launch = launch.stdin(Stream::Pipe).stdout(Stream::Pipe);
    on_own_thread(|| {
        let (mut tracer, mut pipes) = Tracer::launch(launch).unwrap();
        // A program need not read what it is given.
        let _ = pipes.stdin.take().unwrap().write_all(input.as_bytes());
        let mut stdout = pipes.stdout.take().unwrap();
        let reader = thread::spawn(move || io::read_to_string(&mut stdout).unwrap());
        let mut stops = Vec::new();
        tracer
            .resume(tracer.pid().first_thread(), Resume::Deliver)
            .unwrap();
        let end = loop {
            let stop = tracer.wait(LONG).unwrap().expect("the program ends");
            stops.push(stop);
            match stop.what {
                What::ProcessExited(end) if stop.pid == tracer.pid() => break end,
                _ if stop.is_stopped() => tracer.resume(stop.tid, Resume::Deliver).unwrap(),
                _ => (),
            }
        };
        drop(tracer);
        let stdout = reader.join().unwrap();
        (Ran { stdout, end }, stops)
    })
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "waited too long until {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

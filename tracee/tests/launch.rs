//! Launched programs behave as without us.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::io::{Read as _, Write as _};
use std::time::Duration;

use tracee::ptrace::{End, Launch, Resume, Stream, Tracer, What};

const LONG: Duration = Duration::from_secs(60);

fn sh(script: &str) -> Launch {
    Launch::new("sh")
        .args(["-c", script])
        .stdin(Stream::Null)
        .stdout(Stream::Pipe)
        .stderr(Stream::Pipe)
}

/// Runs to the end; what it wrote to its standard output, and how it ended.
fn run(launch: Launch, input: &str) -> (String, End) {
    let (mut tracer, mut pipes) = Tracer::launch(launch).unwrap();
    if let Some(mut stdin) = pipes.stdin.take() {
        stdin.write_all(input.as_bytes()).unwrap();
    }
    tracer
        .resume(tracer.pid().first_thread(), Resume::Deliver)
        .unwrap();
    let end = loop {
        let stop = tracer.wait(LONG).unwrap().expect("it ends");
        match stop.what {
            What::ProcessExited(end) if stop.pid == tracer.pid() => break end,
            _ if stop.is_stopped() => tracer.resume(stop.tid, Resume::Deliver).unwrap(),
            _ => (),
        }
    };
    let mut output = String::new();
    if let Some(mut stdout) = pipes.stdout.take() {
        stdout.read_to_string(&mut output).unwrap();
    }
    (output, end)
}

#[test]
fn exit_statuses_are_told() {
    for status in [0, 1, 42, 255] {
        assert_eq!(
            run(sh(&format!("exit {status}")), ""),
            (String::new(), End::Exited(status))
        );
    }
}

//! Launched programs behave as they do without us, and everything that happens to them is told.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod traced;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use failsketch_tests::folder::Folder;
use failsketch_tests::skip::skipped;
use failure::Signal;
use traced::{Ran, compile, run_alone, run_launched};
use tracee::Tid;
use tracee::ptrace::{
    AttachError, End, Launch, LaunchError, Stream, TraceError, Tracer, What, on_own_thread,
};

fn sh(script: &str) -> Launch {
    Launch::new("sh").args(["-c", script])
}

fn ended(launch: Launch) -> End {
    run_launched(launch, "").0.end
}

fn refusal(launch: Launch) -> LaunchError {
    match on_own_thread(|| Tracer::launch(launch).map(|_| ())) {
        Err(TraceError::Launch(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_end_is_told() {
    for status in [0, 1, 42, 255] {
        assert_eq!(ended(sh(&format!("exit {status}"))), End::Exited(status));
    }
    for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGPIPE, libc::SIGRTMIN() + 3] {
        let End::Killed { signal: found, .. } = ended(sh(&format!("ulimit -c 0; kill -{signal} $$"))) else {
            panic!("not killed by {signal}");
        };
        assert_eq!(found, Signal(signal));
    }
}

#[test]
fn a_program_gets_what_it_would_get_without_us() {
    let folder = Folder::new("launch");
    let program = compile(&folder, "inherits.c", &[]);
    let input = "one\ntwo\n";
    let alone = run_alone(&program, &["a", "b c"], input);
    assert!(alone.stdout.contains("argument b c") && alone.stdout.contains("input two"));
    let (traced, _) = run_launched(Launch::new(&program).args(["a", "b c"]), input);
    assert_eq!(traced, alone);
}

#[test]
fn folder_variables_and_group_are_as_asked() {
    let folder = Folder::new("launch");
    let program = compile(&folder, "inherits.c", &[]);
    let launch = Launch::new(&program)
        .env("FAILSKETCH_TEST", "x y")
        .folder("/usr")
        .own_group();
    let (Ran { stdout, .. }, _) = run_launched(launch, "");
    assert!(stdout.contains("variable x y\n"), "{stdout}");
    assert!(stdout.contains("folder /usr\n"), "{stdout}");
    assert!(
        stdout.contains("same group as parent 0, same session 1\n"),
        "{stdout}"
    );
}

#[test]
fn streams_can_be_files() {
    let folder = Folder::new("launch");
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    fs::write(&input, "text").unwrap();
    let launch = Launch::new("cat")
        .stdin(Stream::File(File::open(&input).unwrap()))
        .stdout(Stream::File(File::create(&output).unwrap()))
        .stderr(Stream::Null);
    on_own_thread(|| {
        let (mut tracer, _) = Tracer::launch(launch).unwrap();
        tracer
            .resume(tracer.pid().first_thread(), tracee::ptrace::Resume::Deliver)
            .unwrap();
        while !matches!(
            tracer.wait(traced::LONG).unwrap().unwrap().what,
            What::ProcessExited(_)
        ) {}
    });
    assert_eq!(fs::read_to_string(output).unwrap(), "text");
}

/// Ignored signals stay ignored across exec; what the runtimes of Rust and C ignore and handle must not show.
#[test]
fn ignored_signals_are_as_we_got_them() {
    const INNER: &str = "FAILSKETCH_TEST_IGNORED";
    let ignored = |status: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        line.unwrap().trim().to_owned()
    };
    if let Ok(expected) = std::env::var(INNER) {
        let (ran, _) = run_launched(Launch::new("cat").args(["/proc/self/status"]), "");
        assert_eq!(ignored(&ran.stdout), expected);
        return;
    }
    for trap in ["trap '' PIPE HUP", ":"] {
        let shell = |then: &str| {
            let mut sh = Command::new("sh");
            sh.args(["-c", &format!("{trap}; {then}")])
                .arg(std::env::current_exe().unwrap());
            sh
        };
        let alone = shell("exec cat /proc/self/status").output().unwrap();
        let expected = ignored(&String::from_utf8_lossy(&alone.stdout));
        let mut inner = shell("exec \"$0\" --exact ignored_signals_are_as_we_got_them");
        let done = inner
            .env(INNER, expected)
            .stdout(Stdio::piped())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    }
}

#[test]
fn every_thread_is_seen() {
    let folder = Folder::new("launch");
    let program = compile(&folder, "many_threads.c", &[]);
    let (ran, stops) = run_launched(Launch::new(&program), "");
    assert_eq!(ran.end, End::Exited(7));
    let said: BTreeSet<Tid> = ran
        .stdout
        .lines()
        .map(|line| Tid(line.parse().unwrap()))
        .collect();
    assert_eq!(said.len(), 200);
    let those = |wanted: fn(&What) -> bool| -> BTreeSet<Tid> {
        stops
            .iter()
            .filter(|stop| wanted(&stop.what))
            .map(|stop| stop.tid)
            .collect()
    };
    assert_eq!(those(|what| matches!(what, What::NewThread { .. })), said);
    assert_eq!(those(|what| matches!(what, What::ThreadExited)), said);
}

#[test]
fn forks_run_free_unless_followed() {
    let folder = Folder::new("launch");
    let program = compile(&folder, "forks.c", &[]);
    let alone = run_alone(&program, &[], "");
    let (free, stops) = run_launched(Launch::new(&program), "");
    assert_eq!(free, alone);
    assert!(stops.iter().all(|stop| stop.pid == stops[0].pid), "{stops:?}");

    let (followed, stops) = run_launched(Launch::new(&program).follow_forks(), "");
    assert_eq!(followed, alone);
    let main = stops.last().unwrap().pid;
    let started = stops
        .iter()
        .filter(|stop| matches!(stop.what, What::NewProcess { .. }));
    let started: Vec<_> = started.map(|stop| stop.pid).collect();
    let ended = stops.iter().filter_map(|stop| match stop.what {
        What::ProcessExited(end) if stop.pid != main => Some((stop.pid, end)),
        _ => None,
    });
    let ends = [
        End::Exited(3),
        End::Killed {
            signal: Signal(libc::SIGKILL),
            core_dumped: false,
        },
        End::Exited(4),
        End::Exited(6),
    ];
    assert_eq!(started.len(), ends.len());
    let expected: Vec<_> = started.into_iter().zip(ends).collect();
    assert_eq!(ended.collect::<Vec<_>>(), expected);
}

#[test]
fn an_exec_is_told_and_ends_the_other_threads() {
    let folder = Folder::new("launch");
    let program = compile(&folder, "execs.c", &[]);
    for who in ["main", "thread"] {
        let alone = run_alone(&program, &[who], "");
        let (ran, stops) = run_launched(Launch::new(&program).args([who]), "");
        assert_eq!(ran, alone);
        let exec = stops.iter().find_map(|stop| match stop.what {
            What::Exec { former } => Some((stop.tid, stop.pid, former)),
            _ => None,
        });
        let (tid, pid, former) = exec.unwrap();
        assert_eq!(tid, pid.first_thread());
        assert_eq!(former == tid, who == "main");
        let started = stops
            .iter()
            .any(|stop| stop.tid == former && matches!(stop.what, What::NewThread { .. }));
        assert_eq!(started, who == "thread");
    }
}

#[test]
fn job_control_works_as_without_us() {
    let folder = Folder::new("launch");
    let program = compile(&folder, "job_control.c", &[]);
    let alone = run_alone(&program, &[], "");
    assert!(
        alone.stdout.contains("stopped by 19\ncontinued\nstopped by 20\n"),
        "{}",
        alone.stdout
    );
    let (traced, stops) = run_launched(Launch::new(&program).follow_forks(), "");
    assert_eq!(traced, alone);
    assert!(
        stops
            .iter()
            .any(|stop| stop.what == What::GroupStop(Signal(libc::SIGTTIN)))
    );
}

#[test]
fn signals_arrive_as_they_were_sent() {
    let folder = Folder::new("launch");
    let program = compile(&folder, "queued.c", &[]);
    let alone = run_alone(&program, &[], "");
    assert!(alone.stdout.contains("value 103 from itself"), "{}", alone.stdout);
    for follow in [false, true] {
        let launch = Launch::new(&program);
        let launch = if follow { launch.follow_forks() } else { launch };
        let (traced, stops) = run_launched(launch, "");
        assert_eq!(traced, alone);
        let values = stops.iter().filter_map(|stop| match &stop.what {
            What::Signal(info) => info.value(),
            _ => None,
        });
        assert_eq!(values.filter(|value| (100..106).contains(value)).count(), 6);
    }
}

#[test]
fn what_cannot_be_launched_is_told_apart() {
    let folder = Folder::new("launch");
    let write = |name: &str, content: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let text = write("text", "just text\n", 0o755);
    let closed = write("closed", "#!/bin/sh\n", 0o644);
    let orphan = write("orphan", "#!/no/such/interpreter\n", 0o755);
    assert!(matches!(
        refusal(Launch::new("/no/such/program")),
        LaunchError::NotFound(_)
    ));
    assert!(matches!(
        refusal(Launch::new("no-such-program")),
        LaunchError::NotInPath(_)
    ));
    assert!(matches!(
        refusal(Launch::new(&closed)),
        LaunchError::NotExecutable(_)
    ));
    assert!(matches!(
        refusal(Launch::new(folder.path())),
        LaunchError::NotExecutable(_)
    ));
    assert!(matches!(refusal(Launch::new(&text)), LaunchError::BadFormat(_)));
    assert!(matches!(
        refusal(Launch::new(&orphan)),
        LaunchError::NoInterpreter(_)
    ));
    assert!(matches!(
        refusal(sh("exit").folder("/no/such/folder")),
        LaunchError::Folder { .. }
    ));
    let in_path = Launch::new("closed").env("PATH", folder.path());
    assert!(matches!(refusal(in_path), LaunchError::NotExecutable(_)));
}

/// Compiles a program that needs no library, which is not there for 32 bits.
fn compile_32_bit(folder: &Folder) -> Option<std::path::PathBuf> {
    let source = folder.path().join("small.c");
    fs::write(
        &source,
        "void _start(void) { for (;;) __asm__ volatile(\"pause\"); }",
    )
    .unwrap();
    let program = folder.path().join("small");
    let mut gcc = Command::new("gcc");
    gcc.args([
        "-m32",
        "-nostdlib",
        "-static",
        "-ffreestanding",
        "-fno-pie",
        "-no-pie",
        "-o",
    ]);
    gcc.arg(&program).arg(&source);
    let runs = |program: &Path| match Command::new(program).spawn() {
        Ok(mut child) => child.kill().and_then(|()| child.wait()).is_ok(),
        Err(_) => false,
    };
    (gcc.output().unwrap().status.success() && runs(&program)).then_some(program)
}

#[test]
fn a_32_bit_program_is_refused() {
    let folder = Folder::new("launch");
    let Some(program) = compile_32_bit(&folder) else {
        return skipped("no 32-bit programs here");
    };
    let launched = on_own_thread(|| Tracer::launch(Launch::new(&program)).map(|_| ()));
    assert!(matches!(
        launched,
        Err(TraceError::Attach(AttachError::ThirtyTwoBit(_)))
    ));
    let mut child = Command::new(&program).spawn().unwrap();
    let attached = on_own_thread(|| Tracer::attach(tracee::Pid(child.id()), false).map(|_| ()));
    child.kill().and_then(|()| child.wait()).unwrap();
    assert!(matches!(
        attached,
        Err(TraceError::Attach(AttachError::ThirtyTwoBit(_)))
    ));
}

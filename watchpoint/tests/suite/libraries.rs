//! Variables of libraries, and programs that replace themselves.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use program::LinkAddr;
use tracee::Pid;
use tracee::ptrace::{End, Launch};
use watchpoint::code::CodeFiles;
use watchpoint::session::{Request, Session};
use watchpoint::{Address, Hit, Mode, ModeRequest, Target, Trigger, WatchSpec};

use crate::support::{Folder, can_watch};
use crate::watched::{LIMIT, Program, keeper, to_end, wait_until_it_reads};

fn source(name: &str) -> String {
    format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Compiles the library; gives the location of its variable.
fn library(folder: &Folder) -> WatchSpec {
    folder.run(&format!(
        "gcc -g -O1 -shared -fPIC -o libshared.so {}",
        source("library.c")
    ));
    let symbols = folder.run("nm libshared.so");
    let addr = symbols.lines().find_map(|line| {
        let addr = line.strip_suffix(" B shared_counter")?;
        u64::from_str_radix(addr, 16).ok()
    });
    WatchSpec {
        address: Address::Static {
            module: Some(folder.path().join("libshared.so")),
            addr: LinkAddr(addr.expect("the library has the variable")),
        },
        len: 8,
        trigger: Trigger::Write,
        places: 1,
    }
}

/// Watches the library's variable in a run of the program; gives the values that were written.
fn written(arguments: &[&str], mode: Mode) -> Vec<u64> {
    let folder = Folder::new("libraries");
    let variable = library(&folder);
    folder.run(&format!(
        "gcc -g -O1 -o program {} -L. -lshared -Wl,-rpath,{}",
        source("uses_library.c"),
        folder.path().display()
    ));
    let request = Request {
        target: Target::Launch(Launch::new(folder.path().join("program")).args(arguments.iter().copied())),
        locations: vec![variable],
        mode: ModeRequest::Only(mode),
        keeper: None,
    };
    let files = CodeFiles::default();
    let (mut session, _) = Session::start(request, &files).expect("the program can be watched");
    let (hits, end) = to_end(&mut session);
    assert_eq!(end, End::Exited(0));
    assert_eq!(session.summary().late_armed, 0);
    values(&hits)
}

fn values(hits: &[Hit]) -> Vec<u64> {
    let values = hits.iter().filter_map(|hit| hit.value);
    values.map(|value| value.bits).collect()
}

#[test]
fn a_librarys_variable_is_watched_before_its_constructors_run() {
    if !can_watch() {
        return;
    }
    assert_eq!(written(&[], Mode::Exact), [40, 41, 42]);
    assert_eq!(written(&[], Mode::Observe), [40, 41, 42]);
}

#[test]
fn a_program_that_replaces_itself_is_watched_again() {
    if !can_watch() {
        return;
    }
    // The constructor runs in both programs.
    assert_eq!(written(&["again"], Mode::Exact), [40, 40, 41, 42]);
}

/// A library that a running process opens later is watched from then on.
#[test]
fn a_library_that_is_opened_later() {
    if !can_watch() {
        return;
    }
    for mode in [Mode::Exact, Mode::Observe] {
        let folder = Folder::new("libraries");
        let variable = library(&folder);
        folder.run(&format!(
            "gcc -g -O1 -o program {} -ldl",
            source("opens_library.c")
        ));
        let mut child = Command::new(folder.path().join("program"))
            .arg(folder.path().join("libshared.so"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        wait_until_it_reads(child.id());
        let request = Request {
            target: Target::Process(Pid(child.id())),
            locations: vec![variable],
            mode: ModeRequest::Only(mode),
            keeper: Some(keeper()),
        };
        let files = CodeFiles::default();
        let (mut session, _) = Session::start(request, &files).expect("the process can be watched");
        let mut stdin = child.stdin.take().expect("it was asked for");
        stdin.write_all(b"\n").expect("the program reads");
        let started = Instant::now();
        let mut hits = Vec::new();
        while session.summary().spans.is_empty() {
            hits.extend(session.next(Duration::from_millis(20)).expect("it runs").hits);
            assert!(started.elapsed() < LIMIT, "the library is not found in {mode}");
        }
        stdin.write_all(b"\n").expect("the program reads");
        let (rest, _) = to_end(&mut session);
        hits.extend(rest);
        // Nobody saw the constructor in observe mode, and that is said.
        let (all, late): (&[u64], u64) = match mode {
            Mode::Exact => (&[40, 41, 42], 0),
            _ => (&[41, 42], 1),
        };
        assert_eq!(
            (values(&hits).as_slice(), session.summary().late_armed),
            (all, late),
            "{mode}"
        );
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!(output.stdout, b"42\n");
    }
}

/// A process that runs already and replaces itself is watched again, in every mode.
#[test]
fn a_process_that_replaces_itself_is_watched_again() {
    if !can_watch() {
        return;
    }
    for mode in [Mode::Exact, Mode::Observe] {
        let program = Program::compile("replaces.c", "-O1");
        let mut child = Command::new(program.path())
            .stdin(Stdio::piped())
            .spawn()
            .expect("the program starts");
        wait_until_it_reads(child.id());
        let request = Request {
            target: Target::Process(Pid(child.id())),
            locations: vec![program.global("counter", 8, Trigger::Write)],
            mode: ModeRequest::Only(mode),
            keeper: Some(keeper()),
        };
        let files = CodeFiles::default();
        let (mut session, _) = Session::start(request, &files).expect("the process can be watched");
        let mut stdin = child.stdin.take().expect("it was asked for");
        stdin.write_all(b"\n").expect("the program reads");
        let started = Instant::now();
        let mut hits = Vec::new();
        while session.summary().spans.len() < 2 {
            hits.extend(session.next(Duration::from_millis(20)).expect("it runs").hits);
            assert!(started.elapsed() < LIMIT, "it is not watched again in {mode}");
        }
        stdin.write_all(b"\n").expect("the program reads");
        let (rest, end) = to_end(&mut session);
        hits.extend(rest);
        assert_eq!(end, End::Exited(0), "{mode}");
        assert_eq!(values(&hits), [40, 41, 42], "{mode}");
        // Nobody stops an observed process where it begins anew, and that is said.
        let late = u64::from(mode == Mode::Observe);
        assert_eq!(session.summary().late_armed, late, "{mode}");
        assert!(child.wait().expect("the program ends").success());
    }
}

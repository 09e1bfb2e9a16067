//! Running a program under watch, and what comes out.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use program::LinkAddr;
use tracee::Pid;
use tracee::ptrace::{End, Launch, Stream};
use watchpoint::code::CodeFiles;
use watchpoint::session::{Keeper, Request, Session};
use watchpoint::{Address, Hit, Mode, ModeRequest, Summary, Target, Trigger, WatchSpec};

use crate::support::Folder;

/// Far longer than anything here takes, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A compiled program and its symbols.
pub struct Program {
    pub folder: Folder,
    pub symbols: HashMap<String, u64>,
}

impl Program {
    pub fn compile(source: &str, options: &str) -> Self {
        let folder = Folder::new("programs");
        let path = format!("{}/tests/programs/{source}", env!("CARGO_MANIFEST_DIR"));
        folder.run(&format!("gcc -g {options} -o program {path} -pthread"));
        let symbols = folder.run("nm program");
        let symbols = symbols.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let addr = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((words.nth(1)?.to_owned(), addr))
        });
        let symbols = symbols.collect();
        Self { folder, symbols }
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("program")
    }

    pub fn global(&self, name: &str, len: u32, trigger: Trigger) -> WatchSpec {
        let addr = self.symbols.get(name);
        WatchSpec {
            address: Address::Static {
                module: None,
                addr: LinkAddr(*addr.unwrap_or_else(|| panic!("no symbol {name}"))),
            },
            len,
            trigger,
            places: 1,
        }
    }
}

/// What a watched run gave.
pub struct Outcome {
    pub pid: Pid,
    pub hits: Vec<Hit>,
    pub end: End,
    pub output: String,
    pub summary: Summary,
    /// Where the program was.
    pub bias: u64,
}

/// Runs a program under watch to its end.
pub fn launch(program: &Program, arguments: &[&str], locations: Vec<WatchSpec>, mode: Mode) -> Outcome {
    let launch = Launch::new(program.path())
        .args(arguments.iter().copied())
        .stdin(Stream::Null)
        .stdout(Stream::Pipe);
    let files = CodeFiles::default();
    let request = Request {
        target: Target::Launch(launch),
        locations,
        mode: ModeRequest::Only(mode),
        keeper: None,
    };
    let (mut session, mut pipes) = Session::start(request, &files).expect("the program can be watched");
    assert_eq!(session.mode(), mode);
    let (hits, end) = to_end(&mut session);
    let mut output = String::new();
    let mut stdout = pipes.stdout.take().expect("it was asked for");
    stdout.read_to_string(&mut output).expect("the pipe can be read");
    let modules = session.code().modules().expect("the process had modules");
    let bias = modules.executable().and_then(|module| module.mapped.bias);
    Outcome {
        pid: session.pid(),
        hits,
        end,
        output,
        summary: session.summary(),
        bias: bias.unwrap_or(0),
    }
}

/// The keeper that this package's examples have.
pub fn keeper() -> Keeper {
    let test = std::env::current_exe().expect("a running test has a file");
    let folder = test.ancestors().nth(2).expect("tests are two folders deep");
    let program = folder.join("examples/keeper");
    assert!(program.exists(), "cargo builds examples before it runs tests");
    Keeper {
        program,
        arguments: Vec::new(),
    }
}

/// Starts a program that waits for a line, attaches to it, gives it the line and watches it to its end.
pub fn attach(program: &Program, arguments: &[&str], locations: Vec<WatchSpec>, mode: Mode) -> Outcome {
    let mut child = Command::new(program.path())
        .args(arguments)
        .arg("wait")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    wait_until_it_reads(child.id());
    let files = CodeFiles::default();
    let request = Request {
        target: Target::Process(Pid(child.id())),
        locations,
        mode: ModeRequest::Only(mode),
        keeper: Some(keeper()),
    };
    let (mut session, _) = Session::start(request, &files).expect("the process can be watched");
    assert_eq!(session.mode(), mode);
    let mut stdin = child.stdin.take().expect("it was asked for");
    stdin.write_all(b"\n").expect("the program reads");
    // Nobody has taken its status yet, so that it can be seen in every mode.
    let (hits, end) = to_end(&mut session);
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(
        end,
        End::Exited(output.status.code().expect("it ended by itself"))
    );
    let modules = session.code().modules().expect("the process had modules");
    let bias = modules.executable().and_then(|module| module.mapped.bias);
    Outcome {
        pid: session.pid(),
        hits,
        end,
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        summary: session.summary(),
        bias: bias.unwrap_or(0),
    }
}

/// Waits until a process waits for its standard input: its libraries are there, and nothing has happened yet.
pub fn wait_until_it_reads(pid: u32) {
    let started = Instant::now();
    while std::fs::read_to_string(format!("/proc/{pid}/syscall")).is_ok_and(|call| !call.starts_with("0 0x0"))
    {
        assert!(started.elapsed() < LIMIT, "the program does not read");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes hits until the process ends.
pub fn to_end(session: &mut Session<'_>) -> (Vec<Hit>, End) {
    let started = Instant::now();
    let mut hits = Vec::new();
    loop {
        let progress = session
            .next(Duration::from_millis(200))
            .expect("the process can be watched to its end");
        hits.extend(progress.hits);
        if let Some(end) = progress.ended {
            return (hits, end);
        }
        assert!(started.elapsed() < LIMIT, "the process does not end");
    }
}

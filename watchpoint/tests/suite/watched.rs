//! Running a program under watch, and what comes out.

use std::collections::HashMap;
use std::io::Read as _;
use std::time::{Duration, Instant};

use program::LinkAddr;
use tracee::ptrace::{End, Launch, Stream};
use watchpoint::code::CodeFiles;
use watchpoint::session::{Request, Session};
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
        }
    }
}

/// What a watched run gave.
pub struct Outcome {
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
        hits,
        end,
        output,
        summary: session.summary(),
        bias: bias.unwrap_or(0),
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

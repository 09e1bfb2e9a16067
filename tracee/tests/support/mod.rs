//! A compiled program that says where its variables are, and does what it is told.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its part; a test ends at what it did not expect"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use failsketch_tests::folder::Folder;
use failsketch_tests::process::tool;
use program::RunAddr;
use tracee::{Pid, Tid};

/// The program `accesses.c`, compiled.
pub struct Built {
    pub folder: Folder,
    pub exe: PathBuf,
}

/// Compiles it.
pub fn build(options: &[&str]) -> Built {
    let folder = Folder::new("accesses");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/accesses.c");
    let mut gcc = Command::new("gcc");
    gcc.args(["-g", "-pthread"])
        .args(options)
        .arg(source)
        .args(["-o", "accesses"]);
    let _ = tool(&mut gcc, folder.path());
    Built {
        exe: folder.path().join("accesses"),
        folder,
    }
}

/// A running one, waiting to be told to go on.
pub struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub watched: RunAddr,
    pub other: RunAddr,
    pub step: RunAddr,
    pub refused: RunAddr,
}

impl Built {
    /// Starts it with so many threads (0: the first one does the work) that write so often.
    pub fn start(&self, threads: u32, writes: u32) -> Running {
        self.start_as(Command::new(&self.exe), threads, writes)
    }

    /// The same, with the kernel writing in its place.
    pub fn start_with_kernel(&self, threads: u32, writes: u32) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" kernel"]).arg(&self.exe);
        self.start_as(command, threads, writes)
    }

    pub fn start_as(&self, mut command: Command, threads: u32, writes: u32) -> Running {
        let mut child = command
            .args([threads.to_string(), writes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let addrs: Vec<_> = line
            .split_whitespace()
            .map(|text| RunAddr(u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()))
            .collect();
        Running {
            child,
            input,
            output,
            watched: addrs[0],
            other: addrs[1],
            step: addrs[2],
            refused: addrs[3],
        }
    }
}

impl Running {
    pub fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    pub fn tid(&self) -> Tid {
        self.pid().first_thread()
    }

    /// Lets it go on without waiting for what it does.
    pub fn go(&mut self) {
        self.input.write_all(b"\n").unwrap();
    }

    /// Waits until it has done its accesses; gives the last value of `watched`.
    pub fn done(&mut self) -> u64 {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().parse().unwrap_or_else(|_| panic!("it said {line:?}"))
    }

    /// Lets it do its accesses, and waits until it has.
    pub fn run(&mut self) -> u64 {
        self.go();
        self.done()
    }

    /// Lets it end.
    pub fn end(mut self) -> ExitStatus {
        drop(self.input);
        self.child.wait().unwrap()
    }

    /// The offset in its file of an address in its text.
    pub fn file_offset(&self, addr: RunAddr) -> u64 {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
        for line in maps.lines() {
            let fields: Vec<_> = line.split_whitespace().collect();
            let (start, end) = fields[0].split_once('-').unwrap();
            let (start, end) = (hex(start), hex(end));
            if (start..end).contains(&addr.0) {
                return addr.0 - start + hex(fields[2]);
            }
        }
        panic!("{addr} is not mapped")
    }
}

//! Running processes that may not end.

use std::io::{Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What a process did.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// It was ended because it did not end by itself.
    pub hung: bool,
}

impl Finished {
    /// Its exit status, or the signal that ended it, in words.
    #[must_use]
    pub fn how(&self) -> String {
        match (self.hung, self.status.code(), self.status.signal()) {
            (true, ..) => "hang".to_owned(),
            (_, Some(code), _) => format!("exit status {code}"),
            (_, None, Some(signal)) => signal_name(signal).to_owned(),
            (_, None, None) => "no exit status".to_owned(),
        }
    }
}

/// The names of the signals that programs die of.
#[must_use]
pub fn signal_name(signal: i32) -> &'static str {
    match signal {
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        _ => "another signal",
    }
}

/// Runs a command to its end. If that takes longer than `limit`, `on_hang` gets to look at the process, and
/// then it is killed.
///
/// # Panics
/// When the command does not start.
pub fn run(command: &mut Command, stdin: &[u8], limit: Duration, on_hang: impl FnOnce(u32)) -> Finished {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let stdout = child.stdout.take().map(read_beside);
    let stderr = child.stderr.take().map(read_beside);
    if let Some(mut pipe) = child.stdin.take() {
        let stdin = stdin.to_vec();
        // A process that fails early does not read its input to the end, and need not.
        thread::spawn(move || pipe.write_all(&stdin));
    }
    let (hung, status) = match wait(&mut child, limit) {
        Some(status) => (false, status),
        None => {
            on_hang(child.id());
            let _ = child.kill();
            (true, child.wait().expect("a child can be waited for"))
        }
    };
    let text = |reader: Option<thread::JoinHandle<String>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    Finished {
        status,
        stdout: text(stdout),
        stderr: text(stderr),
        hung,
    }
}

/// Runs a tool that must succeed, in a folder; gives its standard output.
///
/// # Panics
/// When it is not installed or fails.
#[must_use]
pub fn tool(command: &mut Command, folder: &Path) -> String {
    const LONG: Duration = Duration::from_secs(300);
    let done = run(command.current_dir(folder), b"", LONG, |_| ());
    assert!(
        done.status.success(),
        "{command:?}: {}\n{}{}",
        done.how(),
        done.stdout,
        done.stderr
    );
    done.stdout
}

fn read_beside(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    None
}

//! A process that runs beside the test, with what it has printed so far.

use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::Finished;

/// Whatever takes longer hangs, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(120);

/// A process that was started and not yet waited for. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Output,
    stderr: Output,
    how: String,
}

impl Running {
    /// Starts a command with pipes to all its ends.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let how = format!("{command:?}");
        let mut child = command
            // Of a group whose parent is in another: in an orphaned one the kernel ignores SIGTSTP.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{how} does not start: {error}"));
        Self {
            stdin: child.stdin.take(),
            stdout: Output::of(child.stdout.take()),
            stderr: Output::of(child.stderr.take()),
            child,
            how,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends its standard input.
    pub fn end_input(&mut self) {
        self.stdin = None;
    }

    /// Writes to its standard input; it may have ended.
    pub fn write(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
        }
    }

    /// The first line of standard output that starts so; waits for it.
    ///
    /// # Errors
    /// What it printed instead, when it ended without.
    pub fn stdout_line(&self, start: &str) -> Result<String, String> {
        self.stdout.line(start)
    }

    /// The same of standard error.
    ///
    /// # Errors
    /// What it printed instead, when it ended without.
    pub fn stderr_line(&self, start: &str) -> Result<String, String> {
        self.stderr.line(start)
    }

    /// Whether it has not ended.
    ///
    /// # Panics
    /// When the kernel does not say.
    pub fn runs(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("a child can be waited for")
            .is_none()
    }

    /// Sends it a signal, by name.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Kills it at once, and takes its exit status.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end and for all of its output.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        self.end_input();
        let status = self.wait();
        let (stdout, stderr) = (self.stdout.all(), self.stderr.all());
        let (Some(status), Some(stdout), Some(stderr)) = (status, stdout, stderr) else {
            let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
            panic!("{} does not end:\n{stdout}\n{stderr}", self.how);
        };
        Finished {
            status,
            stdout,
            stderr,
            hung: false,
        }
    }

    fn wait(&mut self) -> Option<ExitStatus> {
        let end = Instant::now() + LONGEST;
        let mut pause = Duration::from_micros(500);
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.runs() {
            self.kill();
        }
    }
}

/// Sends a process a signal, by name. The process may be gone.
///
/// # Panics
/// When there is no `kill` command.
pub fn signal(pid: u32, name: &str) {
    let mut kill = Command::new("kill");
    kill.args([format!("-{name}"), pid.to_string()])
        .stderr(Stdio::null());
    let _ = kill.status().expect("the kill command runs");
}

/// What came out of a pipe so far, and whether more may come.
#[derive(Debug)]
struct Output(Arc<(Mutex<Text>, Condvar)>);

#[derive(Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    ended: bool,
}

impl Output {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let shared: Arc<(Mutex<Text>, Condvar)> = Arc::default();
        let mut pipe = pipe.expect("the pipe was asked for");
        let writer = Arc::clone(&shared);
        thread::spawn(move || {
            let mut part = [0; 1 << 16];
            loop {
                let count = pipe.read(&mut part).unwrap_or(0);
                let mut text = lock(&writer.0);
                text.bytes.extend_from_slice(&part[..count]);
                text.ended = count == 0;
                writer.1.notify_all();
                if count == 0 {
                    break;
                }
            }
        });
        Self(shared)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&lock(&self.0.0).bytes).into_owned()
    }

    /// Everything, once it has ended.
    fn all(&self) -> Option<String> {
        self.wait_for(|text| {
            text.ended
                .then(|| String::from_utf8_lossy(&text.bytes).into_owned())
        })
    }

    fn line(&self, start: &str) -> Result<String, String> {
        let found = self.wait_for(|text| {
            let all = String::from_utf8_lossy(&text.bytes);
            let mut lines = all.split_inclusive('\n');
            match lines.find(|line| line.starts_with(start) && line.ends_with('\n')) {
                Some(line) => Some(Ok(line.trim_end().to_owned())),
                None => text.ended.then(|| Err(all.clone().into_owned())),
            }
        });
        found.unwrap_or_else(|| Err(format!("{}\n(and goes on running)", self.text())))
    }

    fn wait_for<T>(&self, mut look: impl FnMut(&Text) -> Option<T>) -> Option<T> {
        let end = Instant::now() + LONGEST;
        let mut text = lock(&self.0.0);
        loop {
            if let Some(found) = look(&text) {
                return Some(found);
            }
            let left = end.checked_duration_since(Instant::now())?;
            text = self
                .0
                .1
                .wait_timeout(text, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

fn lock(text: &Mutex<Text>) -> MutexGuard<'_, Text> {
    text.lock().unwrap_or_else(PoisonError::into_inner)
}

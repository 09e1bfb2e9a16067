//! Output that goes through us: passed on as it comes, looked at line by line, its end kept.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use failure::fail_on::{FailOn, Pattern, Stream};

use super::options::Output;
use super::outcome::Captured;
use crate::ptrace;

/// Kept of each output: more than any message about a failure takes.
const KEPT: usize = 256 << 10;
/// Longer lines are looked at in pieces.
const LONGEST_LINE: usize = 64 << 10;

/// One output of a run.
#[derive(Debug, Default)]
pub(super) struct Capture {
    pump: Option<Pump>,
}

#[derive(Debug)]
struct Pump {
    /// Dropped to say that the program has ended.
    running: PipeWriter,
    result: Receiver<Seen>,
}

/// What was seen of an output.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) captured: Captured,
    /// For each pattern, in order: the first line that matched it.
    pub(super) matched: Vec<Option<String>>,
}

/// What becomes of an output, given that somebody may want to look at it.
pub(super) fn effective(output: Output, stream: Stream, fail_on: &FailOn) -> Output {
    let looked_at = fail_on.patterns(stream).next().is_some();
    match output {
        Output::Inherit if looked_at => Output::Tee,
        Output::Discard if looked_at => Output::Keep,
        other => other,
    }
}

/// What the program gets for it, unless it is what it was launched with.
pub(super) fn stream(output: Output) -> Option<ptrace::Stream> {
    match output {
        Output::Inherit => None,
        Output::Discard => Some(ptrace::Stream::Null),
        Output::Tee | Output::Keep => Some(ptrace::Stream::Pipe),
    }
}

impl Capture {
    /// Starts to read an output, if it is a pipe.
    pub(super) fn start(
        pipe: Option<File>,
        output: Output,
        which: Stream,
        fail_on: &FailOn,
    ) -> io::Result<Self> {
        let Some(pipe) = pipe else {
            return Ok(Self::default());
        };
        let onward = match (output, which) {
            (Output::Tee, Stream::Stdout) => Some(io::stdout().as_fd().try_clone_to_owned()?.into()),
            (Output::Tee, Stream::Stderr) => Some(io::stderr().as_fd().try_clone_to_owned()?.into()),
            _ => None,
        };
        let (ended, running) = io::pipe()?;
        let (tell, result) = mpsc::channel();
        let reader = Reader {
            pipe,
            onward,
            lines: Lines::new(fail_on.patterns(which).cloned().collect()),
            captured: Captured::default(),
        };
        thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || reader.run(&ended, &tell))?;
        Ok(Self {
            pump: Some(Pump { running, result }),
        })
    }

    /// What was seen until the program ended. Processes that it left behind may go on writing: that is passed
    /// on, and not waited for.
    pub(super) fn finish(self) -> Seen {
        /// For a reader on a machine that has other things to do; it needs a system call or two.
        const PATIENCE: Duration = Duration::from_secs(10);
        let Some(Pump { running, result }) = self.pump else {
            return Seen::default();
        };
        drop(running);
        result.recv_timeout(PATIENCE).unwrap_or_default()
    }
}

struct Reader {
    pipe: File,
    onward: Option<File>,
    lines: Lines,
    captured: Captured,
}

impl Reader {
    fn run(mut self, ended: &PipeReader, tell: &mpsc::Sender<Seen>) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let ready = wait(&self.pipe, ended);
            if ready.output {
                let count = self.pipe.read(&mut buffer).unwrap_or(0);
                let bytes = buffer.get(..count).unwrap_or_default();
                // When nobody reads any more, the program learns it as it would without us.
                if bytes.is_empty() || !self.take(bytes) {
                    self.tell(tell);
                    return;
                }
            } else if ready.ended {
                self.tell(tell);
                self.pass_on(&mut buffer);
                return;
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> bool {
        self.lines.take(bytes);
        self.captured.total = self.captured.total.saturating_add(bytes.len() as u64);
        self.captured.tail.extend_from_slice(bytes);
        if self.captured.tail.len() > 2 * KEPT {
            let drop = self.captured.tail.len() - KEPT;
            self.captured.tail.drain(..drop);
        }
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> bool {
        self.onward
            .as_mut()
            .is_none_or(|file| file.write_all(bytes).is_ok())
    }

    fn tell(&mut self, tell: &mpsc::Sender<Seen>) {
        let mut captured = std::mem::take(&mut self.captured);
        let excess = captured.tail.len().saturating_sub(KEPT);
        captured.tail.drain(..excess);
        let _nobody_waits = tell.send(Seen {
            captured,
            matched: self.lines.finish(),
        });
    }

    /// What processes write that outlived the program.
    fn pass_on(&mut self, buffer: &mut [u8]) {
        while let Ok(count @ 1..) = self.pipe.read(buffer) {
            if !self.write(buffer.get(..count).unwrap_or_default()) {
                break;
            }
        }
    }
}

struct Ready {
    output: bool,
    ended: bool,
}

/// Waits for output or for the end of the program.
fn wait(pipe: &File, ended: &PipeReader) -> Ready {
    let entry = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polled = [entry(pipe.as_raw_fd()), entry(ended.as_raw_fd())];
    // SAFETY: two entries are given, and they live as long as the call.
    unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
    let [output, ended] = polled.map(|entry| entry.revents != 0);
    Ready { output, ended }
}

/// Matches lines as they come.
struct Lines {
    patterns: Vec<Pattern>,
    matched: Vec<Option<String>>,
    unfinished: Vec<u8>,
}

impl Lines {
    fn new(patterns: Vec<Pattern>) -> Self {
        Self {
            matched: vec![None; patterns.len()],
            patterns,
            unfinished: Vec::new(),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.patterns.is_empty() {
            return;
        }
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.unfinished.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.unfinished.len() >= LONGEST_LINE {
                self.look();
            }
        }
    }

    fn look(&mut self) {
        let line = std::mem::take(&mut self.unfinished);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        for (pattern, matched) in self.patterns.iter().zip(&mut self.matched) {
            if matched.is_none() && pattern.matches(line) {
                *matched = Some(String::from_utf8_lossy(line).into_owned());
            }
        }
    }

    fn finish(&mut self) -> Vec<Option<String>> {
        if !self.unfinished.is_empty() {
            self.look();
        }
        std::mem::take(&mut self.matched)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn lines_match_wherever_they_are_cut() {
        let fail_on: FailOn = "stdout~^total 7$|stdout~^x".parse().unwrap();
        let mut lines = Lines::new(fail_on.patterns(Stream::Stdout).cloned().collect());
        for part in ["sum\ntot", "al", " 7\r\nm", "ore"] {
            lines.take(part.as_bytes());
        }
        assert_eq!(lines.finish(), [Some("total 7".to_owned()), None]);
    }

    fn pipe() -> (File, File) {
        let (from, to) = io::pipe().unwrap();
        (File::from(OwnedFd::from(from)), File::from(OwnedFd::from(to)))
    }

    fn reader(pipe: File, onward: File) -> Reader {
        Reader {
            pipe,
            onward: Some(onward),
            lines: Lines::new(Vec::new()),
            captured: Captured::default(),
        }
    }

    #[test]
    fn output_is_passed_on_and_its_end_kept() {
        let (from, mut program) = pipe();
        let (mut result, onward) = pipe();
        let (ended, running) = io::pipe().unwrap();
        let (tell, told) = mpsc::channel();
        let pump = thread::spawn(move || reader(from, onward).run(&ended, &tell));
        let read = thread::spawn(move || {
            let mut bytes = Vec::new();
            result.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let line = [b'x'; 1 << 16];
        for _ in 0..16 {
            program.write_all(&line).unwrap();
        }
        // The program ends; a process that it left behind still has the pipe.
        drop(running);
        let seen: Seen = told.recv().unwrap();
        assert_eq!((seen.captured.total, seen.captured.tail.len()), (1 << 20, KEPT));
        program.write_all(b"later").unwrap();
        drop(program);
        pump.join().unwrap();
        assert_eq!(read.join().unwrap().len(), (1 << 20) + 5);
    }

    #[test]
    fn a_program_learns_that_nobody_reads() {
        let (from, mut program) = pipe();
        let (result, onward) = pipe();
        let (ended, _running) = io::pipe().unwrap();
        let (tell, told) = mpsc::channel();
        drop(result);
        let pump = thread::spawn(move || reader(from, onward).run(&ended, &tell));
        program.write_all(b"lost").unwrap();
        pump.join().unwrap();
        assert_eq!(told.recv().unwrap().captured.tail, b"lost");
        assert_eq!(
            program.write(b"more").unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
    }

    #[test]
    fn a_last_line_needs_no_end() {
        let fail_on: FailOn = "stdout~^end$".parse().unwrap();
        let mut lines = Lines::new(fail_on.patterns(Stream::Stdout).cloned().collect());
        lines.take(b"an\nend");
        assert_eq!(lines.finish(), [Some("end".to_owned())]);
    }
}

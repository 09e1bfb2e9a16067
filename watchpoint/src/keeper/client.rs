//! The front's end of a keeper.

use std::io::BufReader;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tracee::Pid;

use super::bytes::receive;
use super::message::{Order, Said};
use crate::error::WatchError;
use crate::hit::Mode;
use crate::session::Keeper;
use crate::watcher::{Event, WatchSpec, Watcher};

/// How many events wait for their reader. Then the pipe fills, the keeper waits, and with it the process.
const WAITING: usize = 4096;

/// Watches a process that runs already, in exact mode, through a keeper.
pub struct KeptWatcher {
    pid: Pid,
    keeper: Child,
    control: UnixStream,
    said: Receiver<Said>,
    reader: Option<JoinHandle<()>>,
    ended: bool,
}

impl KeptWatcher {
    /// Starts a keeper and has it watch a process.
    ///
    /// # Errors
    /// When the keeper cannot be started, or says why the process cannot be watched.
    pub fn attach(keeper: &Keeper, pid: Pid, specs: Vec<WatchSpec>) -> Result<Self, WatchError> {
        let (control, theirs) = UnixStream::pair().map_err(WatchError::system("make a socket"))?;
        let mut keeper = Command::new(&keeper.program)
            .args(&keeper.arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .spawn()
            .map_err(WatchError::system("start a keeper"))?;
        let order = Order { pid, specs };
        order
            .to_bytes()
            .send(&mut &control)
            .map_err(WatchError::system("speak to the keeper"))?;
        let (sender, said) = sync_channel(WAITING);
        let stdout = keeper.stdout.take();
        let reader = std::thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || listen(stdout, &sender))
            .map_err(WatchError::system("start a thread"))?;
        let watcher = Self {
            pid,
            keeper,
            control,
            said,
            reader: Some(reader),
            ended: false,
        };
        match watcher.said.recv() {
            Ok(Said::Ready) => Ok(watcher),
            Ok(Said::Failed(why)) => Err(WatchError::Said(why)),
            _ => Err(watcher.gone()),
        }
    }

    fn gone(&self) -> WatchError {
        WatchError::Keeper {
            pid: self.pid,
            why: "it said nothing more; watch the process in observe mode".to_owned(),
        }
    }
}

fn event(said: Said) -> Result<Option<Event>, WatchError> {
    match said {
        Said::Event(event) => Ok(Some(event)),
        Said::Failed(why) => Err(WatchError::Said(why)),
        Said::Ready => Ok(None),
    }
}

/// Reads what the keeper says until it has said everything, or nobody wants to know.
fn listen(stdout: Option<ChildStdout>, to: &SyncSender<Said>) {
    let Some(stdout) = stdout else { return };
    let mut stream = BufReader::new(stdout);
    while let Ok(Some(frame)) = receive(&mut stream) {
        let Some(said) = Said::from_bytes(&frame) else {
            return;
        };
        if to.send(said).is_err() {
            return;
        }
    }
}

impl Watcher for KeptWatcher {
    fn mode(&self) -> Mode {
        Mode::Exact
    }

    fn pid(&self) -> Pid {
        self.pid
    }

    fn next(&mut self, timeout: Duration) -> Result<Vec<Event>, WatchError> {
        let first = match self.said.recv_timeout(timeout) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => return Ok(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
        };
        let mut events = Vec::from_iter(event(first)?);
        while let Ok(said) = self.said.try_recv() {
            events.extend(event(said)?);
        }
        self.ended |= events.iter().any(|event| matches!(event, Event::Ended(_)));
        Ok(events)
    }

    fn stop(&mut self) -> Result<Vec<Event>, WatchError> {
        // The end of this stream tells the keeper to leave.
        let _gone_already = self.control.shutdown(Shutdown::Write);
        let mut events = Vec::new();
        while let Ok(said) = self.said.recv() {
            events.extend(event(said)?);
        }
        if let Some(reader) = self.reader.take() {
            let _its_panic_is_no_hit = reader.join();
        }
        self.keeper
            .wait()
            .map_err(WatchError::system("wait for the keeper"))?;
        Ok(events)
    }
}

impl Drop for KeptWatcher {
    fn drop(&mut self) {
        let _gone_already = self.control.shutdown(Shutdown::Both);
        // Its pipe must not stay full while it leaves.
        while self.said.recv().is_ok() {}
        let _reaped = self.keeper.wait();
    }
}

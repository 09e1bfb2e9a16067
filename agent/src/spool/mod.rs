//! What waits on disk to be sent: runs and failures, oldest first, until the server has acknowledged them.
//!
//! - `file`: one entry in a file
//!
//! Names are numbers that count up, also after a restart, so their order is the order in which things happened. There is room for so many bytes:
//! when it is full the oldest go, and are counted, and the server is told how many went.

mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::Notify;

use crate::durable::{self, TEMPORARY};
pub use file::Item;

/// What a file costs beside its bytes, so that many small ones do not fill a disk.
const BLOCK: u64 = 4096;
/// The file that counts what went.
const DROPPED: &str = "dropped";
const LOCK: &str = "lock";
const EXTENSION: &str = ".entry";

/// Why things cannot wait on disk.
#[derive(Debug, Error)]
pub enum SpoolError {
    /// The folder cannot be used.
    #[error(
        "cannot use {path} for what waits to be sent: write a folder that can be written to as `spool.path`"
    )]
    Folder {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another agent has it.
    #[error("another agent uses {0}: give each its own `spool.path`")]
    InUse(PathBuf),
    /// An entry cannot be written.
    #[error("cannot write to {path}")]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// An entry's place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

impl Ticket {
    fn name(self) -> String {
        format!("{:020}{EXTENSION}", self.0)
    }

    fn of(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(EXTENSION)?;
        let number = digits.parse().ok()?;
        (Self(number).name() == name).then_some(Self(number))
    }
}

/// What is lost, as far as it was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Entries that went because there was no room, and that the server has not been told of.
    pub dropped: u64,
    /// Files that were not what had been written, since this was opened.
    pub corrupted: u64,
}

/// Entries on disk. For threads that run programs and one that sends.
pub struct Spool {
    folder: PathBuf,
    most_bytes: u64,
    state: Mutex<State>,
    /// Something is there to be sent.
    pub filled: Notify,
    /// Held for as long as this is ours.
    _lock: File,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<Ticket, u64>,
    bytes: u64,
    next: u64,
    losses: Losses,
    /// On their way to the server: whether they are lost is not ours to say.
    sent: BTreeSet<Ticket>,
}

impl Spool {
    /// A folder for at most so many bytes; what is in there already is sent first.
    ///
    /// # Errors
    /// When it cannot be used, or another agent uses it.
    pub fn open(folder: &Path, most_bytes: u64) -> Result<Self, SpoolError> {
        let unusable = |source| SpoolError::Folder {
            path: folder.to_owned(),
            source,
        };
        fs::create_dir_all(folder).map_err(unusable)?;
        let lock = File::create(folder.join(LOCK)).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => return Err(SpoolError::InUse(folder.to_owned())),
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        let state = State::found_in(folder).map_err(unusable)?;
        let spool = Self {
            folder: folder.to_owned(),
            most_bytes,
            state: Mutex::new(state),
            filled: Notify::new(),
            _lock: lock,
        };
        // The limit may be lower than it was.
        spool.make_room(&mut spool.state(), 0);
        spool.filled.notify_one();
        Ok(spool)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an entry last. When this returns it is on the disk, or was dropped and counted because it is larger than all
    /// the room, or than a message may be.
    ///
    /// # Errors
    /// When it cannot be written: it is counted as dropped.
    pub fn push(&self, item: &Item) -> Result<(), SpoolError> {
        let bytes = item.to_bytes();
        let cost = cost(bytes.len() as u64);
        let mut state = self.state();
        if cost > self.most_bytes || item.size() + REQUEST > proto::MOST_MESSAGE {
            tracing::warn!(bytes = bytes.len(), "too large to be kept: dropped");
            self.drop_some(&mut state, 1);
            return Ok(());
        }
        self.make_room(&mut state, cost);
        let ticket = Ticket(state.next);
        state.next += 1;
        if let Err(source) = durable::write(&self.folder, &ticket.name(), &bytes) {
            self.drop_some(&mut state, 1);
            return Err(SpoolError::Write {
                path: self.folder.clone(),
                source,
            });
        }
        state.entries.insert(ticket, cost);
        state.bytes += cost;
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    fn make_room(&self, state: &mut State, cost: u64) {
        let mut went = 0;
        while state.bytes + cost > self.most_bytes {
            let sent = &state.sent;
            let oldest = state
                .entries
                .keys()
                .find(|ticket| !sent.contains(ticket))
                .copied();
            let Some(oldest) = oldest else { break };
            self.forget(state, oldest);
            went += 1;
        }
        if went > 0 {
            tracing::warn!(went, "no room for what waits to be sent: the oldest went");
            self.drop_some(state, went);
        }
    }

    /// Counts what went, on disk too: whoever is killed has not lost count.
    fn drop_some(&self, state: &mut State, went: u64) {
        state.losses.dropped = state.losses.dropped.saturating_add(went);
        self.write_dropped(state.losses.dropped);
    }

    fn write_dropped(&self, dropped: u64) {
        if let Err(error) = durable::write(&self.folder, DROPPED, dropped.to_string().as_bytes()) {
            tracing::warn!(%error, "cannot keep count of what was dropped");
        }
    }

    fn forget(&self, state: &mut State, ticket: Ticket) {
        if let Some(cost) = state.entries.remove(&ticket) {
            state.bytes = state.bytes.saturating_sub(cost);
        }
        state.sent.remove(&ticket);
        // One that is not there any more is forgotten as well; one that stays is sent again, which counts once.
        let _gone = fs::remove_file(self.folder.join(ticket.name()));
    }

    /// The oldest entries, all runs or a single failure, that fit into one message. They stay until they are
    /// [`remove`](Self::remove)d.
    #[must_use]
    pub fn oldest(&self) -> Vec<(Ticket, Item)> {
        let mut state = self.state();
        let mut taken = Vec::new();
        let mut size = REQUEST;
        let tickets: Vec<Ticket> = state.entries.keys().take(proto::MOST_RUNS).copied().collect();
        for ticket in tickets {
            let bytes = fs::read(self.folder.join(ticket.name()));
            let Some(item) = bytes.ok().and_then(|bytes| Item::from_bytes(&bytes)) else {
                tracing::warn!(name = ticket.name(), "not what was written: left out");
                self.forget(&mut state, ticket);
                state.losses.corrupted += 1;
                continue;
            };
            let is_failure = matches!(item, Item::Failure(_));
            size += item.size() + REQUEST;
            if !taken.is_empty() && (is_failure || size > proto::MOST_MESSAGE) {
                break;
            }
            taken.push((ticket, item));
            if is_failure {
                break;
            }
        }
        state.sent = taken.iter().map(|(ticket, _)| *ticket).collect();
        taken
    }

    /// These are settled: the server has them, or never wants them.
    pub fn remove(&self, tickets: impl IntoIterator<Item = Ticket>) {
        let mut state = self.state();
        for ticket in tickets {
            self.forget(&mut state, ticket);
        }
    }

    /// What is lost.
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.state().losses
    }

    /// The server was told of so many that went.
    pub fn told(&self, dropped: u64) {
        if dropped == 0 {
            return;
        }
        let mut state = self.state();
        state.losses.dropped = state.losses.dropped.saturating_sub(dropped);
        self.write_dropped(state.losses.dropped);
    }

    /// How many entries wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a request says beside its runs, and a run beside its bytes: more than enough.
const REQUEST: usize = 1024;

fn cost(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK) * BLOCK
}

impl State {
    fn found_in(folder: &Path) -> io::Result<Self> {
        let mut state = Self::default();
        for file in fs::read_dir(folder)? {
            let file = file?;
            let name = file.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(TEMPORARY) {
                // Whoever wrote it was killed.
                fs::remove_file(file.path())?;
            } else if let Some(ticket) = Ticket::of(name) {
                let cost = cost(file.metadata()?.len());
                state.entries.insert(ticket, cost);
                state.bytes += cost;
                state.next = state.next.max(ticket.0.saturating_add(1));
            }
        }
        let counted = fs::read_to_string(folder.join(DROPPED)).ok();
        state.losses.dropped = counted.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        Ok(state)
    }
}

#[cfg(test)]
mod tests;

//! Watching as a caller sees it: hits in order, with instruction and values.
//!
//! - `select`: which mode, and why
//! - `decode`: from a raw hit to accesses of locations
//! - `record`: what was watched when, and what was lost

mod callers;
mod decode;
mod record;
mod select;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use program::RunAddr;
use tracee::Pid;
use tracee::ptrace::{End, Pipes};

use crate::code::{CodeFiles, ProcessCode};
use crate::error::WatchError;
use crate::hit::{Content, Hit, Mode, Provenance, Summary};
use crate::order::{Orderer, Pending};
use crate::watcher::{Event, ModeRequest, Target, WatchSpec, Watcher};
use decode::Decoder;
use record::Journal;
pub use select::Keeper;

/// What to watch, and how.
#[derive(Debug)]
pub struct Request {
    /// Whom.
    pub target: Target,
    /// Which locations. [`Hit::location`] is the place in this list.
    pub locations: Vec<WatchSpec>,
    /// How.
    pub mode: ModeRequest,
    /// How to start the keeper of an attached process in exact mode.
    pub keeper: Option<Keeper>,
}

/// What came while the caller waited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Hits, in their order.
    pub hits: Vec<Hit>,
    /// The process has ended: nothing more will come.
    pub ended: Option<End>,
}

/// A process that is being watched.
pub struct Session<'f> {
    watcher: Box<dyn Watcher>,
    code: ProcessCode<'f>,
    decoder: Decoder,
    orderer: Orderer,
    /// Places where hits were reported whose values registers told.
    told: BTreeSet<RunAddr>,
    /// How many were asked for; the pointers on the way to some have numbers behind them.
    locations: usize,
    journal: Journal,
    reason: Option<String>,
    /// What came and was not looked at yet.
    waiting: VecDeque<Event>,
    /// The end of the process is among it.
    is_last: bool,
    ended: Option<End>,
}

/// What is looked at before the caller has its turn again: whoever looks after the cost must not wait for hits to be understood.
const AT_ONCE: usize = 512;

impl<'f> Session<'f> {
    /// Starts watching. `files` keeps the code of the process readable.
    ///
    /// # Errors
    /// When the process cannot be started or found, or cannot be watched in this mode.
    pub fn start(request: Request, files: &'f CodeFiles) -> Result<(Self, Pipes), WatchError> {
        let locations = request.locations.clone();
        let selected = select::start(request)?;
        let session = Self {
            reason: selected.reason,
            ..Self::over(selected.watcher, &locations, files)
        };
        Ok((session, selected.pipes))
    }

    /// The same over a watcher that is there already, of these locations.
    #[must_use]
    pub fn over(watcher: Box<dyn Watcher>, locations: &[WatchSpec], files: &'f CodeFiles) -> Self {
        Self {
            watcher,
            code: ProcessCode::new(files),
            decoder: Decoder::new(locations),
            orderer: Orderer::default(),
            told: BTreeSet::new(),
            locations: locations.len(),
            journal: Journal::new(locations.len()),
            reason: None,
            waiting: VecDeque::new(),
            is_last: false,
            ended: None,
        }
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.watcher.pid()
    }

    /// How it is watched.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.watcher.mode()
    }

    /// Why in this mode, when it was chosen for the caller, or what limits it.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The code of the process, by address.
    #[must_use]
    pub fn code(&self) -> &ProcessCode<'f> {
        &self.code
    }

    /// The next hits, waiting at most so long for the first.
    ///
    /// # Errors
    /// When the process can no longer be watched.
    pub fn next(&mut self, timeout: Duration) -> Result<Progress, WatchError> {
        if let Some(ended) = self.ended {
            return Ok(Progress {
                hits: Vec::new(),
                ended: Some(ended),
            });
        }
        if !self.is_last {
            let timeout = if self.waiting.is_empty() {
                timeout
            } else {
                Duration::ZERO
            };
            let events = self.watcher.next(timeout)?;
            self.is_last = events.iter().any(|event| matches!(event, Event::Ended(_)));
            self.waiting.extend(events);
        }
        let some = self.waiting.len().min(AT_ONCE);
        let events: Vec<Event> = self.waiting.drain(..some).collect();
        let hits = self.take_in(events);
        let hits = self.count(hits);
        Ok(Progress {
            hits,
            ended: self.ended,
        })
    }

    /// Stops watching and leaves the process to itself; gives the hits that were still on their way.
    ///
    /// # Errors
    /// When the process could not be left as it was.
    pub fn stop(&mut self) -> Result<Vec<Hit>, WatchError> {
        if self.ended.is_some() {
            return Ok(Vec::new());
        }
        let rest = if self.is_last {
            Vec::new()
        } else {
            self.watcher.stop()?
        };
        let mut events: Vec<Event> = self.waiting.drain(..).collect();
        events.extend(rest);
        let mut hits = self.take_in(events);
        hits.extend(self.orderer.flush());
        Ok(self.count(hits))
    }

    /// How often threads were trapped so far, by location; none where nobody counts.
    #[must_use]
    pub fn traps(&self) -> BTreeMap<usize, u64> {
        self.watcher.traps()
    }

    /// Watches a location no more; what is on its way still comes.
    pub fn leave(&mut self, location: usize) {
        self.waiting.extend(self.watcher.leave(location));
    }

    /// What was watched, and what came of it.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.journal.summary(self.mode(), self.reason.clone())
    }

    fn count(&mut self, hits: Vec<Hit>) -> Vec<Hit> {
        self.journal.count(hits.len());
        hits
    }

    fn take_in(&mut self, events: Vec<Event>) -> Vec<Hit> {
        let mut out = Vec::new();
        for event in events {
            match event {
                Event::Modules(modules) => {
                    self.code.set_modules(*modules);
                    self.decoder.moved();
                }
                Event::Armed(arming) => {
                    let content = arming.content.as_ref().filter(|(_, exact)| *exact);
                    let content = content.map(|(bytes, _)| Content::of(bytes));
                    self.orderer.arm(arming.location, arming.at.addr, content);
                    self.decoder.watch(arming.location, arming.at);
                    if arming.location < self.locations {
                        self.journal.armed(&arming);
                    }
                }
                Event::Disarmed {
                    location,
                    at,
                    until_ns,
                } => {
                    self.decoder.leave(location, at);
                    self.orderer.leave(location, at);
                    self.journal.disarmed(location, at, until_ns);
                }
                Event::Hit(raw) => {
                    let accesses = self.decoder.decode(&raw, &self.code);
                    let told = |pending: &Pending| {
                        let value = pending.hit.value;
                        value.is_some_and(|value| value.from == Provenance::Register)
                    };
                    let reported = RunAddr(raw.registers.rip);
                    if !accesses.is_empty() && accesses.iter().all(told) && self.told.insert(reported) {
                        self.watcher.registers_tell(reported);
                    }
                    for pending in accesses {
                        if pending.hit.location < self.locations {
                            self.orderer.push(pending);
                        }
                    }
                    for seen in self.decoder.seen(&raw) {
                        if seen.location < self.locations {
                            self.orderer.see(raw.tid.0, seen);
                        }
                    }
                    self.journal.touched(&raw, self.decoder.last_touched());
                }
                Event::Complete(until) => out.extend(self.orderer.ready(until)),
                Event::Lost(lost) => self.journal.lost(lost),
                Event::Vforked => self.journal.vforked(),
                Event::Counted(slot, count) => self.journal.counted(slot, count),
                Event::Ended(end) => {
                    out.extend(self.orderer.flush());
                    self.ended = Some(end);
                }
            }
        }
        out
    }
}

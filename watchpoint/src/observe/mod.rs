//! Hits go to a ring in the kernel and no thread is ever stopped for one. Killed at any instant, we leave nothing
//! behind: the kernel takes the events away.
//!
//! - `source`: the ring, written by a BPF program with values, or by perf itself without
//! - `attached`: a process that runs already; one that we start is served by the same loop as in exact mode,
//!   which stops it only where addresses become known
//! - `probes`: where the code of such a process tells addresses

mod attached;
mod probes;
mod source;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use program::RunAddr;
use tracee::Pid;
use tracee::ptrace::{Launch, Pipes};

use crate::error::WatchError;
use crate::exact::launched::LaunchedWatcher;
use crate::exact::owner::probe_of;
use crate::exact::rider::Passenger;
use crate::hit::Mode;
use crate::watcher::{Event, WatchSpec, Watcher};
use attached::Attached;
pub(crate) use source::Source;

/// How long a process that we started may be silent before it is looked at.
const TICK: Duration = Duration::from_millis(20);

/// Which values are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Values {
    /// All that can be had: a program in the kernel reads memory at each hit, where that is permitted.
    #[default]
    All,
    /// Those that registers tell.
    OfRegisters,
}

/// Watches a process without stopping it.
pub struct ObserveWatcher {
    source: Source,
    side: Side,
    ready: VecDeque<Event>,
    /// How often threads were trapped, by location.
    traps: BTreeMap<usize, u64>,
}

enum Side {
    Launched(Box<LaunchedWatcher>),
    Riding(Box<Passenger>),
    Attached(Box<Attached>),
}

impl ObserveWatcher {
    /// Watches a process that runs already.
    ///
    /// # Errors
    /// When there is none, it is not ours to watch, or the locations cannot be watched.
    pub fn attach(pid: Pid, specs: Vec<WatchSpec>, values: Values) -> Result<Self, WatchError> {
        let source = Source::open(&specs, values)?;
        let (attached, begun) = Attached::start(pid, specs, &source)?;
        let mut watcher = Self {
            source,
            side: Side::Attached(Box::new(attached)),
            ready: VecDeque::new(),
            traps: BTreeMap::new(),
        };
        watcher.take_in(begun);
        Ok(watcher)
    }

    /// Starts a program and watches it from its first instruction on.
    ///
    /// # Errors
    /// When it cannot be started, or the locations cannot be watched.
    pub fn launch(
        launch: Launch,
        specs: Vec<WatchSpec>,
        values: Values,
    ) -> Result<(Self, Pipes), WatchError> {
        let source = Source::open(&specs, values)?;
        let (mut launched, pipes) = LaunchedWatcher::prepare(launch, specs, Mode::Observe, source.outlet())?;
        let begun = launched.drain()?;
        let mut watcher = Self {
            source,
            side: Side::Launched(Box::new(launched)),
            ready: VecDeque::new(),
            traps: BTreeMap::new(),
        };
        // The ring must know what to read before there is a hit.
        watcher.take_in(begun);
        if let Side::Launched(launched) = &mut watcher.side {
            launched.go();
        }
        Ok((watcher, pipes))
    }

    /// Watches from inside a run.
    pub(crate) fn riding(source: Source, passenger: Passenger) -> Self {
        Self {
            source,
            side: Side::Riding(Box::new(passenger)),
            ready: VecDeque::new(),
            traps: BTreeMap::new(),
        }
    }

    /// Whether values come from memory too, or from registers alone.
    #[must_use]
    pub fn sees_memory(&self) -> bool {
        self.source.sees_memory()
    }

    /// Notes what events say about where locations are, and keeps them for the caller.
    fn take_in(&mut self, events: Vec<Event>) {
        for event in events {
            match &event {
                Event::Armed(arming) => self.source.watch(arming.location, Some(arming.at)),
                Event::Disarmed { location, .. } => self.source.watch(*location, None),
                _ => {}
            }
            self.ready.push_back(event);
        }
    }

    /// Counts the traps that made these events. Those that found no room in the ring are most likely of whoever fills it.
    fn count(&mut self, events: &[(u64, Event)]) {
        for (cookie, event) in events {
            let (location, traps) = match event {
                Event::Hit(hit) => match probe_of(*cookie) {
                    Some(probe) => (Some(probe.location.into()), 1),
                    None => (self.source.location_at(hit.watched), 1),
                },
                Event::Lost(lost) => {
                    let most = self.traps.iter().max_by_key(|(_, traps)| **traps);
                    (most.map(|(location, _)| *location), *lost)
                }
                _ => continue,
            };
            *self.traps.entry(location.unwrap_or(usize::MAX)).or_default() += traps;
        }
    }

    /// Takes in what the ring had.
    fn sort_in(&mut self, hits: Vec<(u64, Event)>) {
        self.count(&hits);
        if let Side::Attached(attached) = &mut self.side {
            let (hits, changes) = attached.sort_out(hits);
            self.ready.extend(hits);
            self.take_in(changes);
        } else {
            self.ready.extend(hits.into_iter().map(|(_, event)| event));
        }
    }
}

impl Watcher for ObserveWatcher {
    fn mode(&self) -> Mode {
        Mode::Observe
    }

    fn pid(&self) -> Pid {
        match &self.side {
            Side::Launched(launched) => launched.pid(),
            Side::Riding(passenger) => passenger.pid(),
            Side::Attached(attached) => attached.pid(),
        }
    }

    fn next(&mut self, timeout: Duration) -> Result<Vec<Event>, WatchError> {
        if self.ready.is_empty() {
            // What the process's own life brings is looked for in between.
            self.source.wait(timeout.min(TICK))?;
        }
        // The ring before the news: what was armed before a hit is then told before it.
        let hits = self.source.read(false);
        let news = match &mut self.side {
            Side::Launched(launched) => launched.drain()?,
            Side::Riding(passenger) => passenger.drain(),
            Side::Attached(attached) => attached.news(&self.source)?,
        };
        let mut ended = None;
        let mut others = Vec::new();
        for event in news {
            match event {
                Event::Ended(end) => ended = Some(Event::Ended(end)),
                // Said of stops, not of the ring.
                Event::Complete(_) => {}
                other => others.push(other),
            }
        }
        self.take_in(others);
        if let Side::Riding(passenger) = &mut self.side {
            // Whatever was armed before the program's first instruction is known now.
            if !self.ready.is_empty() {
                passenger.go();
            }
        }
        self.sort_in(hits);
        if ended.is_some() {
            let rest = self.source.read(true);
            self.sort_in(rest);
        }
        self.ready.extend(ended);
        Ok(self.ready.drain(..).collect())
    }

    fn traps(&self) -> BTreeMap<usize, u64> {
        self.traps.clone()
    }

    fn leave(&mut self, location: usize) -> Vec<Event> {
        let Side::Attached(attached) = &mut self.side else {
            return Vec::new();
        };
        let changes = attached.leave(location);
        self.source.watch(location, None);
        changes
    }

    fn registers_tell(&mut self, reported: RunAddr) {
        self.source.spare_memory_at(reported);
    }

    fn stop(&mut self) -> Result<Vec<Event>, WatchError> {
        let rest = match &mut self.side {
            Side::Launched(launched) => launched.stop()?,
            Side::Riding(passenger) => passenger.stop()?,
            Side::Attached(attached) => attached.stop(),
        };
        let rest = rest
            .into_iter()
            .filter(|event| !matches!(event, Event::Complete(_)));
        let rest: Vec<Event> = rest.collect();
        self.take_in(rest);
        let hits = self.source.read(true);
        self.sort_in(hits);
        Ok(self.ready.drain(..).collect())
    }
}

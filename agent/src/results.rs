//! What calls return that matter for the failure.
//!
//! A probe where each of them returns to writes the result down, and stops nobody. One that returns too often is given up.

use std::time::Duration;

use diagnosis::record::{HitRecord, RunRecord, WatchedRecord};
use diagnosis::run::AccessKind;
use diagnosis::tracking::ResultProbe;
use failure::report::Report;
use program::RunAddr;
use tracee::bpf::{BpfError, HitProgram, HitRing, ManyProbes, RawHit, Then};
use tracee::perf::ProbeFile;
use tracee::process::ModuleMap;
use tracee::ptrace::{Launched, Tracer};
use tracee::run::{Ended, TrackError, Tracker};

/// Room for what comes in between two looks.
const RING: usize = 1 << 20;
const TICK: Duration = Duration::from_millis(20);
/// Results of a call that are noted in a run. A probe takes 10 µs where exceptions are expensive, a tenth of that elsewhere.
const MOST: usize = 1 << 12;

/// Notes results; rides along in a run.
pub(crate) struct Results {
    asked: Vec<ResultProbe>,
    ring: Option<HitRing>,
    /// One for each call, as long as it is looked at.
    probes: Vec<Option<ManyProbes>>,
    seen: Vec<Seen>,
    /// How many of each call.
    counts: Vec<usize>,
}

/// What a call returned.
struct Seen {
    call: usize,
    tid: u32,
    time_ns: u64,
    value: u64,
}

impl Results {
    pub(crate) fn new(asked: Vec<ResultProbe>) -> Self {
        Self {
            asked,
            ring: None,
            probes: Vec::new(),
            seen: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// Sets the probes in a process that has not begun: in its files, mapped or not yet.
    fn set(&mut self, modules: &ModuleMap) -> Result<(), BpfError> {
        let ring = HitRing::new(RING, 0)?;
        ring.only(Some(modules.pid()));
        let executable = modules.executable().and_then(|module| modules.file(module));
        for (cookie, asked) in (0..).zip(&self.asked) {
            let file = match &asked.watched.module {
                Some(path) => Some(ProbeFile::at(path.as_ref())),
                None => executable.as_deref().map(ProbeFile::at),
            };
            let program = HitProgram::for_many_probes(&ring, cookie, &[], Then::GoOn)?;
            // A file that is gone, or an instruction that takes no probe: nothing is said of that one.
            let open =
                |file: ProbeFile| ManyProbes::open(&program, &file, &[asked.returns_to], modules.pid());
            self.probes.push(file.and_then(|file| open(file).ok()));
        }
        self.ring = Some(ring);
        Ok(())
    }

    fn read(&mut self) {
        let Some(mut ring) = self.ring.take() else {
            return;
        };
        ring.read(|hit| self.take(&hit));
        for (probe, count) in self.probes.iter_mut().zip(&self.counts) {
            if *count >= MOST || ring.lost() > 0 {
                *probe = None;
            }
        }
        self.ring = Some(ring);
    }

    fn take(&mut self, hit: &RawHit) {
        let Ok(call) = usize::try_from(hit.cookie) else {
            return;
        };
        let Some(count) = self.counts.get_mut(call) else {
            return;
        };
        *count += 1;
        if *count <= MOST {
            self.seen.push(Seen {
                call,
                tid: hit.tid.0,
                time_ns: hit.time_ns,
                value: hit.registers.rax,
            });
        }
    }

    /// Adds what was seen to the record of the run: each call as a location, and each return as an access to it.
    pub(crate) fn finish(mut self, record: &mut RunRecord, until_ns: Option<u64>) {
        self.read();
        let mut numbers = Vec::new();
        for (asked, probe) in self.asked.iter().zip(self.probes.iter().map(Option::is_some)) {
            let call = numbers.len();
            numbers.push(u32::try_from(record.watched.len()).unwrap_or(u32::MAX));
            record.watched.push(WatchedRecord {
                given_up: !probe,
                ..asked.watched.clone()
            });
            if !probe {
                self.seen.retain(|seen| seen.call != call);
            }
        }
        if numbers.len() < self.asked.len() || self.seen.is_empty() {
            return;
        }
        let until = until_ns.unwrap_or(u64::MAX);
        let mut hits = std::mem::take(&mut record.hits).into_iter().peekable();
        let mut merged = Vec::with_capacity(hits.len() + self.seen.len());
        self.seen.sort_by_key(|seen| seen.time_ns);
        for seen in self.seen.iter().filter(|seen| seen.time_ns <= until) {
            while let Some(hit) = hits.next_if(|hit| hit.time_ns <= seen.time_ns) {
                merged.push(hit);
            }
            let asked = self.asked.get(seen.call);
            let place = asked.and_then(|asked| {
                let module = record.modules.iter().find(|module| match &asked.watched.module {
                    Some(path) => module.path == *path,
                    None => module.executable,
                })?;
                Some(RunAddr(asked.watched.access.0.wrapping_add(module.bias)))
            });
            let (Some(pc), Some(&location)) = (place, numbers.get(seen.call)) else {
                continue;
            };
            merged.push(HitRecord {
                tid: seen.tid,
                time_ns: seen.time_ns,
                pc,
                callers: Vec::new(),
                access: Some(AccessKind::Read),
                // It is nowhere in memory.
                addr: RunAddr(0),
                location,
                value: Some(seen.value),
                before: Some(seen.value),
                uncertain: false,
                in_frame: None,
            });
        }
        merged.extend(hits);
        record.hits = merged;
    }
}

impl Tracker for Results {
    fn started(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        // Another program makes other calls.
        self.seen.clear();
        self.probes.clear();
        self.counts = vec![0; self.asked.len()];
        self.ring = None;
        // Where probes are not permitted the run is as good as it was without them.
        if let Ok(modules) = ModuleMap::of(tracer.pid())
            && self.set(&modules).is_err()
        {
            self.probes.clear();
        }
        self.probes.resize_with(self.asked.len(), || None);
        Ok(())
    }

    fn tick(&mut self, _tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        self.read();
        Ok(())
    }

    fn period(&self) -> Option<Duration> {
        Some(TICK)
    }

    fn failing(&mut self, _tracer: &mut Tracer<Launched>, _report: &Report) -> Result<(), TrackError> {
        self.read();
        Ok(())
    }

    fn ended(&mut self, _ended: Ended) {
        self.read();
    }
}

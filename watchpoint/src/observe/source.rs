//! The ring that hits go to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use failure::image::Registers;
use program::RunAddr;
use tracee::bpf::{self, BpfError, HitProgram, HitRing, LOCATIONS};
use tracee::perf::{Record, Rings, Sample};
use tracee::{Tid, monotonic_ns};

use super::Values;
use crate::error::WatchError;
use crate::exact::owner::{Outlet, watch_cookie};
use crate::location::Location;
use crate::watcher::{Event, REPORT_NS, RawHit, Report, Snapshot, WatchSpec};

/// Room for some ten thousand hits.
const RING_BYTES: usize = 8 << 20;
const PERF_BYTES: usize = 1 << 20;
/// How old a record is at most when it can be read.
const SETTLE_NS: u64 = 1_000_000;

/// Where hits come from.
pub(crate) struct Source {
    kind: Kind,
    places: Vec<Option<(usize, Location)>>,
    lost_told: u64,
    /// The last hit of each thread: its registers, and the watched pieces that it was reported for.
    last: BTreeMap<Tid, (Registers, Vec<RunAddr>)>,
}

enum Kind {
    Bpf {
        ring: Box<HitRing>,
        program: Arc<HitProgram>,
    },
    Perf(Arc<Mutex<Rings>>),
}

impl Source {
    /// A ring that a program writes to; where that is not permitted or not wanted, perf's own.
    pub(crate) fn open(specs: &[WatchSpec], values: Values) -> Result<Self, WatchError> {
        let room = specs.iter().map(|spec| spec.len).max().unwrap_or(8).clamp(8, 64);
        let with_bpf = || -> Result<Kind, BpfError> {
            let ring = HitRing::new(RING_BYTES, room as usize)?;
            let program = HitProgram::for_breakpoints(&ring, watch_cookie())?;
            Ok(Kind::Bpf {
                ring: Box::new(ring),
                program: Arc::new(program),
            })
        };
        let with_bpf = match values {
            Values::All => with_bpf().ok(),
            Values::OfRegisters => None,
        };
        let kind = match with_bpf {
            Some(kind) => kind,
            None => Kind::Perf(Arc::new(Mutex::new(Rings::open(PERF_BYTES)?))),
        };
        Ok(Self {
            kind,
            places: vec![None; LOCATIONS],
            lost_told: 0,
            last: BTreeMap::new(),
        })
    }

    pub(super) fn sees_memory(&self) -> bool {
        matches!(self.kind, Kind::Bpf { .. })
    }

    pub(crate) fn outlet(&self) -> Outlet {
        match &self.kind {
            Kind::Bpf { program, .. } => Outlet::Program(Arc::clone(program)),
            Kind::Perf(rings) => Outlet::Rings(Arc::clone(rings)),
        }
    }

    /// A program for probes that writes to the ring; none where there are no programs.
    pub(super) fn program(
        &self,
        load: impl FnOnce(&HitRing) -> Result<HitProgram, BpfError>,
    ) -> Option<Result<HitProgram, BpfError>> {
        match &self.kind {
            Kind::Bpf { ring, .. } => Some(load(ring)),
            Kind::Perf(_) => None,
        }
    }

    /// Has a location read at each hit from now on, or not any more.
    pub(super) fn watch(&mut self, location: usize, at: Option<Location>) {
        let held = |place: &Option<(usize, Location)>| place.is_some_and(|(of, _)| of == location);
        let slot = self.places.iter().position(held);
        let slot = slot.or_else(|| self.places.iter().position(Option::is_none));
        let Some(slot) = slot else { return };
        self.places[slot] = at.map(|at| (location, at));
        if let Kind::Bpf { ring, .. } = &self.kind {
            let read = at.map(|at| bpf::Location {
                addr: at.addr,
                len: at.len.into(),
            });
            // Too long to be read at a hit: its value is then told by registers alone.
            let _values_only_from_registers = ring.set_location(slot, read);
        }
    }

    /// Which location is watched at an address.
    pub(super) fn location_at(&self, addr: RunAddr) -> Option<usize> {
        let mut watched = self.places.iter().flatten();
        let here = watched.find(|(_, at)| addr.0.wrapping_sub(at.addr.0) < u64::from(at.len));
        here.map(|(location, _)| *location)
    }

    /// Hits at this place need no look at memory.
    pub(super) fn spare_memory_at(&self, pc: RunAddr) {
        if let Kind::Bpf { ring, .. } = &self.kind {
            ring.spare_memory_at(pc);
        }
    }

    pub(super) fn wait(&self, timeout: Duration) -> Result<(), WatchError> {
        match &self.kind {
            Kind::Bpf { ring, .. } => ring.wait(timeout).map(|_| ())?,
            Kind::Perf(rings) => {
                let rings = rings.lock().unwrap_or_else(PoisonError::into_inner);
                rings.wait(timeout)?;
            }
        }
        Ok(())
    }

    /// What is there, in its order, and how far it is complete. Hits of probes have a cookie of their own.
    pub(super) fn read(&mut self, last: bool) -> Vec<(u64, Event)> {
        let now = monotonic_ns();
        let (hits, lost) = match &mut self.kind {
            Kind::Bpf { ring, .. } => {
                let mut hits = Vec::new();
                ring.read(|hit| hits.push((hit.cookie, from_bpf(hit))));
                let lost = ring.lost().saturating_add(ring.malformed());
                (hits, lost)
            }
            Kind::Perf(rings) => read_perf(rings, last, self.lost_told),
        };
        let mut out: Vec<(u64, Event)> = Vec::new();
        for (cookie, hit) in hits {
            if cookie != watch_cookie() || self.is_new(&hit) {
                out.push((cookie, Event::Hit(Box::new(hit))));
            }
        }
        if lost > self.lost_told {
            out.push((watch_cookie(), Event::Lost(lost - self.lost_told)));
            self.lost_told = lost;
        }
        let complete = if last { now } else { now.saturating_sub(SETTLE_NS) };
        out.push((watch_cookie(), Event::Complete(complete)));
        out
    }

    /// One instruction that touches two watched pieces is reported for each: the same registers, another piece.
    fn is_new(&mut self, hit: &RawHit) -> bool {
        match self.last.get_mut(&hit.tid) {
            Some((registers, pieces)) if *registers == hit.registers && !pieces.contains(&hit.watched) => {
                pieces.push(hit.watched);
                false
            }
            _ => {
                self.last.insert(hit.tid, (hit.registers, vec![hit.watched]));
                true
            }
        }
    }
}

fn from_bpf(hit: bpf::RawHit) -> RawHit {
    let values = hit.values.iter();
    RawHit {
        time_ns: hit.time_ns,
        earliest_ns: hit.time_ns.saturating_sub(REPORT_NS),
        likely_ns: hit.time_ns.saturating_sub(REPORT_NS),
        tid: hit.tid,
        watched: hit.addr,
        registers: hit.registers,
        has_segment_bases: false,
        report: Report::Watch,
        stack: hit.stack,
        probed: Some(hit.probed).filter(|at| at.0 != 0),
        memory: values
            .flat_map(|value| Snapshot::of(value.addr, value.bytes()))
            .collect(),
        looking_ns: hit.time_ns,
        looked_ns: hit.looked_ns,
    }
}

fn read_perf(rings: &Mutex<Rings>, last: bool, mut lost: u64) -> (Vec<(u64, RawHit)>, u64) {
    let mut rings = rings.lock().unwrap_or_else(PoisonError::into_inner);
    let records = if last { rings.read_to_end() } else { rings.read() };
    let mut hits = Vec::new();
    for stamped in records {
        match stamped.record {
            Record::Sample(Sample {
                addr,
                registers: Some(registers),
                ..
            }) => hits.push((
                watch_cookie(),
                RawHit {
                    time_ns: stamped.origin.time,
                    earliest_ns: stamped.origin.time.saturating_sub(REPORT_NS),
                    likely_ns: stamped.origin.time.saturating_sub(REPORT_NS),
                    tid: stamped.origin.tid,
                    watched: addr,
                    registers,
                    has_segment_bases: false,
                    report: Report::Watch,
                    stack: Vec::new(),
                    probed: None,
                    memory: Vec::new(),
                    looking_ns: stamped.origin.time,
                    looked_ns: stamped.origin.time,
                },
            )),
            Record::Lost { lost: some } | Record::LostSamples { lost: some } => {
                lost = lost.saturating_add(some);
            }
            _ => {}
        }
    }
    (hits, lost)
}

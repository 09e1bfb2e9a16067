//! From a raw hit to the accesses of locations that it tells of.

use program::RunAddr;

use super::callers::Callers;
use crate::access::{self, Accessor, Certainty, CodeMap as _, Touch, Trap};
use crate::code::ProcessCode;
use crate::hit::{Hit, Provenance, Value};
use crate::location::Location;
use crate::order::{Pending, Seen};
use crate::values::{self, Change, Moment};
use crate::watcher::{Address, Probe, RawHit, Report, WatchSpec, is_in_frames};

/// Places that are watched no more are remembered, for hits that are still on their way.
const REMEMBERED: usize = 32;

/// Knows where locations are.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    places: Vec<(usize, Location)>,
    former: Vec<(usize, Location)>,
    touched: Vec<(RunAddr, u32)>,
    /// Where probes may stand.
    probes: Vec<Probe>,
    callers: Callers,
}

impl Decoder {
    /// A decoder for the hits of these locations.
    pub(super) fn new(specs: &[WatchSpec]) -> Self {
        let probes = specs.iter().filter_map(|spec| match &spec.address {
            Address::Probed(probes) => Some(probes),
            _ => None,
        });
        Self {
            probes: probes.flatten().cloned().collect(),
            ..Self::default()
        }
    }

    /// What the process has mapped has changed.
    pub(super) fn moved(&mut self) {
        self.callers.forget();
    }

    pub(super) fn watch(&mut self, location: usize, at: Location) {
        self.places.push((location, at));
        self.former.retain(|place| *place != (location, at));
    }

    pub(super) fn leave(&mut self, location: usize, at: RunAddr) {
        let here = |place: &(usize, Location)| place.0 == location && place.1.addr == at;
        let left = self.places.iter().copied().filter(here);
        self.former.extend(left);
        self.places.retain(|place| !here(place));
        let surplus = self.former.len().saturating_sub(REMEMBERED);
        self.former.drain(..surplus);
    }

    /// The bytes that the last hit's instruction touched, as far as they are known.
    pub(super) fn last_touched(&self) -> &[(RunAddr, u32)] {
        &self.touched
    }

    /// The accesses of a hit: one for each location that its instruction touched.
    pub(super) fn decode(&mut self, raw: &RawHit, code: &ProcessCode<'_>) -> Vec<Pending> {
        self.touched.clear();
        let mut known = self.places.clone();
        if !known.iter().any(|(_, at)| at.touches(raw.watched, 1)) {
            known.extend(self.former.iter().filter(|(_, at)| at.touches(raw.watched, 1)));
        }
        let places: Vec<Location> = known.iter().map(|(_, at)| *at).collect();
        let trap = Trap {
            registers: &raw.registers,
            has_segment_bases: raw.has_segment_bases,
            stack_top: raw.stack_top(),
            watched: raw.watched,
            locations: &places,
            report: raw.report,
        };
        let moment = Moment {
            registers: &raw.registers,
            stack_top: raw.stack_top(),
            memory: &raw.memory,
        };
        if code.code_at(trap.pc()).is_none() {
            code.look_for(trap.pc());
        }
        let mut found = match raw.report {
            Report::Late => Vec::new(),
            Report::Watch | Report::Probe | Report::Died => access::find(&trap, code),
        };
        if found.is_empty() && code.code_at(trap.pc()).is_none() {
            found = self.at_probes(raw, &trap, code);
        }
        if matches!(raw.report, Report::Probe | Report::Died) {
            found.retain(|accessor| accessor.certainty == Certainty::Certain);
        }
        let Some((first, others)) = found.split_first() else {
            return match raw.report {
                Report::Probe | Report::Died => Vec::new(),
                Report::Watch | Report::Late => self.unexplained(raw, &known, &moment),
            };
        };
        let mut out: Vec<Pending> = Vec::new();
        for touch in &first.touches {
            let Some(&(location, at)) = known.get(touch.location) else {
                continue;
            };
            self.touched.push((
                touch.addr.unwrap_or(at.addr),
                touch.addr.map_or(at.len, |_| touch.len),
            ));
            // Two operands in one location (`movsb` inside a buffer): the one that writes tells more.
            let same = |other: &&mut Pending| (other.hit.location, other.at) == (location, at.addr);
            if let Some(other) = out.iter_mut().find(same) {
                let writes = |hit: &Hit| hit.access.is_some_and(|access| access.kind.writes());
                if touch.access.kind.writes() && !writes(&other.hit) {
                    *other = pending(raw, first, others, touch, location, &at, &moment);
                }
                continue;
            }
            out.push(pending(raw, first, others, touch, location, &at, &moment));
        }
        // Where the stack pointer was at an instruction that moves it depends on which of its parts had run.
        if !first.instruction.is_stack_instruction() {
            let callers = self.callers.of(first.pc, &raw.registers, &raw.stack, code);
            for pending in &mut out {
                pending.hit.callers = callers.iter().map(|call| call.back).collect();
                let behind = callers.iter().take_while(|call| call.end <= pending.at).count();
                pending.hit.in_frame = pending.hit.in_frame.map(|_| behind);
            }
        }
        out
    }

    /// What the locations held when a hit was reported.
    pub(super) fn seen(&self, raw: &RawHit) -> Vec<Seen> {
        let moment = Moment {
            registers: &raw.registers,
            stack_top: raw.stack_top(),
            memory: &raw.memory,
        };
        let seen = self.places.iter().filter_map(|&(location, at)| {
            Some(Seen {
                location,
                at: at.addr,
                content: values::seen(&at, &moment)?,
                from_ns: raw.looking_ns,
                until_ns: raw.looked_ns,
            })
        });
        seen.collect()
    }

    /// An instruction under a probe runs somewhere else, in a page that the kernel made for it. Where the kernel does not tell which,
    /// what the thread touched tells it, and its length, as it stands at the start of a slot there. Registers that an instruction
    /// elsewhere would use may happen to lead to watched memory too.
    fn at_probes(&self, raw: &RawHit, trap: &Trap<'_>, code: &ProcessCode<'_>) -> Vec<Accessor> {
        const SLOT: u64 = 128;
        let reported = |touch: &Touch| {
            let at = trap.locations.get(touch.location);
            at.is_some_and(|at| at.touches(trap.watched, 1))
        };
        let is_it = |accessor: &Accessor| {
            accessor.instruction.len() as u64 == trap.pc().0 % SLOT && accessor.touches.iter().any(reported)
        };
        if let Some(at) = raw.probed {
            let it = access::at(at, trap, code).filter(is_it);
            return it.into_iter().collect();
        }
        let probes = self.probes.iter();
        let found = probes.filter_map(|probe| access::at(code.place_of(probe)?, trap, code));
        found
            .filter(|it| it.certainty == Certainty::Certain && is_it(it))
            .collect()
    }

    /// A hit whose instruction is not known: what remains is that the location was touched.
    fn unexplained(&self, raw: &RawHit, known: &[(usize, Location)], moment: &Moment<'_>) -> Vec<Pending> {
        let Some(&(location, at)) = known.iter().find(|(_, at)| at.touches(raw.watched, 1)) else {
            return Vec::new();
        };
        let value = values::seen(&at, moment);
        vec![Pending {
            hit: Hit {
                seq: 0,
                time_ns: raw.time_ns,
                tid: raw.tid.0,
                pc: None,
                pc_or: Vec::new(),
                reported_pc: RunAddr(raw.registers.rip),
                callers: Vec::new(),
                access: None,
                addr: raw.watched,
                len: 0,
                location,
                value: value.map(|content| Value::new(content, Provenance::Memory)),
                before: None,
                order_uncertain: false,
                in_frame: is_in_frames(raw.watched, &raw.registers).then_some(0),
            },
            at: at.addr,
            earliest_ns: raw.earliest_ns,
            likely_ns: raw.likely_ns,
            is_first: false,
            len: at.len.min(8),
            update: None,
        }]
    }
}

fn pending(
    raw: &RawHit,
    first: &Accessor,
    others: &[Accessor],
    touch: &Touch,
    location: usize,
    at: &Location,
    moment: &Moment<'_>,
) -> Pending {
    let Change {
        before,
        after,
        update,
    } = values::change(first, touch, at, moment);
    Pending {
        hit: Hit {
            seq: 0,
            time_ns: raw.time_ns,
            tid: raw.tid.0,
            pc: Some(first.pc),
            pc_or: others.iter().map(|other| other.pc).collect(),
            reported_pc: RunAddr(raw.registers.rip),
            callers: Vec::new(),
            access: Some(touch.access),
            addr: touch.addr.unwrap_or(at.addr),
            len: touch.len,
            location,
            value: after,
            before,
            order_uncertain: false,
            in_frame: is_in_frames(at.addr, &raw.registers).then_some(0),
        },
        at: at.addr,
        earliest_ns: raw.earliest_ns,
        likely_ns: raw.likely_ns,
        is_first: raw.report == Report::Probe,
        len: at.len.min(8),
        update,
    }
}

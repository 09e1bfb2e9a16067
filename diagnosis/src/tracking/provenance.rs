//! Where the objects are allocated that locations are in.
//!
//! An address that comes to an access through memory (a field of another object, a queue, a container) is known late to
//! whoever reads the code: what happened to the object before is not seen. A run that notes allocations shows which call made
//! the object, and the next ones watch it from the return of that call on. Of a call that makes many, which one it was: what a program
//! makes in the beginning it makes in the same order in each run.

use std::collections::{BTreeMap, BTreeSet};

use program::{Pc, Program, RunAddr};
use watchpoint::arm::{after_allocation, handing_out};
use watchpoint::{Address, Probe, WatchSpec};

use super::given_up::{Access, access};
use crate::reading::Places;
use crate::record::{BlockRecord, RunEnd, RunRecord, WatchedRecord};

/// Runs that are asked where a location comes from.
const ENOUGH: u32 = 3;
/// Runs that are asked at all: each allocation costs the target two probes. One that had too many of them counts for several.
const MOST_RUNS: u32 = 24;
const CUT_SHORT: u32 = 8;
/// The same where a failing run has told which of many objects it may be.
const MOST_RUNS_FOR_ONE: u32 = 72;
/// Objects that a call makes in a run of one thread, which uses the newest. Of more, the registers would lose the one that
/// matters; of two, where several threads use what is watched and each has its own.
const FEW: u32 = 4;
/// Objects that a call makes of which one can be told by its number.
const MANY: u32 = 256;
/// Failing runs in which it was the same object, after which registers follow no other one.
const SAME: u32 = 2;
/// Runs that are asked in vain.
const IN_VAIN: u32 = 12;
/// Places in the code where one location is found early: where the last runs had it.
const MOST_SITES: usize = 3;

/// One of the objects that a call makes, which the failing thread had in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbered {
    site: Site,
    nth: u32,
    /// Failing runs in which it was this one.
    runs: u32,
}

/// A call that makes an object, and where in it a location is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Site {
    call: Pc,
    offset: i64,
    /// The call is not the allocator's: what it calls has had the object before.
    wrapped: bool,
}

/// What was learnt.
#[derive(Debug, Default)]
pub(super) struct Provenance {
    sites: BTreeMap<Access, Vec<Site>>,
    numbered: BTreeMap<Access, Vec<Numbered>>,
    in_vain: BTreeMap<Access, u32>,
    asked: BTreeMap<Access, u32>,
    runs: u32,
}

impl Provenance {
    /// Whether a run with these locations is to note where memory is allocated.
    pub(super) fn is_wanted(&self, locations: &[(WatchedRecord, WatchSpec)]) -> bool {
        let unknown = |(watched, spec): &(WatchedRecord, WatchSpec)| {
            let access = access(watched);
            // Which of many objects it is, only failing runs tell, and the next one may tell for certain.
            let begun = self.numbered.contains_key(&access);
            let is_asked = self.in_vain.get(&access).is_none_or(|&asked| asked < IN_VAIN);
            let most = if begun { MOST_RUNS_FOR_ONE } else { MOST_RUNS };
            is_late(spec)
                && !self.sites.contains_key(&access)
                && self.asked.get(&access).is_none_or(|&asked| asked < ENOUGH)
                && (begun || is_asked)
                && self.runs < most
        };
        locations.iter().any(unknown)
    }

    /// Takes in what a run showed.
    pub(super) fn learn(&mut self, record: &RunRecord, program: &Program<'_>) {
        let Some(allocations) = &record.allocations else {
            return;
        };
        self.runs += if allocations.cut_short { CUT_SHORT } else { 1 };
        let places = Places::new(program, &record.modules);
        for (number, watched) in record.watched.iter().enumerate() {
            let own = record.hits.iter();
            let mut own = own.filter(|hit| usize::try_from(hit.location).is_ok_and(|at| at == number));
            let threads: BTreeSet<u32> = own.clone().map(|hit| hit.tid).collect();
            let few = if threads.len() > 1 { 1 } else { FEW };
            let mut touched: BTreeSet<RunAddr> = own.clone().map(|hit| hit.addr).collect();
            if touched.is_empty() || watched.fixed.is_some() {
                continue;
            }
            // Of many objects, the one counts that the failing thread had in its hands at the end.
            let one_of_many = touched.len() > few as usize;
            if one_of_many
                && let Some(thread) = failing_thread(record)
                && let Some(last) = own.rfind(|hit| hit.tid == thread)
            {
                touched = BTreeSet::from([last.addr]);
            }
            if touched.len() > few as usize {
                *self.in_vain.entry(access(watched)).or_default() += 1;
                continue;
            }
            *self.asked.entry(access(watched)).or_default() += 1;
            for addr in touched {
                let around = allocations.blocks.iter();
                let around = around.filter_map(|block| Some((block, offset(block, addr)?)));
                for (block, offset) in around {
                    let calls = calls_to(block, &places, program);
                    let returning = handing_out(&calls, program);
                    let site = |(call, wrapped)| Site {
                        call,
                        offset,
                        wrapped,
                    };
                    if let Some(call) = allocating_call(block, few, &calls, returning) {
                        self.add(access(watched), site(call));
                    }
                    let number = numbered_call(block, &calls, returning).filter(|_| one_of_many);
                    if let Some((call, wrapped, nth)) = number {
                        self.number(access(watched), site((call, wrapped)), nth);
                    }
                }
            }
        }
    }

    fn add(&mut self, access: Access, site: Site) {
        let known = self.sites.entry(access).or_default();
        known.retain(|other| *other != site);
        known.push(site);
        if known.len() > MOST_SITES {
            known.remove(0);
        }
    }

    fn number(&mut self, access: Access, site: Site, nth: u32) {
        let known = self.numbered.entry(access).or_default();
        match known
            .iter_mut()
            .find(|known| (known.site, known.nth) == (site, nth))
        {
            Some(known) => known.runs += 1,
            None => known.push(Numbered { site, nth, runs: 1 }),
        }
    }

    /// The one of many objects that several failing runs had a location in.
    fn one_of_many(&self, access: &Access) -> Option<Numbered> {
        let known = self.numbered.get(access)?.iter().rev();
        let most = known.max_by_key(|known| known.runs)?;
        (most.runs >= SAME).then_some(*most)
    }

    /// Whether a location is in one of many objects that is known, or may be soon.
    pub(super) fn is_numbered(&self, access: &Access) -> bool {
        let asked = self.asked.get(access).is_none_or(|&asked| asked < ENOUGH);
        self.one_of_many(access).is_some() || asked && self.numbered.contains_key(access)
    }

    /// Whether a location was in one place of what one call allocates, whichever run it was.
    pub(super) fn is_one_object(&self, access: &Access) -> bool {
        let sites = self.sites.get(access);
        sites.is_some_and(|sites| sites.len() == 1)
    }

    /// Has a location found where its object is allocated as well.
    pub(super) fn add_probes(&self, watched: &WatchedRecord, spec: &mut WatchSpec, program: &Program<'_>) {
        if !is_late(spec) {
            return;
        }
        let Address::Probed(probes) = &mut spec.address else {
            return;
        };
        if let Some(Numbered { site, nth, .. }) = self.one_of_many(&access(watched))
            && let Some(probe) = site.probe(program)
        {
            let nth = Some(nth);
            probes.insert(0, Probe { nth, ..probe });
            return;
        }
        let sites = self.sites.get(&access(watched)).into_iter().flatten();
        let early: Vec<Probe> = sites.filter_map(|site| site.probe(program)).collect();
        let known = |probe: &Probe| {
            let same = |other: &Probe| (&other.module, other.addr) == (&probe.module, probe.addr);
            early.iter().any(same)
        };
        probes.retain(|probe| !known(probe));
        probes.splice(..0, early);
    }
}

impl Site {
    /// Where the call has returned.
    fn probe(&self, program: &Program<'_>) -> Option<Probe> {
        after_allocation(self.call, self.offset, self.wrapped, program)
    }
}

/// The thread that failed, if the run did.
fn failing_thread(record: &RunRecord) -> Option<u32> {
    let RunEnd::Failed(report) = &record.end else {
        return None;
    };
    u32::try_from(report.threads.get(report.failing)?.id?).ok()
}

/// Whether a location is found where somebody may have had it before.
fn is_late(spec: &WatchSpec) -> bool {
    matches!(&spec.address, Address::Probed(probes) if probes.iter().all(|probe| probe.late))
}

/// How far into a block an address is.
fn offset(block: &BlockRecord, addr: RunAddr) -> Option<i64> {
    let offset = addr.0.checked_sub(block.addr.0)?;
    i64::try_from(offset).ok().filter(|_| offset < block.size)
}

/// The calls that led to an allocation, the allocator's first.
fn calls_to(block: &BlockRecord, places: &Places<'_, '_, '_>, program: &Program<'_>) -> Vec<Pc> {
    let calls = block.stack.iter().map_while(|back| {
        let inside = places.place(back.offset(-1))?;
        program.instruction_at(inside)
    });
    calls.collect()
}

/// The call that stands for an allocation: the innermost one by which few blocks were made, as far out as the address of the
/// block is what is returned; and whether it is another than the allocator's.
///
/// `calls` led to it, and so many of them return its address.
fn allocating_call(block: &BlockRecord, few: u32, calls: &[Pc], returning: usize) -> Option<(Pc, bool)> {
    let at = innermost_of_few(&block.alike, few, returning)?;
    Some((*calls.get(at)?, at > 0))
}

/// The call that stands for one of many allocations, and which of them: the innermost one that returns the address of a block and made no
/// more of them than any other.
fn numbered_call(block: &BlockRecord, calls: &[Pc], returning: usize) -> Option<(Pc, bool, u32)> {
    let fewest = block.alike.iter().take(returning).min()?;
    let at = block.alike.iter().position(|alike| alike == fewest)?;
    let nth = *block.nth.get(at)?;
    (nth <= MANY).then_some((*calls.get(at)?, at > 0, nth))
}

/// The innermost of the calls that return a block by which few others were made.
fn innermost_of_few(alike: &[u32], few: u32, returning: usize) -> Option<usize> {
    alike.iter().take(returning).position(|&alike| alike <= few)
}

#[cfg(test)]
mod tests {
    use program::{FileOffset, LinkAddr};
    use watchpoint::Trigger;
    use watchpoint::watcher::Expression;

    use super::*;

    #[test]
    fn a_call_stands_for_few_objects_or_none_does() {
        let innermost = |alike: &[u32], returning| innermost_of_few(alike, FEW, returning);
        assert_eq!(innermost(&[1, 1, 1], 1), Some(0));
        assert_eq!(innermost(&[900, 2, 1], 3), Some(1), "a wrapper's caller");
        assert_eq!(innermost(&[900, 2, 1], 1), None, "it returns something else");
        assert_eq!(innermost(&[900, 900], 2), None);
        assert_eq!(innermost_of_few(&[900, 2, 1], 1, 3), Some(2));
    }

    #[test]
    fn an_address_behind_the_end_of_a_block_is_not_in_it() {
        let block = BlockRecord {
            addr: RunAddr(0x1000),
            size: 16,
            stack: Vec::new(),
            alike: Vec::new(),
            nth: Vec::new(),
        };
        let at = |addr| offset(&block, RunAddr(addr));
        assert_eq!(
            [0xfff, 0x1000, 0x1008, 0x1010].map(at),
            [None, Some(0), Some(8), None]
        );
    }

    fn location(late: bool) -> (WatchedRecord, WatchSpec) {
        let probe = Probe {
            module: None,
            addr: LinkAddr(0x1000),
            offset: FileOffset(0x1000),
            expression: Expression {
                base: None,
                index: None,
                disp: 0,
            },
            late,
            nth: None,
        };
        let watched = WatchedRecord {
            module: None,
            access: LinkAddr(0x1004),
            passed: None,
            width: 8,
            within: 0,
            always_at: None,
            fixed: None,
            late,
            given_up: false,
            stores: false,
            result: false,
            found: 0,
        };
        let spec = WatchSpec {
            address: Address::Probed(vec![probe]),
            len: 8,
            trigger: Trigger::ReadWrite,
            places: 1,
        };
        (watched, spec)
    }

    #[test]
    fn one_of_many_objects_is_known_by_its_number_where_it_is_the_same_again() {
        let mut provenance = Provenance::default();
        let access = access(&location(true).0);
        let call = Pc {
            module: program::ModuleId(0),
            addr: LinkAddr(0x2000),
        };
        let site = Site {
            call,
            offset: 8,
            wrapped: false,
        };
        let mut seen = |nth| {
            provenance.number(access.clone(), site, nth);
            provenance.one_of_many(&access).map(|numbered| numbered.nth)
        };
        assert_eq!([2, 5, 7].map(&mut seen), [None; 3], "three runs, three objects");
        assert_eq!(seen(5), Some(5));
    }

    #[test]
    fn only_what_is_found_late_and_unknown_is_asked_for_and_not_for_ever() {
        let mut provenance = Provenance::default();
        assert!(provenance.is_wanted(&[location(false), location(true)]));
        assert!(!provenance.is_wanted(&[location(false)]));
        let access = access(&location(true).0);
        provenance.asked.insert(access.clone(), ENOUGH);
        assert!(!provenance.is_wanted(&[location(true)]));
        provenance.asked.clear();
        let call = Pc {
            module: program::ModuleId(0),
            addr: LinkAddr(0x2000),
        };
        for offset in 0..=3 {
            let site = Site {
                call,
                offset,
                wrapped: false,
            };
            provenance.add(access.clone(), site);
        }
        assert!(!provenance.is_wanted(&[location(true)]));
        let offsets: Vec<i64> = provenance.sites[&access].iter().map(|site| site.offset).collect();
        assert_eq!(offsets, [1, 2, 3], "the last ones are kept");
    }
}

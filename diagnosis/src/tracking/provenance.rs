//! Where the objects are allocated that locations are in.
//!
//! An address that comes to an access through memory (a field of another object, a queue, a container) is known late to
//! whoever reads the code: what happened to the object before is not seen. A run that notes allocations shows which call made
//! the object, and the next ones watch it from the return of that call on.

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
/// Objects that a call makes in a run of one thread, which uses the newest. Of more, the registers would lose the one that
/// matters; of two, where several threads use what is watched and each has its own.
const FEW: u32 = 4;
/// Places in the code where one location is found early: where the last runs had it.
const MOST_SITES: usize = 3;

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
    asked: BTreeMap<Access, u32>,
    runs: u32,
}

impl Provenance {
    /// Whether a run with these locations is to note where memory is allocated.
    pub(super) fn is_wanted(&self, locations: &[(WatchedRecord, WatchSpec)]) -> bool {
        let unknown = |(watched, spec): &(WatchedRecord, WatchSpec)| {
            let access = access(watched);
            is_late(spec)
                && !self.sites.contains_key(&access)
                && self.asked.get(&access).is_none_or(|&asked| asked < ENOUGH)
        };
        self.runs < MOST_RUNS && locations.iter().any(unknown)
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
            if touched.len() > few as usize
                && let Some(thread) = failing_thread(record)
                && let Some(last) = own.rfind(|hit| hit.tid == thread)
            {
                touched = BTreeSet::from([last.addr]);
            }
            *self.asked.entry(access(watched)).or_default() += 1;
            if touched.len() > few as usize {
                continue;
            }
            for addr in touched {
                let around = allocations.blocks.iter();
                let around = around.filter_map(|block| Some((block, offset(block, addr)?)));
                for (block, offset) in around {
                    if let Some((call, wrapped)) = allocating_call(block, few, &places, program) {
                        let site = Site {
                            call,
                            offset,
                            wrapped,
                        };
                        self.add(access(watched), site);
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
        let sites = self.sites.get(&access(watched)).into_iter().flatten();
        let early: Vec<Probe> = sites
            .filter_map(|site| after_allocation(site.call, site.offset, site.wrapped, program))
            .collect();
        let known = |probe: &Probe| {
            let same = |other: &Probe| (&other.module, other.addr) == (&probe.module, probe.addr);
            early.iter().any(same)
        };
        probes.retain(|probe| !known(probe));
        probes.splice(..0, early);
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

/// The call that stands for an allocation: the innermost one by which few blocks were made, as far out as the address of the
/// block is what is returned; and whether it is another than the allocator's.
fn allocating_call(
    block: &BlockRecord,
    few: u32,
    places: &Places<'_, '_, '_>,
    program: &Program<'_>,
) -> Option<(Pc, bool)> {
    let calls = block.stack.iter().map_while(|back| {
        let inside = places.place(back.offset(-1))?;
        program.instruction_at(inside)
    });
    let calls: Vec<Pc> = calls.collect();
    let at = innermost_of_few(&block.alike, few, handing_out(&calls, program))?;
    Some((*calls.get(at)?, at > 0))
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

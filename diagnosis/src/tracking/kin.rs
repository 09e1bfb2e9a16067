//! Stores to the same member of other objects.
//!
//! An object may be one of many: an element of a pool, a packet that is used again, a node of a list. Where it was allocated then does
//! not tell which one will matter, and a register that is set when the failing statement comes by is set too late for the write that
//! it should have seen. But the source says which statements write that member of any such object. They are few, and a probe on each
//! of them shows every write, whichever object it is to.
//!
//! That is for programs of one thread. An address is another object's after a while, and what threads did to the one is no order of
//! what they do to the other; there an object is watched from its allocation on.

use std::collections::BTreeMap;

use program::code::accesses;
use program::{LinkAddr, Pc, Program};
use watchpoint::arm::at_access;
use watchpoint::{Address, Probe, WatchSpec};

use super::given_up::{Access, access};
use crate::fixed::place;
use crate::reading::{access_name, member, module_named, name_at};
use crate::record::{HitRecord, RunRecord, WatchedRecord};

/// Statements that store to a member. Where there are more, everybody uses it, and it would stop runs all the time.
const MOST_STORES: usize = 12;
/// Stores at the same offset that are looked at, of whatever structure they are.
const MOST_LOOKED_AT: usize = 400;
/// Locations for which stores are looked for in an inquiry.
const MOST_LOCATIONS: usize = 32;

/// The stores that were found, by the access that a location is watched for.
#[derive(Debug, Default)]
pub(super) struct Kin {
    stores: BTreeMap<Access, Vec<Probe>>,
}

impl Kin {
    /// Looks for the stores to what a run found late in memory that is nobody's in particular: what is in a file's data is watched
    /// there from the start.
    pub(super) fn learn(&mut self, record: &RunRecord, program: &Program<'_>) {
        let in_file = |hit: &HitRecord| place(record, hit.addr, program).is_some();
        for (number, watched) in record.watched.iter().enumerate() {
            let own = record.hits.iter();
            let mut own = own.filter(|hit| hit.location as usize == number).peekable();
            let anywhere = own.peek().is_some() && !own.any(in_file);
            let access = access(watched);
            if watched.late
                && watched.fixed.is_none()
                && anywhere
                && self.stores.len() < MOST_LOCATIONS
                && !self.stores.contains_key(&access)
            {
                let found = stores(watched, program).unwrap_or_default();
                self.stores.insert(access, found);
            }
        }
    }

    /// Whether stores to a location are known, so that runs find it there.
    pub(super) fn knows(&self, access: &Access) -> bool {
        self.stores.get(access).is_some_and(|stores| !stores.is_empty())
    }

    /// Has a location found at these stores as well.
    pub(super) fn add_probes(&self, watched: &mut WatchedRecord, spec: &mut WatchSpec) {
        let Address::Probed(probes) = &mut spec.address else {
            return;
        };
        let stores = self.stores.get(&access(watched)).map_or(&[][..], Vec::as_slice);
        watched.stores = !stores.is_empty();
        for store in stores {
            let same = |probe: &Probe| (&probe.module, probe.addr) == (&store.module, store.addr);
            if !probes.iter().any(same) {
                probes.push(store.clone());
            }
        }
    }
}

fn stores(watched: &WatchedRecord, program: &Program<'_>) -> Option<Vec<Probe>> {
    let wanted = member(access_name(watched, program)?)?;
    let at = Pc {
        module: module_named(watched.module.as_deref(), program)?,
        addr: watched.access,
    };
    let offset = offset(watched, at, program)?;
    let module = program.module(at.module)?;
    let candidates = module.stores_at(offset, watched.width);
    if candidates.len() > MOST_LOOKED_AT {
        return None;
    }
    let stores = candidates.into_iter().filter_map(|addr| {
        let at = Pc { addr, ..at };
        let within = offset.checked_sub(displacement(at, program)?)?;
        let name = name_at(at, None, u32::try_from(within).ok()?, watched.width, program)?;
        (member(name)? == wanted).then(|| at_access(at, within, program))?
    });
    let stores: Vec<Probe> = stores.take(MOST_STORES + 1).collect();
    (stores.len() <= MOST_STORES).then_some(stores)
}

/// How far the bytes of a location are from what the register points to that its access uses.
fn offset(watched: &WatchedRecord, at: Pc, program: &Program<'_>) -> Option<i64> {
    match watched.passed {
        Some((_, offset)) => Some(offset),
        None => displacement(at, program)?.checked_add(watched.within.into()),
    }
}

/// Of an instruction's access.
fn displacement(at: Pc, program: &Program<'_>) -> Option<i64> {
    let module = program.module(at.module)?;
    let function = module.code().functions().at(at.addr)?;
    let mut listing = module.code().listing(function);
    let instruction = listing.find(|instruction| LinkAddr(instruction.ip()) == at.addr)?;
    let access = accesses(&instruction).find(|access| access.base.is_some())?;
    Some(access.disp)
}

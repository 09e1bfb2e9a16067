//! From the watch sites of a plan to locations and the places in the code where their addresses are known.
//!
//! A write that came before the arming is a write never seen, so an address is looked for where it is known first:
//! a static one at start; a place in a frame at its function's entry; the result of a call when that returns, or where it was allocated; a thread's argument where
//! the thread is created, or where what it points to was allocated; a parameter at the function's entry; what a global points to
//! whenever that is written; what came through memory, where it was allocated, once a run has shown by which call, or where other code
//! stores to the same member of such objects. The place
//! just before the access is always among the probes of a site: there the register moves to the address that is used now.

mod fresh;
mod given;
mod origin;
mod point;

pub use fresh::{after_allocation, handing_out};
pub use given::given_to;

use std::collections::BTreeMap;

use program::code::{Operand, accesses};
use program::{Pc, Program};
use slicer::plan::{AddressExpr, Early, Plan, WatchSite};
use slicer::threads::ThreadModel;

use crate::location::Trigger;
use crate::watcher::{Address, Expression, Pointed, Probe, WatchSpec};
use origin::Origins;
use point::Points;

/// What to watch for a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Armament {
    /// Locations, each with the watch sites that it serves.
    pub locations: Vec<Armed>,
    /// Watch sites for which no place was found where the address is known and a probe can stand.
    pub unwatched: Vec<usize>,
}

/// A location of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Armed {
    /// The watch sites that it serves, by their place in the plan.
    pub sites: Vec<usize>,
    /// What to watch.
    pub spec: WatchSpec,
}

impl Armed {
    /// Adds the places where another site of the same location finds its address.
    fn also_found_by(&mut self, spec: WatchSpec) {
        if let (Address::Probed(probes), Address::Probed(more)) = (&mut self.spec.address, spec.address) {
            more.into_iter().for_each(|probe| add(probes, probe));
        }
    }
}

/// What is the same for two sites that access the same bytes each time: what a function does with one argument, or with
/// one result of a call, it does with one thing.
fn key(site: &WatchSite, spec: &WatchSpec, program: &Program<'_>) -> String {
    match (&spec.address, site.early, program.function_at(site.access)) {
        (
            Address::Probed(_),
            Some(early @ (Early::Argument { .. } | Early::Frame { .. } | Early::Result { .. })),
            Some(function),
        ) => {
            format!("{function:?} {early:?} {}", spec.len)
        }
        _ => format!("{:?} {}", spec.address, spec.len),
    }
}

/// How to watch the sites of a plan. Reads count as much as writes: which thread read what is half of a race.
#[must_use]
pub fn arm<'p, 'a>(plan: &Plan, program: &'p Program<'a>, threads: &ThreadModel<'p, 'a>) -> Armament {
    let points = Points::new(program);
    let origins = Origins::new(program, threads, &points);
    let mut armament = Armament::default();
    // Sites that have the same address are one location, as far as one sees that in the code.
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (number, site) in plan.watch_sites.iter().enumerate() {
        let Some(address) = address(site, &points, &origins) else {
            armament.unwatched.push(number);
            continue;
        };
        let spec = WatchSpec {
            address,
            len: site.width,
            trigger: Trigger::ReadWrite,
            places: 1,
        };
        let key = key(site, &spec, program);
        if let Some(&same) = known.get(&key)
            && let Some(same) = armament.locations.get_mut(same)
        {
            same.sites.push(number);
            same.also_found_by(spec);
            continue;
        }
        known.insert(key, armament.locations.len());
        armament.locations.push(Armed {
            sites: vec![number],
            spec,
        });
    }
    armament
}

/// A probe for memory at an offset into what an instruction accesses, on that instruction: whatever was there before, the access itself
/// is seen.
#[must_use]
pub fn at_access(at: Pc, within: i64, program: &Program<'_>) -> Option<Probe> {
    let points = Points::new(program);
    let (flow, ix) = points.look(at)?;
    let mut made = accesses(flow.instruction(ix)?);
    let access = made.find(|access| access.operand != Operand::Stack && access.segment.is_none())?;
    let expression = Expression {
        base: access.base,
        index: access.index,
        disp: access.disp.checked_add(within)?,
    };
    points.at(at, expression, true)
}

/// An instruction that a pointer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Giver {
    /// A call that returned it.
    Call(Pc),
    /// An instruction that loaded it, perhaps in place of a call that was inlined.
    Load(Pc),
}

/// What gave out the memory that an instruction accesses: where a person would say that the pointer comes from.
#[must_use]
pub fn givers<'p, 'a>(access: Pc, program: &'p Program<'a>, threads: &ThreadModel<'p, 'a>) -> Vec<Giver> {
    let points = Points::new(program);
    Origins::new(program, threads, &points).givers(access)
}

fn address(site: &WatchSite, points: &Points<'_, '_>, origins: &Origins<'_, '_, '_>) -> Option<Address> {
    if let AddressExpr::Static(addr) = site.address {
        return Some(Address::Static {
            module: points.path(site.access.module),
            addr,
        });
    }
    let mut probes: Vec<Probe> = Vec::new();
    match site.early {
        Some(Early::Argument { register, offset }) => {
            let found = origins.of_argument(site.access, register, offset);
            // Everybody passes the same global: it needs no probe.
            if let ([(module, addr), rest @ ..], false) = (&found.fixed[..], found.others)
                && rest.iter().all(|other| other == &(*module, *addr))
            {
                // Nobody changes a constant.
                let changes = points.is_variable(*module, *addr);
                return changes.then(|| Address::Static {
                    module: points.path(*module),
                    addr: *addr,
                });
            }
            probes.extend(found.probes);
        }
        // Whatever the function does to it comes after its entry, and the thread that owns the frame is no stranger to it.
        Some(Early::Frame { offset }) => {
            let entered = origins.of_frame(site.access, offset)?;
            return Some(Address::Probed(vec![entered]));
        }
        Some(Early::Result { call, offset }) => {
            probes.extend(origins.of_result(call, offset));
            probes.extend(points.at_returns_of(call, offset));
            probes.extend(points.after_call(call, offset));
        }
        // Found anew whenever the pointer is written, before anybody can have used what it points to through it.
        Some(Early::Pointer { at, offset }) => {
            return Some(Address::Pointed(Pointed {
                module: points.path(site.access.module),
                addr: at,
                follows: vec![0],
                offset: offset.cast_unsigned(),
            }));
        }
        Some(Early::Start) | None => {}
    }
    probes.extend(just_before(site, points));
    let mut kept: Vec<Probe> = Vec::new();
    probes.into_iter().for_each(|probe| add(&mut kept, probe));
    (!kept.is_empty()).then_some(Address::Probed(kept))
}

fn add(probes: &mut Vec<Probe>, probe: Probe) {
    let same = |other: &Probe| other.addr == probe.addr && other.module == probe.module;
    if !probes.iter().any(same) {
        probes.push(probe);
    }
}

/// The place where the registers of the access have their values.
fn just_before(site: &WatchSite, points: &Points<'_, '_>) -> Option<Probe> {
    let AddressExpr::Registers { base, index, disp } = site.address else {
        return None;
    };
    points.at(site.arm_at, Expression { base, index, disp }, true)
}

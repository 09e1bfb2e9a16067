//! Locations behind pointers: where they are now.
//!
//! The pointers on the way are watched as well, for writes, in registers of their own: when one changes, the
//! location is found anew. Their hits are nobody's business but ours.

use std::path::PathBuf;

use program::{LinkAddr, RunAddr};
use tracee::process::ModuleMap;

use crate::location::{Location, Trigger};
use crate::watcher::{Address, Pointed, WatchSpec};

/// A pointer has so many bytes.
const POINTER: u32 = 8;

/// What a chain of pointers comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Way {
    /// The pointers on the way, as far as it leads.
    pointers: Vec<RunAddr>,
    /// Where it ends, unless a pointer is null or cannot be read.
    end: Option<RunAddr>,
}

fn way(pointed: &Pointed, base: RunAddr, read: impl Fn(RunAddr) -> Option<u64>) -> Way {
    let mut at = base.0;
    let mut pointers = Vec::new();
    for follow in &pointed.follows {
        let pointer = RunAddr(at.wrapping_add(*follow));
        pointers.push(pointer);
        match read(pointer).filter(|&target| target != 0) {
            Some(target) => at = target,
            None => return Way { pointers, end: None },
        }
    }
    Way {
        pointers,
        end: Some(RunAddr(at.wrapping_add(pointed.offset))),
    }
}

/// Whether any location is behind a pointer.
pub(crate) fn any(specs: &[WatchSpec]) -> bool {
    specs
        .iter()
        .any(|spec| matches!(spec.address, Address::Pointed(_)))
}

/// How many registers some locations take together, if they are where registers like to be.
#[must_use]
pub fn registers_for(specs: &[&WatchSpec]) -> usize {
    let others = specs
        .iter()
        .filter(|spec| !matches!(spec.address, Address::Pointed(_)));
    let others: usize = others
        .map(|spec| spec.len.div_ceil(POINTER) as usize * spec.places.max(1) as usize)
        .sum();
    others + needed(specs)
}

/// How many registers locations behind pointers take, with the pointers on the way that are no locations themselves. Those
/// that several ways begin with are watched once.
pub(crate) fn needed(specs: &[&WatchSpec]) -> usize {
    let behind = specs.iter().filter_map(|spec| match &spec.address {
        Address::Pointed(pointed) => Some((pointed, spec.len.div_ceil(POINTER) as usize)),
        _ => None,
    });
    let is_watched = |pointed: &Pointed| {
        specs.iter().any(|spec| match &spec.address {
            Address::Static { module, addr } => {
                let first = pointed.follows.first().copied().unwrap_or(0);
                (module, addr.0, spec.len) == (&pointed.module, pointed.addr.0.wrapping_add(first), POINTER)
            }
            _ => false,
        })
    };
    let mut firsts: Vec<(&Option<PathBuf>, LinkAddr, Option<&u64>)> = Vec::new();
    let mut needed = 0;
    for (pointed, own) in behind {
        let first = (&pointed.module, pointed.addr, pointed.follows.first());
        let shared = firsts.contains(&first) || is_watched(pointed);
        firsts.push(first);
        needed += own + pointed.follows.len() - usize::from(shared && !pointed.follows.is_empty());
    }
    needed
}

/// The places to watch for locations behind pointers. The pointers on the way have numbers behind those of the
/// locations, the same each time.
pub(crate) fn places(
    specs: &[WatchSpec],
    modules: &ModuleMap,
    read: impl Fn(RunAddr) -> Option<u64>,
) -> Vec<(usize, Location)> {
    let mut places = Vec::new();
    let mut number = specs.len();
    for (location, spec) in specs.iter().enumerate() {
        let Address::Pointed(pointed) = &spec.address else {
            continue;
        };
        let first = number;
        number += pointed.follows.len();
        let Some(base) = pointed.base(modules) else {
            continue;
        };
        let way = way(pointed, base, &read);
        let pointers = (first..).zip(way.pointers);
        places.extend(pointers.map(|(number, addr)| {
            let pointer = Location {
                addr,
                len: POINTER,
                trigger: Trigger::Write,
            };
            (number, pointer)
        }));
        places.extend(way.end.map(|addr| {
            let target = Location {
                addr,
                len: spec.len,
                trigger: spec.trigger,
            };
            (location, target)
        }));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn behind(addr: u64, offset: u64) -> WatchSpec {
        WatchSpec {
            address: Address::Pointed(Pointed {
                module: None,
                addr: LinkAddr(addr),
                follows: vec![0],
                offset,
            }),
            len: 8,
            trigger: Trigger::ReadWrite,
            places: 1,
        }
    }

    #[test]
    fn a_pointer_is_watched_once() {
        let pointer = WatchSpec {
            address: Address::Static {
                module: None,
                addr: LinkAddr(0x100),
            },
            len: 8,
            trigger: Trigger::ReadWrite,
            places: 1,
        };
        let (one, other, elsewhere) = (behind(0x100, 0), behind(0x100, 8), behind(0x200, 0));
        assert_eq!(registers_for(&[&one]), 2);
        assert_eq!(registers_for(&[&one, &other]), 3);
        assert_eq!(registers_for(&[&one, &elsewhere]), 4);
        assert_eq!(registers_for(&[&pointer, &one, &other]), 3);
        assert_eq!(registers_for(&[&pointer, &elsewhere]), 3);
    }

    #[test]
    fn the_way_leads_as_far_as_its_pointers() {
        let pointed = Pointed {
            module: None,
            addr: LinkAddr(0x100),
            follows: vec![8, 16],
            offset: 4,
        };
        let mut memory = HashMap::from([(RunAddr(0x1008), 0x2000), (RunAddr(0x2010), 0x3000)]);
        let go =
            |memory: &HashMap<RunAddr, u64>| way(&pointed, RunAddr(0x1000), |at| memory.get(&at).copied());
        let whole = go(&memory);
        assert_eq!(whole.pointers, [RunAddr(0x1008), RunAddr(0x2010)]);
        assert_eq!(whole.end, Some(RunAddr(0x3004)));
        memory.insert(RunAddr(0x2010), 0);
        let part = go(&memory);
        assert_eq!((part.pointers.len(), part.end), (2, None));
        memory.remove(&RunAddr(0x1008));
        assert_eq!(go(&memory).pointers, [RunAddr(0x1008)]);
    }
}

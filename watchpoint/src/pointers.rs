//! Locations behind pointers: where they are now.
//!
//! The pointers on the way are watched as well, for writes, in registers of their own: when one changes, the
//! location is found anew. Their hits are nobody's business but ours.

use program::RunAddr;
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
    use program::LinkAddr;
    use std::collections::HashMap;

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

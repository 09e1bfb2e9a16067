//! What a host is told to track.

use std::ops::Range;

use program::{BuildId, LinkAddr};
use serde::{Deserialize, Serialize};
use slicer::plan::Plan;
use watchpoint::{WatchSpec, registers_for};

use super::Allocator;
use crate::record::WatchedRecord;

/// What one run is to track. This is what a host is told, so fields may be added and must not be needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Assignment {
    /// How many statements of the slice that covers.
    pub sigma: u32,
    /// The code to trace.
    pub plan: Plan,
    /// The memory to watch.
    pub locations: Vec<(WatchedRecord, WatchSpec)>,
    /// Code of the program's files that is a library's: who called it is what matters of an access there.
    pub library: Vec<LibraryCode>,
    /// The functions whose results are to be noted: where the memory comes from is asked for.
    pub allocators: Vec<Allocator>,
    /// The program's files: what the plan's numbers of modules mean.
    pub modules: Vec<ModuleName>,
}

impl Assignment {
    /// The part of it that a host with so many registers takes. Which of the locations that is follows from the number of the
    /// run, so that every one has its turn somewhere.
    #[must_use]
    pub fn share(mut self, registers: usize, run: u64) -> Self {
        let count = self.locations.len();
        if needed(&self.locations) <= registers {
            return self;
        }
        let first = usize::try_from(run % count as u64).unwrap_or(0);
        self.locations.rotate_left(first);
        let mut kept: Vec<(WatchedRecord, WatchSpec)> = Vec::new();
        for location in self.locations {
            kept.push(location);
            if needed(&kept) > registers {
                kept.pop();
            }
        }
        Self {
            locations: kept,
            ..self
        }
    }
}

/// A file of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleName {
    /// Where the failing process had it.
    pub path: String,
    /// Its build.
    pub build_id: Option<BuildId>,
}

/// A library function that was compiled into the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryCode {
    /// The file; `None` for the executable.
    pub module: Option<String>,
    /// Its instructions.
    pub range: Range<LinkAddr>,
}

/// How many registers some locations take together.
fn needed(locations: &[(WatchedRecord, WatchSpec)]) -> usize {
    registers_for(&locations.iter().map(|(_, spec)| spec).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use watchpoint::{Address, Trigger};

    use super::*;

    /// A location of so many bytes, known by its access.
    fn location(access: u64, bytes: u32) -> (WatchedRecord, WatchSpec) {
        let watched = WatchedRecord {
            module: None,
            access: LinkAddr(access),
            passed: None,
            width: bytes,
            within: 0,
            always_at: None,
            fixed: None,
            late: false,
            given_up: false,
        };
        let spec = WatchSpec {
            address: Address::Static {
                module: None,
                addr: LinkAddr(0x1000 * access),
            },
            len: bytes,
            trigger: Trigger::ReadWrite,
        };
        (watched, spec)
    }

    fn shares(locations: &[(u64, u32)], registers: usize) -> Vec<BTreeSet<u64>> {
        let all = Assignment {
            locations: locations
                .iter()
                .map(|&(access, bytes)| location(access, bytes))
                .collect(),
            ..Assignment::default()
        };
        let share = |run| all.clone().share(registers, run);
        let accesses = |share: Assignment| {
            share
                .locations
                .iter()
                .map(|(watched, _)| watched.access.0)
                .collect()
        };
        (0..8).map(share).map(accesses).collect()
    }

    #[test]
    fn who_has_registers_for_everything_takes_everything() {
        let all = BTreeSet::from([1, 2, 3]);
        assert!(
            shares(&[(1, 8), (2, 8), (3, 8)], 4)
                .iter()
                .all(|share| *share == all)
        );
    }

    #[test]
    fn everything_has_its_turn_with_those_who_have_few() {
        let shares = shares(&[(1, 8), (2, 8), (3, 16), (4, 8)], 2);
        let seen: BTreeSet<u64> = shares.iter().flatten().copied().collect();
        assert_eq!(seen, BTreeSet::from([1, 2, 3, 4]));
        assert!(
            shares.iter().all(|share| !share.is_empty() && share.len() <= 2),
            "{shares:?}"
        );
        assert!(shares.contains(&BTreeSet::from([3])), "one that takes both");
    }

    #[test]
    fn what_is_told_is_understood_with_less_and_more() {
        let told = Assignment {
            sigma: 4,
            locations: vec![location(1, 8)],
            ..Assignment::default()
        };
        let text = serde_json::to_string(&told).unwrap();
        assert_eq!(serde_json::from_str::<Assignment>(&text).unwrap(), told);
        let newer = text.replacen('{', "{\"unheard_of\":[1],", 1);
        assert_eq!(serde_json::from_str::<Assignment>(&newer).unwrap(), told);
        assert_eq!(
            serde_json::from_str::<Assignment>("{}").unwrap(),
            Assignment::default()
        );
    }
}

//! What a host is told to track.

use std::ops::Range;

use program::{BuildId, LinkAddr};
use serde::{Deserialize, Serialize};
use slicer::plan::Plan;
use watchpoint::WatchSpec;

use super::{Allocator, ResultProbe};
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
    /// The program has one thread: what its functions share may be in its frames.
    pub own_frames: bool,
    /// Code of the program's files that is a library's: who called it is what matters of an access there.
    pub library: Vec<LibraryCode>,
    /// The functions whose results are to be noted: where the memory comes from is asked for.
    pub allocators: Vec<Allocator>,
    /// Calls whose results are to be noted, whatever memory is watched.
    pub results: Vec<ResultProbe>,
    /// The program's files: what the plan's numbers of modules mean.
    pub modules: Vec<ModuleName>,
    /// How many locations there are to watch in all, if this is only a host's share of them; 0 if it is all.
    pub planned: u32,
    /// Those of the locations that matter most.
    #[serde(skip)]
    pub wanted: Vec<usize>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood_with_less_and_more() {
        let told = Assignment {
            sigma: 4,
            planned: 3,
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

//! What the debug information says about an address: functions, lines, variables, types.
//!
//! DWARF 4 and 5, in the file, in a separate one, split, or shared through `dwz`. Nothing is read before it
//! is asked for: a question about one address reads the headers of all units and the content of one.
//!
//! - [`load`](Sources::load) finds the file that has the debug information (`load`, `split`);
//! - `facts`: what the answers look like;
//! - `units`, `ranges`, `passed`: the units, and which of them cover an address;
//! - `lines`, `search`, `paths`: line tables, both ways;
//! - `functions`, `body`, `names`, `symbols`, `frames`: functions, what was inlined into them, what they are called;
//! - `private`: what only one compilation can name, and its code;
//! - `origin`: whether code comes from some file at all;
//! - `variables`, `location`, `globals`, `global_at`: variables, and where they are;
//! - `types`, `members`: types, and which part of one an offset falls into.

mod body;
mod budget;
mod children;
mod facts;
mod frames;
mod functions;
mod global_at;
mod globals;
mod lines;
mod load;
mod location;
mod members;
mod names;
mod near;
mod origin;
mod passed;
mod paths;
mod private;
mod ranges;
mod search;
mod split;
mod symbols;
mod types;
mod units;
mod variables;

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};

use crate::addr::LinkAddr;
use crate::code::Functions;
use crate::files::Files;
use budget::Budget;
pub use facts::{
    DebugStatus, LineError, LineMatch, LineMatches, LineRow, Parameter, Piece, SourceFrame, SubprogramInfo,
    TypeId, VarLocation, Variable, VariableKind,
};
use globals::Globals;
pub use members::{Member, MemberPath};
use near::NearSets;
use ranges::UnitRanges;
use split::{Package, SplitUnits};
use symbols::Placed;
pub use types::{Encoding, Type, TypeKind};
use units::{Die, Dwarf, MainUnits, Unit, UnitTable};

/// More would not be read by anybody, and a corrupt file has no end of them.
const MOST_PROBLEMS: usize = 64;

type Slots<T> = OnceLock<Vec<OnceLock<Option<Box<T>>>>>;

/// The debug information of one file.
pub struct Sources<'a> {
    files: &'a dyn Files,
    /// The program, and the separate file with its debug information if there is one.
    images: Vec<&'a [u8]>,
    dwarf: Dwarf<'a>,
    status: DebugStatus,
    problems: Mutex<Vec<String>>,
    abbreviations: Mutex<HashMap<(bool, usize), Arc<gimli::Abbreviations>>>,
    main: MainUnits<'a>,
    types: OnceLock<UnitTable<'a>>,
    supplementary: OnceLock<UnitTable<'a>>,
    /// Where the process starts.
    start: LinkAddr,
    near_sets: NearSets<'a>,
    unit_ranges: OnceLock<UnitRanges<'a>>,
    signatures: OnceLock<HashMap<u64, Die>>,
    split: SplitUnits<'a>,
    package: OnceLock<Option<Box<Package<'a>>>>,
    package_types: Slots<Unit<'a>>,
    globals: OnceLock<Globals<'a>>,
    data_symbols: OnceLock<Vec<Placed<'a>>>,
    functions: Option<Arc<Functions<'a>>>,
    function_symbols: OnceLock<Vec<Placed<'a>>>,
    function_questions: AtomicU32,
    address_bases: OnceLock<Vec<(usize, usize)>>,
    location_lists: OnceLock<gimli::LocationLists<units::Reader<'a>>>,
    range_budget: Budget,
    line_budget: Budget,
    entry_budget: Budget,
    abbreviation_budget: Budget,
}

impl Sources<'_> {
    /// Where the debug information was found.
    #[must_use]
    pub fn status(&self) -> &DebugStatus {
        &self.status
    }

    /// Corrupt, stale and missing parts met so far, in the order in which they were met.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.problems
            .lock()
            .map(|problems| problems.clone())
            .unwrap_or_default()
    }

    fn problem(&self, problem: String) {
        if let Ok(mut problems) = self.problems.lock()
            && problems.len() < MOST_PROBLEMS
            && !problems.contains(&problem)
        {
            problems.push(problem);
        }
    }
}

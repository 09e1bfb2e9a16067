//! What locations are called that are in one place of a file's data, whoever had a pointer to it.
//!
//! A global has one name. Functions that are passed its address call it as they like, and a location is named where it is watched for:
//! `when->hour` may be `broken_down.hour` in every run.

use std::collections::BTreeMap;
use std::sync::Arc;

use program::Program;

use super::catalogue::{global_name, module_named};
use crate::fixed::Place;
use crate::run::LocationId;

/// Where locations were in the runs so far.
#[derive(Debug, Default)]
pub(super) struct Globals {
    seen: BTreeMap<LocationId, Seen>,
}

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// In one place, which has this name.
    At(Place, Option<Arc<str>>),
    /// In several, or in none that a file has.
    Elsewhere,
}

impl Globals {
    /// A run had a location in a place of a file's data, or elsewhere. `access` is code that accesses it.
    pub(super) fn was_at(
        &mut self,
        location: LocationId,
        place: Option<Place>,
        access: program::Pc,
        width: u32,
        program: &Program<'_>,
    ) {
        match (self.seen.get(&location), place) {
            (None, Some(place)) => {
                let here = module_named(place.0.as_deref(), program) == Some(access.module);
                let name = here
                    .then(|| global_name(access, place.1, width, program))
                    .flatten();
                // One of many is not named by its place: the next run may have another one there.
                let name = name.filter(|name| !name.path.contains('['));
                let name = name.map(|name| name.path.as_str().into());
                self.seen.insert(location, Seen::At(place, name));
            }
            (Some(Seen::At(known, _)), Some(place)) if *known == place => {}
            _ => {
                self.seen.insert(location, Seen::Elsewhere);
            }
        }
    }

    /// The locations that have a name of their own.
    pub(super) fn names(&self) -> impl Iterator<Item = (LocationId, &Arc<str>)> {
        self.seen.iter().filter_map(|(location, seen)| match seen {
            Seen::At(_, Some(name)) => Some((*location, name)),
            _ => None,
        })
    }
}

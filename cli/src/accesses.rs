//! The variables that a statement of a slice reads and writes.

use std::collections::{BTreeMap, BTreeSet};

use program::naming::{AccessName, Namer};
use program::{FunctionRef, code::InstrIx};
use sketch_render::NamedAccess;
use slicer::slice::Slice;

/// More names than that do not help to read one line.
const MOST_NAMES: usize = 3;

/// What is done to a variable.
#[derive(Clone, Copy, Default)]
struct Use {
    reads: bool,
    writes: bool,
}

/// The memory that the slice followed through a statement, by its source names. Memory that other threads
/// can reach comes before the function's own variables, which are only named when there is nothing else.
pub fn of_statement(slice: &mut Slice<'_, '_>, number: u32) -> Vec<NamedAccess> {
    let mut instructions: BTreeMap<FunctionRef, BTreeSet<InstrIx>> = BTreeMap::new();
    for &(function, ix) in slice.instructions(number) {
        instructions.entry(function).or_default().insert(ix);
    }
    let mut names: Vec<(AccessName, Use)> = Vec::new();
    for (function, instructions) in instructions {
        let Some(view) = slice.view(function) else {
            continue;
        };
        let namer = Namer::new(view.module(), &view.flow, &view.values);
        for ix in instructions {
            for access in view.values.accesses(ix) {
                let Some(name) = namer.name(ix, access) else {
                    continue;
                };
                let known = names.iter().position(|(known, _)| known.path == name.path);
                let at = known.unwrap_or_else(|| {
                    names.push((name, Use::default()));
                    names.len() - 1
                });
                names[at].1.reads |= access.kind.reads();
                names[at].1.writes |= access.kind.writes();
            }
        }
    }
    if names.iter().any(|(name, _)| name.may_be_shared()) {
        names.retain(|(name, _)| name.may_be_shared());
    }
    while names.len() > MOST_NAMES {
        // The shorter ones are the way to the longer ones.
        let shortest = (0..names.len()).min_by_key(|&at| names[at].0.steps.len());
        names.remove(shortest.unwrap_or(0));
    }
    let shown = names.into_iter().map(|(name, done)| NamedAccess {
        access: match (done.reads, done.writes) {
            (true, true) => "RW",
            (false, true) => "W",
            _ => "R",
        },
        variable: name.path,
    });
    shown.collect()
}

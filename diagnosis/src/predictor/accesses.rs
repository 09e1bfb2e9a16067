//! The accesses of a run, by location and address, each statement's read-then-write made one.

use std::collections::BTreeMap;

use crate::run::{AccessKind, LocationId, Run, StatementId, ThreadIx, What};

/// An access, as patterns see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    /// Its place in [`Run::events`]; the write's, where a read and a write were made one.
    pub event: usize,
    pub thread: ThreadIx,
    pub statement: StatementId,
    pub kind: AccessKind,
    pub value: Option<u64>,
    pub before: Option<u64>,
    pub uncertain: bool,
}

/// The accesses at every address, by the location that they are about. Events of locations that the run does not say it
/// watched are left out: it says nothing about them. One address may be watched for several reasons; it goes by the
/// first of its locations.
pub(crate) fn by_address(run: &Run) -> BTreeMap<(LocationId, u64), Vec<Touch>> {
    let mut all: BTreeMap<u64, (LocationId, Vec<Touch>)> = BTreeMap::new();
    for (event, happened) in run.events.iter().enumerate() {
        let What::Access(access) = happened.what else {
            continue;
        };
        if !run.watched.contains(&access.location) {
            continue;
        }
        let (location, touches) = all.entry(access.addr).or_insert((access.location, Vec::new()));
        *location = access.location.min(*location);
        let touch = Touch {
            event,
            thread: happened.thread,
            statement: happened.statement,
            kind: access.kind,
            value: access.value,
            before: access.before,
            uncertain: happened.uncertain,
        };
        match touches.last_mut() {
            Some(last) if continues(last, &touch) => {
                *last = Touch {
                    kind: AccessKind::ReadWrite,
                    before: last.value,
                    uncertain: last.uncertain || touch.uncertain,
                    ..touch
                };
            }
            _ => touches.push(touch),
        }
    }
    all.into_iter()
        .map(|(addr, (location, touches))| ((location, addr), touches))
        .collect()
}

/// Whether `write` is the second half of what a statement began with `read`.
fn continues(read: &Touch, write: &Touch) -> bool {
    read.thread == write.thread
        && read.statement == write.statement
        && read.kind == AccessKind::Read
        && write.kind == AccessKind::Write
}

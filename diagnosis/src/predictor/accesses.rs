//! The accesses of a run, by location and address, each statement's read-then-write made one.
//!
//! An event whose place among other threads' events is uncertain can change places with those beside it that are
//! uncertain, too: a block of such events has no order across threads, but it has one towards everything before and after
//! it. And what an access met can still tell: a read that returned what only one write of the block left came after it. One that
//! met what it cannot have met where it stands, and has nobody to change places with, was reported too late to be put in its
//! place: it may have been anywhere among the other threads' accesses.

use std::collections::{BTreeMap, BTreeSet, HashMap};

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
    /// The block of events without an order that it is in, if it is in one.
    pub block: Option<usize>,
    /// It is a write that changed the value, and no other write of its block left what it found or what it left.
    pub telling: bool,
    /// Its place is wrong, and the right one is not known.
    pub misplaced: bool,
}

impl Touch {
    /// What it found.
    pub fn met(&self) -> Option<u64> {
        match self.kind {
            AccessKind::Read => self.value,
            AccessKind::Write | AccessKind::ReadWrite => self.before,
        }
    }

    /// Whether it certainly found something else than an access before it left.
    pub fn contradicts(&self, before: &Self) -> bool {
        let certain = self.block.is_none() && before.block.is_none();
        let differ = before
            .value
            .zip(self.met())
            .is_some_and(|(left, met)| left != met);
        certain && differ
    }

    /// Whether it is certain that this came before one that is listed after it.
    pub fn certainly_before(&self, later: &Self) -> bool {
        if self.thread == later.thread {
            return true;
        }
        if self.misplaced || later.misplaced {
            return false;
        }
        let ordered = self.block.is_none() || self.block != later.block;
        let seen = self.telling && later.met() == self.value;
        let not_seen_yet = later.telling && self.value == later.before;
        ordered || seen || not_seen_yet
    }
}

/// The accesses at every address, by the location that they are about. Events of locations that the run does not say it
/// watched are left out: it says nothing about them. One address may be watched for several reasons; it goes by the
/// first of its locations.
pub(crate) fn by_address(run: &Run) -> BTreeMap<(LocationId, u64), Vec<Touch>> {
    let mut all: BTreeMap<u64, (LocationId, Vec<Touch>)> = BTreeMap::new();
    let mut block = None;
    for (event, happened) in run.events.iter().enumerate() {
        block = happened.uncertain.then(|| block.unwrap_or(event));
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
            block,
            telling: false,
            misplaced: false,
        };
        match touches.last_mut() {
            Some(last) if continues(last, &touch) => {
                *last = Touch {
                    kind: AccessKind::ReadWrite,
                    before: last.value,
                    block: last.block.or(touch.block),
                    ..touch
                };
            }
            _ => touches.push(touch),
        }
    }
    all.into_iter()
        .map(|(addr, (location, mut touches))| {
            find_telling(&mut touches);
            find_misplaced(&mut touches);
            ((location, addr), touches)
        })
        .collect()
}

fn find_telling(touches: &mut [Touch]) {
    let mut left: HashMap<(usize, u64), u32> = HashMap::new();
    let writes = touches.iter().filter(|touch| touch.kind.writes());
    for (block, value) in writes.filter_map(|touch| touch.block.zip(touch.value)) {
        *left.entry((block, value)).or_default() += 1;
    }
    for touch in touches.iter_mut().filter(|touch| touch.kind.writes()) {
        if let (Some(block), Some(before), Some(value)) = (touch.block, touch.before, touch.value) {
            let times = |value| left.get(&(block, value)).copied().unwrap_or_default();
            touch.telling = before != value && times(value) == 1 && times(before) == 0;
        }
    }
}

/// Whoever is late with one report may be with the next ones, too: these are only seen to contradict the last write.
fn find_misplaced(touches: &mut [Touch]) {
    let mut content = None;
    let mut late = BTreeSet::new();
    for at in 0..touches.len() {
        let touch = touches[at];
        let beside = [at.checked_sub(1), Some(at + 1)];
        let mut beside = beside.into_iter().flatten().filter_map(|at| touches.get(at));
        let alone = touch.block.is_some() && beside.all(|other| other.block != touch.block);
        let differs = touch.met().zip(content).is_some_and(|(met, left)| met != left);
        if differs && (alone || late.contains(&touch.thread)) {
            touches[at].misplaced = true;
            late.insert(touch.thread);
        } else {
            late.remove(&touch.thread);
        }
        if touch.kind.writes() {
            content = touch.value;
        }
    }
}

/// Whether `write` is the second half of what a statement began with `read`.
fn continues(read: &Touch, write: &Touch) -> bool {
    read.thread == write.thread
        && read.statement == write.statement
        && read.kind == AccessKind::Read
        && write.kind == AccessKind::Write
}

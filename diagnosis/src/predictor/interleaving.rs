//! Order and atomicity: one pass over the accesses to one address.
//!
//! The pass remembers what patterns can still refer to: the last write, the reads since, every thread's last access and the reads by which it
//! found what is there now, and the different accesses (thread, statement, kind) by how recent they are. These lists are bounded, so
//! the pass is linear in the accesses.
//!
//! The two accesses of one thread that another one's comes between are neighbours among its own, but for a check: it holds for all uses of what
//! it found, and a loop may have many.

use std::collections::{BTreeSet, HashMap};

use super::accesses::Touch;
use super::{Actor, AtomicityPattern, OrderPattern, Predictor};
use crate::run::{AccessKind, LocationId, StatementId, ThreadIx};

/// Different accesses that are remembered at once. What is farther back than this many others is not looked at.
const REMEMBERED: usize = 64;

/// What the pass finds. `true` says that the order that it depends on is certain.
pub(crate) trait Found {
    /// A predictor's instance: its events, in the order of the pattern.
    fn found(&mut self, predictor: Predictor<u16>, events: &[usize], certain: bool);

    /// One that would have held if the run had failed where others did.
    fn instead(&mut self, predictor: Predictor<u16>, events: &[usize], certain: bool);
}

/// The accesses to one address.
pub(crate) struct Pass<'a> {
    pub location: LocationId,
    pub roles: &'a [u16],
    /// Whether all accesses from the start on are here, so that a first read is one that nothing preceded.
    pub from_the_start: bool,
    /// Whether zero may stand for what is not there yet: a counter that is zero is one all the same.
    pub may_be_empty: bool,
    /// Whether accesses in between may be missing.
    pub gaps: bool,
    /// Reads that decide whether others are made.
    pub guards: &'a BTreeSet<(StatementId, StatementId)>,
}

#[derive(Default)]
struct State {
    last_write: Option<Touch>,
    /// A write left something else than zero.
    filled: bool,
    reads_since: Vec<Touch>,
    last_of: HashMap<ThreadIx, Touch>,
    /// The reads by which a thread found what it found last, up to its last access.
    found_by: HashMap<ThreadIx, Vec<Touch>>,
    recent: Vec<Touch>,
}

impl Pass<'_> {
    fn actor(&self, touch: &Touch) -> Actor<u16> {
        Actor {
            statement: touch.statement,
            role: self.roles.get(touch.thread.0 as usize).copied().unwrap_or(0),
        }
    }

    /// Looks at all of them.
    pub(crate) fn run(&self, touches: &[Touch], out: &mut impl Found) {
        let mut state = State::default();
        for (at, touch) in touches.iter().enumerate() {
            self.order(&state, touch, out);
            self.atomicity(&state, touch, out);
            if let Some(next) = touches.get(at + 1) {
                self.the_other_way_round(touch, next, out);
            }
            state.after(touch);
        }
    }

    fn pair(&self, pattern: OrderPattern, first: &Touch, second: &Touch) -> Predictor<u16> {
        Predictor::Order {
            pattern,
            location: self.location,
            first: self.actor(first),
            second: self.actor(second),
        }
    }

    fn order(&self, state: &State, touch: &Touch, out: &mut impl Found) {
        let foreign = |other: &&Touch| other.thread != touch.thread;
        let mut emit = |pattern, first: &Touch| {
            let certain = first.certainly_before(touch);
            let events = [first.event, touch.event];
            out.found(self.pair(pattern, first, touch), &events, certain);
        };
        if touch.kind.reads()
            && let Some(write) = state.last_write.as_ref().filter(foreign)
            && !(self.gaps && touch.contradicts(write))
        {
            emit(OrderPattern::Wr, write);
        }
        if touch.kind.writes() {
            for read in state.reads_since.iter().filter(foreign) {
                emit(OrderPattern::Rw, read);
            }
            let unread = state.reads_since.is_empty() && !touch.kind.reads();
            if let Some(write) = state.last_write.as_ref().filter(foreign).filter(|_| unread) {
                emit(OrderPattern::Ww, write);
            }
        }
        // What a constructor or a `memset` leaves is as good as nothing: whoever finds it came before the write that counts.
        let unwritten = match &state.last_write {
            None => true,
            Some(write) => {
                let empty = self.may_be_empty && !state.filled && touch.kind == AccessKind::Read;
                empty && touch.met() == Some(0) && touch.block.is_none() && write.block.is_none()
            }
        };
        if touch.kind.reads() && unwritten && self.from_the_start {
            let unwritten = Predictor::Unwritten {
                location: self.location,
                read: self.actor(touch),
            };
            out.found(unwritten, &[touch.event], touch.block.is_none());
        }
    }

    /// Where the order of two neighbours is not certain, the predictors that would hold in the other order may hold.
    fn the_other_way_round(&self, one: &Touch, next: &Touch, out: &mut impl Found) {
        if one.certainly_before(next) {
            return;
        }
        let kinds = [
            (OrderPattern::Wr, next.kind.writes() && one.kind.reads()),
            (OrderPattern::Rw, next.kind.reads() && one.kind.writes()),
            (OrderPattern::Ww, next.kind.writes() && one.kind.writes()),
        ];
        for (pattern, _) in kinds.into_iter().filter(|(_, possible)| *possible) {
            out.found(self.pair(pattern, next, one), &[next.event, one.event], false);
        }
    }

    fn atomicity(&self, state: &State, touch: &Touch, out: &mut impl Found) {
        let Some(own) = state.last_of.get(&touch.thread) else {
            return;
        };
        self.torn_apart(state, own, own, touch, out);
        let found_by = state.found_by.get(&touch.thread).into_iter().flatten();
        let is_check = |read: &&Touch| {
            read.event != own.event && self.guards.contains(&(read.statement, touch.statement))
        };
        for check in found_by
            .filter(is_check)
            .filter(|_| touch.kind == AccessKind::Read)
        {
            self.torn_apart(state, check, own, touch, out);
        }
    }

    /// The accesses of others that come between two of one thread, of which the first still held at a later one, `held`.
    fn torn_apart(&self, state: &State, own: &Touch, held: &Touch, touch: &Touch, out: &mut impl Found) {
        let between = state
            .recent
            .iter()
            .rev()
            .take_while(|other| other.event > held.event);
        for other in between.filter(|other| other.thread != touch.thread) {
            let Some(pattern) = AtomicityPattern::of(own.kind, other.kind, touch.kind) else {
                continue;
            };
            if pattern != AtomicityPattern::Wrw && state.undisturbed(own, touch) {
                continue;
            }
            // A read returns the last write: one before that tore nothing apart that the thread could see.
            let ends_in_read = matches!(pattern, AtomicityPattern::Rwr | AtomicityPattern::Wwr);
            let returned = state.last_write.filter(|_| ends_in_read);
            let replaced = returned.filter(|write| write.event != other.event);
            if replaced.is_some_and(|write| other.certainly_before(&write)) {
                continue;
            }
            let predictor = Predictor::Atomicity {
                pattern,
                location: self.location,
                first: self.actor(own),
                between: self.actor(other),
                second: self.actor(touch),
            };
            let certain = held.certainly_before(other) && other.certainly_before(touch) && replaced.is_none();
            out.found(predictor, &[own.event, other.event, touch.event], certain);
        }
    }
}

impl State {
    /// Whether a thread's second access met what its first had left, although another thread wrote between. Where values
    /// are not known, it is taken not to have.
    fn undisturbed(&self, first: &Touch, second: &Touch) -> bool {
        let replaced = self.last_write.as_ref().and_then(|write| write.value);
        let met = match second.kind {
            AccessKind::Read => second.value,
            AccessKind::Write | AccessKind::ReadWrite => second.before.or(replaced),
        };
        first.value.is_some() && first.value == met
    }

    fn after(&mut self, touch: &Touch) {
        if touch.kind.writes() {
            self.filled |= touch.value != Some(0);
            self.last_write = Some(*touch);
            self.reads_since.clear();
        } else {
            remember(&mut self.reads_since, touch);
        }
        self.last_of.insert(touch.thread, *touch);
        let found_by = self.found_by.entry(touch.thread).or_default();
        let same = found_by.last().is_none_or(|read| read.value == touch.value);
        if touch.kind.writes() || touch.value.is_none() || !same {
            found_by.clear();
        }
        if touch.kind == AccessKind::Read && touch.value.is_some() {
            remember(found_by, touch);
        }
        remember(&mut self.recent, touch);
    }
}

/// Puts an access at the end of a list that has each (thread, statement, kind) once.
fn remember(list: &mut Vec<Touch>, touch: &Touch) {
    let same = |other: &Touch| {
        (other.thread, other.statement, other.kind) == (touch.thread, touch.statement, touch.kind)
    };
    if let Some(at) = list.iter().rposition(same) {
        list.remove(at);
    } else if list.len() == REMEMBERED {
        list.remove(0);
    }
    list.push(*touch);
}

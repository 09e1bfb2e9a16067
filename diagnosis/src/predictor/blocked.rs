//! Whom each thread of a hanging run waits for.
//!
//! Four witnesses tell it, each where the ones before it are silent:
//!
//! 1. *The lock.* glibc's say who holds them, and a thread that joins another one waits for its end.
//! 2. *What happened to a lock that does not say it.* Taking one makes its word larger, and whoever has not made it smaller again has it,
//!    be it the one that waits; that he waits may stand there, too, and does not count. Where values do not tell, taking one changes a
//!    zero into something else, and whoever waits for it does not hold it.
//! 3. *The last access.* A thread that ended in an access to watched memory waits for whoever wrote there last. Nothing here knows
//!    what a lock is: a loop that spins is as good.
//! 4. *The slice.* A thread that waits at a statement depends on a statement that another waiting thread has come past in the
//!    function that it waits in.

mod history;

use std::collections::{BTreeMap, BTreeSet};

use super::accesses::Touch;
use crate::run::{Catalogue, LocationId, Run, StatementId, ThreadIx, Wanted};
use crate::sketch::Why;
use history::History;

/// The accesses of a run, by location and address.
pub(crate) type Touches = BTreeMap<(LocationId, u64), Vec<Touch>>;

/// What a thread waits for may be the word beside the one that says whether it is taken.
const BESIDE: u64 = 4;

/// A thread that waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub thread: ThreadIx,
    /// Where it waits.
    pub wants: StatementId,
    /// Its last access to what it wants.
    pub event: Option<usize>,
    /// For whom; itself, if it holds what it wants.
    pub holder: ThreadIx,
    /// Where that one got it.
    pub since: Option<Since>,
    /// What it wants, where that was watched.
    pub location: Option<LocationId>,
    pub addr: Option<u64>,
    /// Whether the order of events that this depends on is certain.
    pub certain: bool,
    /// Who tells it.
    pub witness: Witness,
}

/// Who tells that a thread waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Witness {
    /// What it waits for.
    Lock,
    /// What happened to the lock.
    History,
    /// The last access.
    Access,
    /// The slice.
    Slice,
}

/// Where a thread got what another wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since {
    pub statement: StatementId,
    /// The access, where it was seen; otherwise the slice says so.
    pub event: Option<usize>,
}

/// Whom the threads of a hanging run wait for.
pub(crate) fn blocked(catalogue: &Catalogue, run: &Run, touches: &Touches) -> BTreeMap<ThreadIx, Blocked> {
    let mut all = by_locks(run, touches);
    let others = by_last_access(run, touches).into_iter();
    let others = others.chain(by_slice(catalogue, run));
    for edge in others.filter(|edge| is_possible(run, edge)) {
        all.entry(edge.thread).or_insert(edge);
    }
    // Where a holder got what it holds may not have been watched, and follow from the code all the same.
    for edge in all.values_mut().filter(|edge| edge.since.is_none()) {
        let waits_for_end = matches!(wanted(run, edge.thread), Some(Wanted::End(_)));
        if !waits_for_end && edge.holder != edge.thread {
            edge.since = has_taken(catalogue, run, edge.holder);
        }
    }
    all
}

/// Whether somebody waits for a lock, and nobody knows who has it.
pub(crate) fn is_open(run: &Run, known: &BTreeMap<ThreadIx, Blocked>) -> bool {
    let mut locks = run
        .waits
        .iter()
        .filter(|waits| matches!(waits.wanted, Wanted::Lock { .. }));
    locks.any(|waits| !known.contains_key(&waits.thread))
}

fn wanted(run: &Run, thread: ThreadIx) -> Option<Wanted> {
    let mut waits = run.waits.iter();
    waits
        .find(|waits| waits.thread == thread)
        .map(|waits| waits.wanted)
}

/// Whether what the last two witnesses say may be believed. Of a thread that waits for a lock, only if no other one but the holder that
/// they name waits for another lock.
fn is_possible(run: &Run, edge: &Blocked) -> bool {
    let wanted_lock = match wanted(run, edge.thread) {
        Some(Wanted::Lock { addr, .. }) => addr,
        Some(Wanted::End(_)) => return false,
        Some(Wanted::Word(_)) | None => return true,
    };
    let others = run.waits.iter().filter(|waits| match waits.wanted {
        Wanted::Lock { addr, .. } => addr != wanted_lock,
        Wanted::End(_) | Wanted::Word(_) => false,
    });
    others.map(|waits| waits.thread).eq([edge.holder])
}

fn stack(run: &Run, thread: ThreadIx) -> &[StatementId] {
    let thread = run.threads.get(thread.0 as usize);
    thread.map_or(&[], |thread| &thread.stack)
}

/// The first two witnesses.
fn by_locks(run: &Run, touches: &Touches) -> BTreeMap<ThreadIx, Blocked> {
    let mut all = BTreeMap::new();
    for waits in &run.waits {
        let thread = waits.thread;
        let Some(&wants) = stack(run, thread).first() else {
            continue;
        };
        let alone = |holder| Blocked {
            thread,
            wants,
            event: None,
            holder,
            since: None,
            location: None,
            addr: None,
            certain: true,
            witness: Witness::Lock,
        };
        let edge = match waits.wanted {
            Wanted::Word(_) => None,
            Wanted::End(of) => Some(alone(of)),
            Wanted::Lock { addr, holder } => {
                let watched = at(touches, addr);
                let history = History {
                    run,
                    addr,
                    list: watched.map_or(&[], |(_, list)| list),
                };
                let found = match holder {
                    Some(holder) => Some((holder, history.got(holder, thread, wants), true)),
                    None => history.taken(thread).map(|took| {
                        let certain = history
                            .last(thread)
                            .is_none_or(|wants| took.certainly_before(wants));
                        (took.thread, Some(took), certain)
                    }),
                };
                found.map(|(holder_thread, took, certain)| Blocked {
                    event: history.last(thread).map(|touch| touch.event),
                    since: took.map(since),
                    location: watched.map(|(location, _)| location),
                    addr: Some(addr),
                    certain,
                    witness: match holder {
                        Some(_) => Witness::Lock,
                        None => Witness::History,
                    },
                    ..alone(holder_thread)
                })
            }
        };
        all.extend(edge.map(|edge| (thread, edge)));
    }
    all
}

fn since(touch: &Touch) -> Since {
    Since {
        statement: touch.statement,
        event: Some(touch.event),
    }
}

/// What was seen of a lock.
fn at(touches: &Touches, addr: u64) -> Option<(LocationId, &[Touch])> {
    let exactly = |wanted: u64| {
        let mut all = touches.iter();
        all.find(|((_, addr), _)| *addr == wanted)
            .map(|((location, _), list)| (*location, list.as_slice()))
    };
    exactly(addr).or_else(|| exactly(addr.checked_sub(BESIDE)?))
}

/// The third: for each thread that ends in an access, to what, and who wrote there last before it.
fn by_last_access(run: &Run, touches: &Touches) -> Vec<Blocked> {
    let mut ends: BTreeMap<ThreadIx, (LocationId, u64, Touch)> = BTreeMap::new();
    for ((location, addr), list) in touches {
        for touch in list {
            let end = ends.entry(touch.thread).or_insert((*location, *addr, *touch));
            if touch.event >= end.2.event {
                *end = (*location, *addr, *touch);
            }
        }
    }
    ends.retain(|thread, (_, _, touch)| {
        let ended = run
            .threads
            .get(thread.0 as usize)
            .is_some_and(|thread| thread.ended);
        let stack = stack(run, *thread);
        !ended && (stack.is_empty() || stack.contains(&touch.statement))
    });
    let edges = ends.into_iter().filter_map(|(thread, (location, addr, wants))| {
        let list = touches.get(&(location, addr))?;
        let mut others = list
            .iter()
            .filter(|touch| touch.event < wants.event && touch.thread != thread);
        let holder = *others.rfind(|touch| touch.kind.writes())?;
        Some(Blocked {
            thread,
            wants: wants.statement,
            event: Some(wants.event),
            holder: holder.thread,
            since: Some(since(&holder)),
            location: Some(location),
            addr: Some(addr),
            certain: holder.certainly_before(&wants),
            witness: Witness::Access,
        })
    });
    edges.collect()
}

/// The fourth.
fn by_slice(catalogue: &Catalogue, run: &Run) -> Vec<Blocked> {
    if run.failed.is_some_and(|failed| failed.polls) {
        return Vec::new();
    }
    let mut all = Vec::new();
    let threads = || (0..).map(ThreadIx).take(run.threads.len());
    for thread in threads() {
        let Some(&wants) = stack(run, thread).first() else {
            continue;
        };
        // Idle workers wait in one place, and for somebody to give them work; for one lock threads may wait there from two sides.
        let is_lock = matches!(wanted(run, thread), Some(Wanted::Lock { .. }));
        let is_idle = |other: &ThreadIx| !is_lock && stack(run, *other).first() == Some(&wants);
        let others = threads().filter(|other| *other != thread && !is_idle(other));
        let holding = others
            .filter_map(|holder| Some((holder, come_past(catalogue, run, wants, holder)?)))
            .next();
        all.extend(holding.map(|(holder, since)| Blocked {
            thread,
            wants,
            event: None,
            holder,
            since: Some(since),
            location: None,
            addr: None,
            certain: true,
            witness: Witness::Slice,
        }));
    }
    // Who waits for nobody is in no cycle, and whoever waits for him is not, either.
    loop {
        let waiting: BTreeSet<ThreadIx> = all.iter().map(|blocked| blocked.thread).collect();
        let before = all.len();
        all.retain(|blocked| waiting.contains(&blocked.holder));
        if all.len() == before {
            return all;
        }
    }
}

/// Where a thread that waits has taken a lock, if the code leaves one place only: of the statements that take some, in the functions that
/// it is in, those that it has come past.
fn has_taken(catalogue: &Catalogue, run: &Run, holder: ThreadIx) -> Option<Since> {
    let info = |id: &StatementId| catalogue.statements.get(id.0 as usize);
    let places: Vec<_> = stack(run, holder).iter().filter_map(info).collect();
    let taking = catalogue.statements.iter().enumerate().filter(|(_, taking)| {
        let come_past = |place: &&crate::run::StatementInfo| {
            (&taking.module, &taking.function) == (&place.module, &place.function) && taking.pc < place.pc
        };
        taking.takes && places.iter().any(come_past)
    });
    let mut taking = taking.map(|(at, _)| at);
    let only = taking.next().filter(|_| taking.next().is_none())?;
    Some(Since {
        statement: StatementId(u32::try_from(only).ok()?),
        event: None,
    })
}

/// The last statement that `wants` depends on and that a waiting thread has come past, in the function that it waits in.
fn come_past(catalogue: &Catalogue, run: &Run, wants: StatementId, holder: ThreadIx) -> Option<Since> {
    let place = catalogue.statements.get(stack(run, holder).first()?.0 as usize)?;
    let passed = catalogue.statements.iter().enumerate().filter(|(_, passed)| {
        let needed = passed
            .because
            .is_some_and(|because| because.of == wants && because.why == Why::Data);
        needed && passed.function == place.function && passed.pc < place.pc
    });
    let (at, _) = passed.max_by_key(|(_, passed)| passed.pc)?;
    Some(Since {
        statement: StatementId(u32::try_from(at).ok()?),
        event: None,
    })
}

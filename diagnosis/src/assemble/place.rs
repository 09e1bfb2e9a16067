//! In which lane a step is, and where.
//!
//! A step that was seen stands where its event stands. One that follows from the code stands right before the first step
//! of its thread that it leads to. The order of two threads' steps is the events' order; where that is not certain, the
//! step says up to which number the others are known to have come before.

use std::collections::{BTreeMap, BTreeSet};

use super::present;
use super::select::Pick;
use crate::run::{Access, Catalogue, Run, ThreadIx, What};
use crate::sketch::{Evidence, Source, Step, Thread};

/// Where steps without an event stand before one that has one: what starts the thread, then what leads to the event. What
/// leads to either by some steps stands as many places before it.
const STARTS: u32 = u32::MAX / 4;
const LEADS: u32 = u32::MAX / 2;

/// Gives the steps their places.
pub(super) fn place(catalogue: &Catalogue, run: &Run, mut picks: Vec<Pick>) -> (Vec<Thread>, Vec<Step>) {
    set_apart(run, &mut picks);
    picks.sort_by_key(|pick| (pick.event, pick.thread, pick.statement));
    let keys: Vec<(bool, usize, u32)> = picks
        .iter()
        .map(|pick| key(catalogue, run, &picks, pick))
        .collect();
    let mut order: Vec<usize> = (0..picks.len()).collect();
    order.sort_by_key(|&at| (keys[at], picks[at].thread, picks[at].statement));
    in_line(catalogue, &picks, &keys, &mut order);
    let picks: Vec<Pick> = order.into_iter().map(|at| picks[at]).collect();

    let mut lanes: BTreeMap<ThreadIx, u32> = BTreeMap::new();
    let mut threads = Vec::new();
    let mut steps: Vec<Step> = Vec::new();
    for pick in &picks {
        let lane = *lanes.entry(pick.thread).or_insert_with(|| {
            let id = u32::try_from(threads.len()).unwrap_or(u32::MAX);
            let role = run
                .threads
                .get(pick.thread.0 as usize)
                .map(|thread| thread.role.to_string());
            threads.push(Thread {
                id,
                role,
                ..Thread::default()
            });
            id
        });
        let number = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        let unordered_after = unordered(run, &picks, pick);
        steps.push(Step {
            n: number,
            thread: lane,
            unordered_after,
            ..step(catalogue, run, pick)
        });
    }
    (threads, steps)
}

/// Puts steps that only follow from the code into the order of the code: those of one function that lead to the same event
/// change places among themselves, so that what is written first comes first.
fn in_line(catalogue: &Catalogue, picks: &[Pick], keys: &[(bool, usize, u32)], order: &mut [usize]) {
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (position, &at) in order.iter().enumerate() {
        let pick = &picks[at];
        let info = catalogue.statements.get(pick.statement.0 as usize);
        let Some(info) = info.filter(|_| pick.event.is_none() && !pick.failing) else {
            continue;
        };
        let group = (pick.thread, keys[at].1, info.function.clone());
        groups.entry(group).or_default().push(position);
    }
    let line = |at: usize| {
        let info = catalogue.statements.get(picks[at].statement.0 as usize);
        info.and_then(|info| info.line)
    };
    for positions in groups.into_values() {
        let mut members: Vec<usize> = positions.iter().map(|&position| order[position]).collect();
        members.sort_by_key(|&at| line(at));
        for (position, at) in positions.into_iter().zip(members) {
            order[position] = at;
        }
    }
}

/// The failing statement is the last step, but what it read it may have read before others went on to write it: then the
/// access stands where it was, and the failure is a step of its own.
fn set_apart(run: &Run, picks: &mut Vec<Pick>) {
    let Some(failing) = picks.iter_mut().find(|pick| pick.failing) else {
        return;
    };
    let access = Pick {
        failing: false,
        ..*failing
    };
    let Some((event, read)) = access
        .event
        .and_then(|event| Some((event, access_at(run, event)?)))
    else {
        return;
    };
    // Who waits for a lock still does.
    if run.waits.iter().any(|waits| waits.thread == access.thread) {
        return;
    }
    let writes = |other: usize| {
        let access = access_at(run, other).filter(|access| access.kind.writes());
        access.is_some_and(|access| access.location == read.location)
    };
    let is_later = |other: &Pick| {
        other.thread != access.thread && other.event.is_some_and(|at| at > event && writes(at))
    };
    let is_certain = run.events.get(event).is_some_and(|event| !event.uncertain);
    if is_certain && picks.iter().any(is_later) {
        for failing in picks.iter_mut().filter(|pick| pick.failing) {
            failing.event = None;
            failing.rank = None;
        }
        picks.push(access);
    }
}

fn access_at(run: &Run, event: usize) -> Option<Access> {
    match run.events.get(event)?.what {
        What::Access(access) => Some(access),
        _ => None,
    }
}

/// Where a step stands: the failing one last, the others by their event, those without one before what they lead to.
fn key(catalogue: &Catalogue, run: &Run, picks: &[Pick], pick: &Pick) -> (bool, usize, u32) {
    if let Some(event) = pick.event {
        return (pick.failing, event, u32::MAX);
    }
    if pick.failing {
        return (true, usize::MAX, u32::MAX);
    }
    let info = |statement: crate::run::StatementId| catalogue.statements.get(statement.0 as usize);
    let function = |statement| info(statement).map(|info| info.function.clone());
    if let Some(created) = pick.starts {
        // The creation before what the created thread begins with.
        return (
            false,
            beginning(run, picks, created),
            STARTS + u32::from(pick.thread == created),
        );
    }
    // The chain of steps that it leads to, to the first that was seen; its depth keeps callers before callees.
    let mut depth = 0;
    let mut at = pick.before;
    let mut seen = Vec::new();
    while let Some(before) = at {
        if seen.contains(&before) {
            break;
        }
        seen.push(before);
        depth += 1;
        let callee = function(before);
        let there = |other: &&Pick| {
            other.thread == pick.thread
                && (other.statement == before
                    || function(other.statement) == callee && callee != function(pick.statement))
        };
        let first = picks.iter().filter(there).filter_map(|other| other.event).min();
        if let Some(first) = first {
            return (false, first, LEADS - depth);
        }
        let next = picks
            .iter()
            .find(|other| other.thread == pick.thread && other.statement == before);
        if let Some(created) = next.and_then(|next| next.starts) {
            return (false, beginning(run, picks, created), STARTS - depth);
        }
        at = next.and_then(|next| next.before);
    }
    (false, usize::MAX, LEADS - depth)
}

/// Where the threads of this kind begin that are shown: before everything that they do.
fn beginning(run: &Run, picks: &[Pick], created: ThreadIx) -> usize {
    let role = |thread: ThreadIx| run.threads.get(thread.0 as usize).map(|thread| &thread.role);
    let shown = picks.iter().map(|pick| pick.thread);
    let shown: BTreeSet<ThreadIx> = shown.filter(|&thread| role(thread) == role(created)).collect();
    let first = run.events.iter().position(|event| shown.contains(&event.thread));
    first.unwrap_or(usize::MAX - 1)
}

/// Up to which step the others are known to have come before one whose place is uncertain: events that are uncertain side
/// by side have no order across threads. `None` where all are.
fn unordered(run: &Run, picks: &[Pick], pick: &Pick) -> Option<u32> {
    let event = pick.event.filter(|_| !pick.failing)?;
    let certain = |event: &crate::run::Event| !event.uncertain;
    if run.events.get(event).is_none_or(certain) {
        return None;
    }
    let block = run.events[..event]
        .iter()
        .rposition(certain)
        .map_or(0, |at| at + 1);
    let open = picks.iter().position(|other| {
        other.thread != pick.thread && other.event.is_some_and(|other| (block..event).contains(&other))
    })?;
    Some(u32::try_from(open.saturating_sub(1)).unwrap_or(u32::MAX))
}

fn step(catalogue: &Catalogue, run: &Run, pick: &Pick) -> Step {
    let info = catalogue.statements.get(pick.statement.0 as usize);
    let access = pick.event.and_then(|event| access_at(run, event));
    let location = access.and_then(|access| catalogue.locations.get(access.location.0 as usize));
    let slice = info.and_then(|info| info.slice);
    let on_stack = run
        .threads
        .get(pick.thread.0 as usize)
        .is_some_and(|thread| thread.stack.contains(&pick.statement));
    Step {
        statement: info.map(present::statement).unwrap_or_default(),
        access: access.map(|access| access.kind),
        variable: location
            .and_then(|location| location.variable.as_deref())
            .map(str::to_owned),
        value: access.zip(location).and_then(|(access, location)| {
            Some(present::value(access.value?, location.width, location.shape))
        }),
        source: if slice.is_some() || access.is_none() {
            Source::Slice
        } else {
            Source::Watchpoint
        },
        evidence: if pick.event.is_some() || pick.failing || on_stack {
            Evidence::Traced
        } else {
            Evidence::Inferred
        },
        predictor: pick.rank,
        failing: pick.failing,
        gap_before: pick.event.and_then(|event| {
            let gap = run
                .gaps
                .iter()
                .find(|gap| gap.before == event && gap.thread == Some(pick.thread))?;
            Some(gap.what.clone())
        }),
        distance: slice.map(|slice| slice.distance),
        why: info.and_then(|info| info.because).map(|because| because.why),
        ..Step::default()
    }
}

/// The nearest statements of the slice, the failing one last: what is known before any run was tracked.
pub(super) fn slice(catalogue: &Catalogue, sigma: u32) -> (Vec<Thread>, Vec<Step>) {
    let mut statements: Vec<_> = catalogue
        .statements
        .iter()
        .filter_map(|info| Some((info.slice?, info)))
        .collect();
    statements.sort_by_key(|(slice, _)| *slice);
    statements.truncate(sigma.max(1) as usize);
    let steps = statements
        .iter()
        .rev()
        .enumerate()
        .map(|(n, (slice, info))| Step {
            n: u32::try_from(n).unwrap_or(u32::MAX),
            statement: present::statement(info),
            source: Source::Slice,
            evidence: Evidence::Inferred,
            failing: slice.number == 0,
            distance: Some(slice.distance),
            why: info.because.map(|because| because.why),
            ..Step::default()
        });
    let steps: Vec<Step> = steps.collect();
    let threads = if steps.is_empty() {
        Vec::new()
    } else {
        vec![Thread::default()]
    };
    (threads, steps)
}

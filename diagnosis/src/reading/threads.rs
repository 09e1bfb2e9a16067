//! The threads of a run: what kind each is, where it was, and what it waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use failure::report::{self, Position, Report};
use program::{Pc, RunAddr};
use slicer::threads::ThreadModel;

use super::catalogue::Cataloguer;
use super::places::Places;
use super::roles;
use crate::record::RunRecord;
use crate::run::{RunThread, StatementId, ThreadIx, Waits, Wanted};

/// A thread of which nothing is known.
pub(super) const UNKNOWN: &str = "??";

/// Whether nothing is known of a thread.
pub(super) fn is_unknown(thread: &RunThread) -> bool {
    &*thread.role == UNKNOWN
}

/// The threads of a run by their numbers, in the order in which they were first seen to do something.
pub(super) struct Threads<'r> {
    known: BTreeMap<u32, ThreadIx>,
    pub(super) threads: Vec<RunThread>,
    roles: BTreeMap<u32, Arc<str>>,
    /// Threads that nobody looked at, and whose code does not tell what they are.
    unknown: usize,
    record: &'r RunRecord,
}

impl<'r> Threads<'r> {
    pub(super) fn new(
        record: &'r RunRecord,
        places: &Places<'_, '_, '_>,
        model: &ThreadModel<'_, '_>,
    ) -> Self {
        let mut stacks: BTreeMap<u32, Vec<&[RunAddr]>> = BTreeMap::new();
        for thread in &record.threads {
            stacks.entry(thread.tid).or_default().push(&thread.stack);
        }
        let mut roles: BTreeMap<u32, Arc<str>> = stacks
            .into_iter()
            .filter_map(|(tid, stacks)| Some((tid, roles::of_stacks(stacks, places, model)?)))
            .collect();
        // What a thread was seen to do tells what its stacks do not.
        let mut seen: BTreeMap<u32, BTreeSet<(RunAddr, &[RunAddr])>> = BTreeMap::new();
        for hit in &record.hits {
            let is_told = roles.get(&hit.tid).is_some_and(|name| !roles::is_closure(name));
            if hit.tid != record.pid && !is_told {
                seen.entry(hit.tid).or_default().insert((hit.pc, &hit.callers));
            }
        }
        let mut unknown = 0;
        for (tid, seen) in seen {
            let own = seen.into_iter();
            let own: Vec<Pc> = own.filter_map(|(pc, callers)| places.own(pc, callers)).collect();
            let role = match roles.remove(&tid) {
                Some(closure) => Some(roles::in_closure(closure, &own, places)),
                None => roles::of_code(&own, places, model),
            };
            match role {
                Some(role) => _ = roles.insert(tid, role),
                None => unknown += 1,
            }
        }
        Self {
            known: BTreeMap::new(),
            threads: Vec::new(),
            roles,
            unknown,
            record,
        }
    }

    /// That threads did something whose kind is not known because nobody looked: what they did may be what a predictor
    /// says of their kind.
    pub(super) fn unlooked(&self) -> Option<String> {
        (self.unknown > 0).then(|| {
            format!(
                "{} threads were not looked at, and may be of any kind",
                self.unknown
            )
        })
    }

    pub(super) fn of(&mut self, tid: u32) -> ThreadIx {
        if let Some(&known) = self.known.get(&tid) {
            return known;
        }
        let role = if tid == self.record.pid {
            "main".into()
        } else {
            self.roles.get(&tid).map_or_else(|| UNKNOWN.into(), Arc::clone)
        };
        let number = ThreadIx(u32::try_from(self.threads.len()).unwrap_or(u32::MAX));
        self.threads.push(RunThread {
            role,
            stack: Vec::new(),
            ended: false,
            calls: BTreeMap::new(),
        });
        self.known.insert(tid, number);
        number
    }

    /// By which calls each thread came to where it was looked at.
    pub(super) fn take_calls(&mut self, places: &Places<'_, '_, '_>, catalogue: &mut Cataloguer) {
        // The last look at a statement is the nearest to the failure.
        for looked in self.record.threads.iter().rev() {
            let Some(known) = self.known.get(&looked.tid) else {
                continue;
            };
            let inside = looked.stack.iter().map(|addr| addr.offset(-1));
            let mut stack = own_statements(inside, places, catalogue).into_iter();
            let (Some(statement), Some(thread)) = (stack.next(), self.threads.get_mut(known.0 as usize))
            else {
                continue;
            };
            thread.calls.entry(statement).or_insert_with(|| stack.collect());
        }
    }

    /// What each thread waited for when the run failed. A holder that was never seen is none of the process's threads as far as
    /// anybody knows: a thread's number is another one inside of a container.
    pub(super) fn waits(&self, report: &Report, locks: &BTreeSet<usize>) -> Vec<Waits> {
        let seen = |id: u64| self.known.get(&u32::try_from(id).ok()?).copied();
        let threads = report.threads.iter().enumerate();
        let waits = threads.filter_map(|(at, thread)| {
            let wanted = match thread.wants? {
                report::Wanted::Lock { at, holder } => Wanted::Lock {
                    addr: at.0,
                    holder: holder.and_then(seen),
                },
                report::Wanted::Word { at: word } if locks.contains(&at) => Wanted::Lock {
                    addr: word.0,
                    holder: None,
                },
                report::Wanted::Word { at } => Wanted::Word(at.0),
                report::Wanted::End { of } => Wanted::End(seen(of)?),
            };
            Some(Waits {
                thread: seen(thread.id?)?,
                wanted,
            })
        });
        waits.collect()
    }

    /// Where each thread was when the run failed.
    pub(super) fn take_stacks(
        &mut self,
        report: &Report,
        places: &Places<'_, '_, '_>,
        catalogue: &mut Cataloguer,
    ) {
        for thread in &report.threads {
            let Some(tid) = thread.id.and_then(|id| u32::try_from(id).ok()) else {
                continue;
            };
            // Functions that were inlined have frames of their own at the same place.
            let frames = thread.frames.iter().filter(|frame| !frame.inlined);
            let inside = frames.filter_map(|frame| match frame.position {
                Position::Exact => frame.address,
                Position::Return => Some(frame.address?.offset(-1)),
            });
            let stack = own_statements(inside, places, catalogue);
            let number = self.of(tid);
            if let Some(thread) = self.threads.get_mut(number.0 as usize) {
                thread.stack = stack;
            }
        }
        let is_there = |tid: u32| {
            report
                .threads
                .iter()
                .any(|thread| thread.id == Some(u64::from(tid)))
        };
        let all_told = report.threads.iter().all(|thread| thread.id.is_some());
        for (&tid, number) in self.known.iter().filter(|_| all_told) {
            if let Some(thread) = self.threads.get_mut(number.0 as usize) {
                thread.ended = !is_there(tid);
            }
        }
    }
}

/// The statements of the program's own code on a stack, those of inlined calls among them.
fn own_statements(
    stack: impl Iterator<Item = RunAddr>,
    places: &Places<'_, '_, '_>,
    catalogue: &mut Cataloguer,
) -> Vec<StatementId> {
    let own = stack.filter_map(|addr| places.own(addr, &[]));
    let statements = own.flat_map(|pc| catalogue.statements_at(pc, places.program));
    statements.collect()
}

//! The perf breakpoints of a process: one for each register and thread that was there when we came; threads to
//! come inherit them.
//!
//! Where hits leave records in rings, a breakpoint is an event for each processor. A thread that was created while these
//! were opened has inherited the first of them, and gets the others.

use std::collections::{BTreeMap, BTreeSet};

use program::RunAddr;
use tracee::perf::{
    Breakpoint, DEBUG_REGISTERS, Delivery, Follow, PerfError, Range, Start, Trigger, free_registers,
    free_registers_on, original_file_limit,
};
use tracee::process::Process;
use tracee::{Pid, Tid};

use crate::error::WatchError;
use crate::exact::owner::Outlet;
use crate::location::{self, Slot};

/// How often the list of threads is read at most until it has nothing new.
const ROUNDS: usize = 1000;
/// How many events a thread inherits at most for times to be noted: each of them makes its creation longer, by about a
/// microsecond, so that these cost it as much as a few stops.
const MOST_INHERITED: usize = 256;

/// What a register waits for; nothing yet when its address is still to be found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) slot: Slot,
    pub(crate) trigger: location::Trigger,
    pub(crate) armed: bool,
}

impl Wanted {
    /// A register that is held for an address that is not known yet.
    pub(crate) fn reserved() -> Self {
        Self {
            slot: Slot {
                addr: RunAddr(0x1000),
                len: 1,
            },
            trigger: location::Trigger::Write,
            armed: false,
        }
    }

    fn trigger(&self) -> Result<Trigger, PerfError> {
        let range = Range::new(self.slot.addr, self.slot.len.into())?;
        Ok(match self.trigger {
            location::Trigger::Write => Trigger::Write(range),
            location::Trigger::ReadWrite => Trigger::ReadWrite(range),
        })
    }
}

/// The breakpoints of a thread and of those that it creates.
#[derive(Debug, Default)]
struct Own {
    /// For each register, but for the first ones that the thread inherited.
    hits: Vec<Breakpoint>,
    inherited: usize,
}

/// How many of our registers a thread has inherited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Inherited {
    /// On every processor.
    everywhere: usize,
    /// On each processor, where each has events of its own.
    on: BTreeMap<u32, usize>,
}

impl Inherited {
    fn is_missing(&self, register: usize, cpu: u32) -> bool {
        self.on.get(&cpu).is_none_or(|inherited| *inherited <= register)
    }
}

/// The breakpoints of all threads.
#[derive(Debug)]
pub(crate) struct Arms {
    wanted: Vec<Wanted>,
    threads: BTreeMap<Tid, Own>,
    /// Registers of a thread that are free when we hold none.
    free: usize,
    /// How many files there may be at most for times to be noted: the others are left for everything else.
    room_for_times: usize,
}

impl Arms {
    pub(crate) fn new(wanted: Vec<Wanted>) -> Self {
        Self {
            wanted,
            threads: BTreeMap::new(),
            free: DEBUG_REGISTERS,
            room_for_times: original_file_limit().map_or(0, |limit| (limit.hard / 2) as usize),
        }
    }

    /// Finds out how many registers others hold, on a thread that has none of ours.
    pub(crate) fn look_at(&mut self, tid: Tid) -> Result<(), PerfError> {
        self.free = free_registers(tid)?;
        if self.free < self.wanted.len() {
            return Err(PerfError::NoRegister { tid });
        }
        Ok(())
    }

    /// Arms every thread of a running process. A thread that was listed was armed, or its creator was when it
    /// was created: when a list has nothing new, everybody is armed, and whoever comes later inherits.
    pub(crate) fn arm_all(&mut self, pid: Pid, outlet: &Outlet) -> Result<(), WatchError> {
        let mut known = BTreeSet::new();
        let process = Process::new(pid);
        let at_first = process.threads()?.len();
        for _ in 0..ROUNDS {
            let mut found_new = false;
            for tid in process.threads()? {
                if !known.insert(tid) {
                    continue;
                }
                found_new = true;
                match outlet.with(|delivery| self.arm(tid, self.afforded(delivery, at_first))) {
                    Err(error) if !error.is_gone() => return Err(error.into()),
                    _ => {}
                }
            }
            if !found_new {
                break;
            }
        }
        Ok(())
    }

    /// What so many threads can have: a time is less than a hit.
    fn afforded<'a>(&self, delivery: Delivery<'a>, threads: usize) -> Delivery<'a> {
        let inherited = self.wanted.len().saturating_mul(delivery.files());
        let files = inherited.saturating_mul(threads);
        if files <= self.room_for_times && inherited <= MOST_INHERITED {
            delivery
        } else {
            delivery.without_times()
        }
    }

    /// Arms a thread that was there before its creator was armed. What it inherited already is left alone.
    fn arm(&mut self, tid: Tid, delivery: Delivery<'_>) -> Result<(), PerfError> {
        if self.threads.contains_key(&tid) {
            return Ok(());
        }
        // Registers are opened in their order, on the processors in theirs: a thread that was created meanwhile has the
        // first of them.
        let taken = |free: usize| self.free.saturating_sub(free).min(self.wanted.len());
        let cpus: Vec<u32> = delivery.cpus().collect();
        let mut on = BTreeMap::new();
        if !cpus.is_empty() {
            let free = free_registers_on(&cpus, tid)?.into_iter();
            on.extend(free.map(|(cpu, free)| (cpu, taken(free))));
        }
        let everywhere = match on.values().min() {
            Some(least) => *least,
            None => taken(free_registers(tid)?),
        };
        self.open(tid, &Inherited { everywhere, on }, delivery)
    }

    /// Arms a thread that is known to have nothing of ours.
    pub(crate) fn arm_first(&mut self, tid: Tid, delivery: Delivery<'_>) -> Result<(), PerfError> {
        let delivery = self.afforded(delivery, 1);
        self.open(tid, &Inherited::default(), delivery)
    }

    fn open(&mut self, tid: Tid, inherited: &Inherited, delivery: Delivery<'_>) -> Result<(), PerfError> {
        let missing = self.wanted.iter().enumerate().skip(inherited.everywhere);
        let hits = missing.map(|(register, wanted)| {
            let start = if wanted.armed {
                Start::Enabled
            } else {
                Start::Disabled
            };
            let missing = |cpu| inherited.is_missing(register, cpu);
            Breakpoint::open_where(tid, wanted.trigger()?, delivery, Follow::Threads, start, missing)
        });
        let own = Own {
            hits: hits.collect::<Result<_, _>>()?,
            inherited: inherited.everywhere,
        };
        self.threads.insert(tid, own);
        Ok(())
    }

    /// Makes a register wait for something else, in all threads.
    pub(crate) fn set(&mut self, register: usize, to: Wanted) -> Result<(), PerfError> {
        let Some(wanted) = self.wanted.get_mut(register) else {
            return Ok(());
        };
        let was_armed = wanted.armed;
        *wanted = to;
        let trigger = to.trigger()?;
        let set = |breakpoint: &mut Breakpoint| {
            breakpoint.move_to(trigger)?;
            match (was_armed, to.armed) {
                (false, true) => breakpoint.enable(),
                (true, false) => breakpoint.disable(),
                _ => Ok(()),
            }
        };
        for own in self.threads.values_mut() {
            let hit = register.checked_sub(own.inherited);
            let Some(hit) = hit.and_then(|at| own.hits.get_mut(at)) else {
                continue;
            };
            match set(hit) {
                Err(error) if !error.is_gone() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// How often each register was hit, in all threads together. Zero for those that were moved would be wrong,
    /// so it is the sum over all addresses that a register waited for.
    pub(crate) fn counts(&self) -> Vec<(Slot, u64)> {
        let mut counts = vec![0u64; self.wanted.len()];
        for own in self.threads.values() {
            for (breakpoint, count) in own.hits.iter().zip(counts.iter_mut().skip(own.inherited)) {
                *count = count.saturating_add(breakpoint.count().unwrap_or(0));
            }
        }
        let slots = self.wanted.iter().map(|wanted| wanted.slot);
        slots.zip(counts).collect()
    }

    /// How many hits there were so far, if all that were counted can be asked for.
    pub(crate) fn hits(&self) -> Option<u64> {
        let all = self.threads.values().flat_map(|own| &own.hits);
        all.map(|breakpoint| breakpoint.count().ok()).sum()
    }

    /// Forgets all: an exec has removed them.
    pub(crate) fn clear(&mut self) {
        self.threads.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Inherited;

    #[test]
    fn whoever_was_created_between_two_processors_lacks_the_second() {
        let inherited = Inherited {
            everywhere: 1,
            on: [(0, 2), (1, 1)].into(),
        };
        let missing = |register| [0, 1].map(|cpu| inherited.is_missing(register, cpu));
        assert_eq!(missing(1), [false, true]);
        assert_eq!(missing(2), [true, true]);
    }
}

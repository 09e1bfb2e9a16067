//! The perf breakpoints of a process: one for each register and thread that was there when we came; threads to
//! come inherit them.
//!
//! Where hits are stops, a second breakpoint on the same bytes notes when they happened, as far as registers are left that
//! nobody needs. It is one of its own because the kernel sends no signal for a breakpoint whose program could not run
//! (Linux 6.10 and newer, where a map operation of BPF was interrupted on the same processor): this way a time may be
//! missing, and never a hit.

use std::collections::{BTreeMap, BTreeSet};

use program::RunAddr;
use tracee::perf::{
    Breakpoint, DEBUG_REGISTERS, Delivery, Follow, PerfError, Range, Start, Trigger, free_registers,
    original_file_limit,
};
use tracee::process::Process;
use tracee::{Pid, Tid};

use crate::error::WatchError;
use crate::exact::owner::{Outflow, Outlet};
use crate::location::{self, Slot};

/// How often the list of threads is read at most until it has nothing new.
const ROUNDS: usize = 1000;

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
    /// What notes the times of the first registers' hits, but for what was inherited too.
    notes: Vec<Breakpoint>,
    notes_inherited: usize,
}

/// The breakpoints of all threads.
#[derive(Debug)]
pub(crate) struct Arms {
    wanted: Vec<Wanted>,
    threads: BTreeMap<Tid, Own>,
    /// Registers of a thread that are free when we hold none.
    free: usize,
    /// How many events there may be at most for times to be noted: files are left for everything else.
    room_for_notes: usize,
}

impl Arms {
    pub(crate) fn new(wanted: Vec<Wanted>) -> Self {
        Self {
            wanted,
            threads: BTreeMap::new(),
            free: DEBUG_REGISTERS,
            room_for_notes: original_file_limit().map_or(0, |limit| (limit.hard / 2) as usize),
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
        for _ in 0..ROUNDS {
            let mut found_new = false;
            for tid in Process::new(pid).threads()? {
                if !known.insert(tid) {
                    continue;
                }
                found_new = true;
                match outlet.with(|outflow| self.arm(tid, outflow)) {
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

    /// Arms a thread that was there before its creator was armed. What it inherited already is left alone.
    fn arm(&mut self, tid: Tid, outflow: Outflow<'_>) -> Result<(), PerfError> {
        if self.threads.contains_key(&tid) {
            return Ok(());
        }
        self.before_notes(|arms| {
            // Registers are opened in their order: a thread that was created meanwhile has the first of them.
            let inherited = arms.free.saturating_sub(free_registers(tid)?);
            arms.open(tid, inherited, outflow)
        })
    }

    /// Arms a thread that is known to have nothing of ours.
    pub(crate) fn arm_first(&mut self, tid: Tid, outflow: Outflow<'_>) -> Result<(), PerfError> {
        self.before_notes(|arms| arms.open(tid, 0, outflow))
    }

    /// Opens what hits need; where that fails, once more without what notes their times, which must not be in the way.
    fn before_notes(&mut self, open: impl Fn(&mut Self) -> Result<(), PerfError>) -> Result<(), PerfError> {
        match open(self) {
            Err(error) if !error.is_gone() && self.has_notes() => {
                self.threads.values_mut().for_each(|own| own.notes.clear());
                self.room_for_notes = 0;
                open(self)
            }
            done => done,
        }
    }

    fn has_notes(&self) -> bool {
        self.threads.values().any(|own| !own.notes.is_empty())
    }

    fn open(&mut self, tid: Tid, held: usize, outflow: Outflow<'_>) -> Result<(), PerfError> {
        let open = |wanted: &Wanted, delivery| {
            let start = if wanted.armed {
                Start::Enabled
            } else {
                Start::Disabled
            };
            Breakpoint::open(tid, wanted.trigger()?, delivery, Follow::Threads, start)
        };
        let inherited = held.min(self.wanted.len());
        let hits = self.wanted.iter().skip(inherited);
        let hits = hits.map(|wanted| open(wanted, outflow.hits));
        let mut own = Own {
            hits: hits.collect::<Result<_, _>>()?,
            inherited,
            notes: Vec::new(),
            notes_inherited: held - inherited,
        };
        let events = |own: &Own| own.hits.len() + own.notes.len();
        let held: usize = self.threads.values().map(events).sum();
        let has_room = held + 2 * self.wanted.len() <= self.room_for_notes;
        if let Some(program) = outflow.times.filter(|_| has_room) {
            let left = self.free.saturating_sub(self.wanted.len());
            let notes = self.wanted.iter().take(left).skip(own.notes_inherited);
            // Without a note, the time of its stop is what is known of a hit.
            let notes = notes.map_while(|wanted| open(wanted, Delivery::Bpf(program)).ok());
            own.notes = notes.collect();
        }
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
            let note = register.checked_sub(own.notes_inherited);
            if let Some(note) = note.and_then(|at| own.notes.get_mut(at)) {
                // One that stays where it was notes what nobody asks for.
                let _without_times = set(note);
            }
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

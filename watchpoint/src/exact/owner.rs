//! Who sets the debug registers of a traced process.

use std::sync::{Arc, Mutex, PoisonError};

use program::RunAddr;
use tracee::Tid;
use tracee::bpf::HitProgram;
use tracee::perf::{Delivery, Rings};
use tracee::ptrace::{
    DebugAccess, DebugLength, DebugSlot, DebugWatch, Launched, SigInfo, TraceError, Tracer,
};

use super::times::Times;
use crate::arms::{Arms, Wanted};
use crate::error::WatchError;
use crate::location::{Slot, Trigger};
use crate::watcher::Report;

/// What marks our signals: nobody else's perf events carry it.
const COOKIE: u64 = 0xfa11_5ce7_0000_0000;
const OURS: u64 = 0xffff_ffff_0000_0000;

/// What a SIGTRAP of ours is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trap {
    /// A watched address was touched.
    Watched { at: RunAddr, report: Report },
    /// A probe was reached.
    Probe(ProbeId),
}

const WATCHED: u64 = 0;
const PROBE: u64 = 1 << 24;

pub(crate) fn watch_cookie() -> u64 {
    COOKIE | WATCHED
}

/// Which probe of which location; those of the loader belong to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProbeId {
    pub(crate) location: u16,
    pub(crate) number: u8,
}

impl ProbeId {
    /// Where the dynamic loader says that libraries were mapped.
    pub(crate) const LIBRARIES: Self = Self {
        location: u16::MAX,
        number: u8::MAX,
    };

    /// The probes of a location, of which there may be too many to tell apart.
    pub(crate) fn of(location: usize, number: usize) -> Option<Self> {
        Some(Self {
            location: u16::try_from(location).ok().filter(|it| *it < u16::MAX)?,
            number: u8::try_from(number).ok()?,
        })
    }
}

pub(crate) fn probe_cookie(probe: ProbeId) -> u64 {
    COOKIE | PROBE | u64::from(probe.location) << 8 | u64::from(probe.number)
}

/// The probe that a cookie of ours is for.
pub(crate) fn probe_of(cookie: u64) -> Option<ProbeId> {
    let ours = cookie & OURS == COOKIE && cookie & PROBE != 0;
    ours.then_some(ProbeId {
        location: (cookie >> 8) as u16,
        number: cookie as u8,
    })
}

/// What a signal of a perf event of ours says; `None` for anybody else's signal.
pub(crate) fn perf_trap(info: &SigInfo) -> Option<Trap> {
    let trap = info.perf()?;
    if trap.data & OURS != COOKIE {
        return None;
    }
    Some(match probe_of(trap.data) {
        Some(probe) => Trap::Probe(probe),
        None => Trap::Watched {
            at: trap.address,
            report: if trap.asynchronous {
                Report::Late
            } else {
                Report::Watch
            },
        },
    })
}

/// Whoever sets the debug registers of a process that is traced as `Kind`.
pub(crate) trait Owner<Kind> {
    /// Arms a thread that has nothing of ours: the first, before it runs.
    fn arm_first(&mut self, tracer: &mut Tracer<Kind>, tid: Tid) -> Result<(), WatchError>;
    /// Arms a thread that has just been created, as far as it is not armed already.
    fn arm_new(&mut self, tracer: &mut Tracer<Kind>, tid: Tid) -> Result<(), WatchError>;
    /// What a thread's signal is about, if it is ours.
    fn trap(&mut self, tracer: &mut Tracer<Kind>, tid: Tid, info: &SigInfo) -> Option<Trap>;
    /// When a thread that has stopped made its access, if that is known better than when it stopped.
    fn happened_ns(&mut self, _tid: Tid) -> Option<u64> {
        None
    }
    /// A thread is gone.
    fn forget(&mut self, _tid: Tid) {}
    /// Makes a register wait for something else.
    fn set(&mut self, tracer: &mut Tracer<Kind>, register: usize, to: Wanted) -> Result<(), WatchError>;
    /// An exec has removed everything.
    fn clear(&mut self);
    /// Whether hits are stops.
    fn stops(&self) -> bool;
    /// How many hits there were so far, of all registers and threads, counted at the access and not at its stop; `None`
    /// when nobody counts.
    fn hits(&self) -> Option<u64>;
    /// How often each register was hit, if the owner knows.
    fn counts(&self) -> Vec<(Slot, u64)>;
}

/// Where the hits of perf events go.
#[derive(Clone, Debug)]
pub(crate) enum Outlet {
    /// To us, as stops.
    Stops(Times),
    /// To whoever reads the ring of the program.
    Program(Arc<HitProgram>),
    /// To whoever reads the rings.
    Rings(Arc<Mutex<Rings>>),
}

impl Outlet {
    /// Does something that needs what events are connected to.
    pub(crate) fn with<T>(&self, act: impl FnOnce(Delivery<'_>) -> T) -> T {
        match self {
            Self::Stops(times) => times.with(|times| {
                let cookie = watch_cookie();
                act(Delivery::Stop { cookie, times })
            }),
            Self::Program(program) => act(Delivery::Bpf(program)),
            Self::Rings(rings) => {
                let rings = rings.lock().unwrap_or_else(PoisonError::into_inner);
                act(Delivery::Ring(&rings))
            }
        }
    }
}

/// Perf events.
#[derive(Debug)]
pub(crate) struct PerfOwner {
    pub(crate) arms: Arms,
    pub(crate) outlet: Outlet,
}

impl<Kind> Owner<Kind> for PerfOwner {
    fn arm_first(&mut self, _: &mut Tracer<Kind>, tid: Tid) -> Result<(), WatchError> {
        let arms = &mut self.arms;
        Ok(self.outlet.with(|delivery| arms.arm_first(tid, delivery))?)
    }

    /// It has inherited: whoever could create it was armed before.
    fn arm_new(&mut self, _: &mut Tracer<Kind>, _: Tid) -> Result<(), WatchError> {
        Ok(())
    }

    fn trap(&mut self, _: &mut Tracer<Kind>, _: Tid, info: &SigInfo) -> Option<Trap> {
        perf_trap(info)
    }

    fn happened_ns(&mut self, tid: Tid) -> Option<u64> {
        match &self.outlet {
            Outlet::Stops(times) => times.of(tid),
            Outlet::Program(_) | Outlet::Rings(_) => None,
        }
    }

    fn forget(&mut self, tid: Tid) {
        if let Outlet::Stops(times) = &self.outlet {
            times.forget(tid);
        }
    }

    fn set(&mut self, _: &mut Tracer<Kind>, register: usize, to: Wanted) -> Result<(), WatchError> {
        Ok(self.arms.set(register, to)?)
    }

    fn clear(&mut self) {
        self.arms.clear();
    }

    fn stops(&self) -> bool {
        matches!(self.outlet, Outlet::Stops(_))
    }

    fn hits(&self) -> Option<u64> {
        self.arms.hits()
    }

    fn counts(&self) -> Vec<(Slot, u64)> {
        self.arms.counts()
    }
}

/// Registers that the tracer writes itself, thread by thread.
#[derive(Debug)]
pub(crate) struct PtraceOwner {
    wanted: Vec<Wanted>,
}

impl PtraceOwner {
    pub(crate) fn new(wanted: Vec<Wanted>) -> Self {
        Self { wanted }
    }

    fn write(
        tracer: &mut Tracer<Launched>,
        tid: Tid,
        slot: DebugSlot,
        to: &Wanted,
    ) -> Result<(), TraceError> {
        let watch = DebugWatch {
            address: to.slot.addr,
            length: match to.slot.len {
                1 => DebugLength::One,
                2 => DebugLength::Two,
                4 => DebugLength::Four,
                _ => DebugLength::Eight,
            },
            access: match to.trigger {
                Trigger::Write => DebugAccess::Write,
                Trigger::ReadWrite => DebugAccess::ReadWrite,
            },
        };
        tracer.set_debug_register(tid, slot, to.armed.then_some(watch))
    }
}

impl Owner<Launched> for PtraceOwner {
    fn arm_first(&mut self, tracer: &mut Tracer<Launched>, tid: Tid) -> Result<(), WatchError> {
        self.arm_new(tracer, tid)
    }

    fn arm_new(&mut self, tracer: &mut Tracer<Launched>, tid: Tid) -> Result<(), WatchError> {
        for (slot, wanted) in DebugSlot::ALL.into_iter().zip(&self.wanted) {
            Self::write(tracer, tid, slot, wanted)?;
        }
        Ok(())
    }

    fn trap(&mut self, tracer: &mut Tracer<Launched>, tid: Tid, info: &SigInfo) -> Option<Trap> {
        if !info.is_debug_register() {
            return None;
        }
        let hit = tracer.take_debug_hits(tid).ok()?;
        let slots = DebugSlot::ALL.into_iter().zip(&self.wanted);
        let mut slots = slots.filter(|(slot, wanted)| wanted.armed && hit.contains(slot));
        slots.next().map(|(_, wanted)| Trap::Watched {
            at: wanted.slot.addr,
            report: Report::Watch,
        })
    }

    fn set(&mut self, tracer: &mut Tracer<Launched>, register: usize, to: Wanted) -> Result<(), WatchError> {
        let (Some(wanted), Some(slot)) = (self.wanted.get_mut(register), DebugSlot::ALL.get(register)) else {
            return Ok(());
        };
        *wanted = to;
        let stopped: Vec<Tid> = tracer
            .threads()
            .map(|(_, tid)| tid)
            .filter(|tid| tracer.is_stopped(*tid))
            .collect();
        for tid in stopped {
            Self::write(tracer, tid, *slot, &to)?;
        }
        Ok(())
    }

    fn clear(&mut self) {}

    fn stops(&self) -> bool {
        true
    }

    fn hits(&self) -> Option<u64> {
        None
    }

    fn counts(&self) -> Vec<(Slot, u64)> {
        Vec::new()
    }
}

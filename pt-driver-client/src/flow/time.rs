//! When: what the timing packets come to.
//!
//! A TSC packet tells the timestamp counter as it is. The others refine it until the next one, for as much as is known
//! of the processor's [`Clock`]: MTC is the crystal's clock (TMA ties it to the TSC), CYC counts core cycles, which
//! CBR, or the cycles between two MTCs, convert to ticks.

use crate::config::{Clock, Errata, Erratum};

/// A point in time, in ticks of the timestamp counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// The best that is known: the last TSC packet, and what MTC and CYC packets add to it.
    pub estimated: u64,
    /// What the last TSC packet told: exact, and not after.
    pub told: u64,
}

/// MTC has eight bits of the crystal's clock, TMA sixteen.
const MTC_BITS: u32 = 8;
const TMA_MASK: u32 = 0xffff;
/// Ticks a cycle are kept with so many bits after the point.
const POINT: u32 = 8;

/// What the timing packets came to so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    told: Option<u64>,
    estimated: u64,
    /// The time of the last TSC or MTC, from which cycles are counted.
    base: u64,
    /// Ticks since then that cycles came to.
    since: u64,
    has_tma: bool,
    /// The crystal's clock at the last MTC, or as much of it as TMA told.
    crystal: Option<u32>,
    from_tma: Option<u32>,
    calibration: Calibration,
}

/// How many ticks a cycle is.
#[derive(Debug, Clone, Default)]
struct Calibration {
    ticks_per_cycle: Option<u64>,
    /// The crystal's clock at the last MTC that counted, and the cycles since.
    crystal: Option<u32>,
    cycles: u64,
    /// No MTC came since the last PSB.
    after_psb: bool,
}

impl Timeline {
    /// The time of what follows.
    pub fn now(&self) -> Option<Time> {
        let told = self.told?;
        let estimated = self.estimated;
        Some(Time { estimated, told })
    }

    /// Packets were lost: cycles are counted from the next MTC or TSC on.
    pub fn lost(&mut self) {
        self.calibration.crystal = None;
        self.calibration.cycles = 0;
    }

    pub fn psb(&mut self) {
        self.calibration.after_psb = true;
    }

    pub fn tsc(&mut self, ticks: u64) {
        self.told = Some(ticks);
        (self.estimated, self.base, self.since) = (ticks, ticks, 0);
        self.has_tma = false;
        (self.crystal, self.from_tma) = (None, None);
    }

    /// The core's frequency. In the middle of a trace it changes, and what was measured counts no more.
    pub fn cbr(&mut self, clock: &Clock, ratio: u8, in_psb: bool) {
        if !in_psb {
            self.calibration = Calibration {
                after_psb: self.calibration.after_psb,
                ..Calibration::default()
            };
        }
        if let (Some(nominal), Some(_)) = (clock.nominal_ratio, std::num::NonZero::new(ratio)) {
            self.calibration.ticks_per_cycle = Some((u64::from(nominal.get()) << POINT) / u64::from(ratio));
        }
    }

    pub fn tma(&mut self, clock: &Clock, crystal: u16, fast: u16) {
        if self.told.is_none() || self.has_tma {
            return;
        }
        self.has_tma = true;
        self.base = self.base.saturating_sub(fast.into());
        self.since += u64::from(fast);
        let mask = clock.crystal_mask();
        let crystal = u32::from(crystal) & mask;
        // When TMA has all the bits that an MTC has, it is as good as one.
        if mask <= TMA_MASK {
            self.crystal = Some(crystal);
        } else {
            self.from_tma = Some(crystal);
        }
    }

    pub fn mtc(&mut self, clock: &Clock, payload: u8, errata: Errata) {
        let now = u32::from(payload) << clock.mtc_shift();
        self.calibration.mtc(clock, now, errata);
        // One between a TSC and its TMA says nothing that the next one does not say better.
        if self.told.is_none() || !self.has_tma {
            return;
        }
        let before = match (self.crystal, self.from_tma.take()) {
            (Some(before), _) => before,
            (None, Some(low)) => completed(low, now, clock),
            (None, None) => now,
        };
        self.crystal = Some(now);
        self.since = 0;
        if let Some(ticks) = clock.ticks(clock.crystal_since(before, now)) {
            self.base += ticks;
            self.estimated = self.base;
        }
    }

    pub fn cyc(&mut self, cycles: u64) {
        self.calibration.cycles = self.calibration.cycles.saturating_add(cycles);
        if let (Some(rate), Some(_)) = (self.calibration.ticks_per_cycle, self.told) {
            let ticks = (u128::from(cycles) * u128::from(rate)) >> POINT;
            self.since = self
                .since
                .saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX));
            self.estimated = self.base.saturating_add(self.since);
        }
    }
}

/// TMA's sixteen bits, completed from the MTC that follows: the crystal's clock cannot have passed it.
fn completed(low: u32, next: u32, clock: &Clock) -> u32 {
    let mut high = next & !TMA_MASK;
    if next & TMA_MASK < low {
        high = high.wrapping_sub(TMA_MASK + 1) & clock.crystal_mask();
    }
    high | low
}

impl Calibration {
    fn mtc(&mut self, clock: &Clock, now: u32, errata: Errata) {
        let after_psb = std::mem::take(&mut self.after_psb);
        let Some(before) = self.crystal else {
            (self.crystal, self.cycles) = (Some(now), 0);
            return;
        };
        if self.cycles == 0 {
            return;
        }
        let cycles = std::mem::take(&mut self.cycles);
        self.crystal = Some(now);
        let passed = clock.crystal_since(before, now);
        // SKL168: CYC packets right before a PSB can be lost, and MTC packets with them. What was counted up to the
        // first MTC after a PSB is not to be trusted when one is missing.
        if after_psb && errata.has(Erratum::Skl168) && passed > 1 << clock.mtc_shift() {
            return;
        }
        if let Some(ticks) = clock.ticks(passed) {
            self.ticks_per_cycle = Some((ticks << POINT) / cycles);
        }
    }
}

impl Clock {
    fn mtc_shift(&self) -> u32 {
        u32::from(self.mtc_frequency.min(15))
    }

    /// The bits of the crystal's clock that MTC tells.
    fn crystal_mask(&self) -> u32 {
        (1 << (self.mtc_shift() + MTC_BITS)) - 1
    }

    /// From one reading of the crystal's clock to the next; it may have wrapped around once.
    fn crystal_since(&self, before: u32, now: u32) -> u32 {
        now.wrapping_sub(before) & self.crystal_mask()
    }

    /// As ticks of the timestamp counter.
    fn ticks(&self, crystal: u32) -> Option<u64> {
        let (numerator, denominator) = self.tsc_per_crystal?;
        Some(u64::from(crystal) * u64::from(numerator.get()) / u64::from(denominator.get()))
    }
}

//! When a thread did not have the processor, in the time of its trace.
//!
//! PERF_RECORD_SWITCH, perf_event_open(2): one when the thread loses the processor (PERF_RECORD_MISC_SWITCH_OUT; with
//! PERF_RECORD_MISC_SWITCH_OUT_PREEMPT although it would have gone on), one when it gets it. The kernel writes the first
//! before it stops the tracing unit, and the second after it started it (`__perf_event_task_sched_out` and `_in`): the
//! thread runs nothing of its own in between, though the unit's times can lie there.

use serde::{Deserialize, Serialize};

/// A stretch of time in which a thread did not have the processor, in ticks of the timestamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// From when on; from before the trace when it is 0.
    pub from: u64,
    /// Until when; never again when there is none.
    pub to: Option<u64>,
    /// It would have gone on: it did not wait for anything.
    pub preempted: bool,
}

/// How many are kept: the last ones, like the trace of a flight recorder. A thread that waits a thousand times a second
/// has as many in a minute.
const MOST: usize = 1 << 16;

/// The absences of one thread, from its switches in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Absences {
    /// Times of perf's clock.
    all: Vec<Absence>,
}

impl Absences {
    /// A switch at a time of perf's clock.
    pub(super) fn note(&mut self, time: u64, out: bool, preempted: bool) {
        if out {
            if self.all.len() >= 2 * MOST {
                self.all.drain(..MOST);
            }
            self.all.push(Absence {
                from: time,
                to: None,
                preempted,
            });
            return;
        }
        match self.all.last_mut() {
            Some(last) if last.to.is_none() => last.to = Some(time),
            // It got the processor for the first time since the event is there.
            None => self.all.push(Absence {
                from: 0,
                to: Some(time),
                preempted: false,
            }),
            // The record of the loss was itself lost: when it was is not known.
            Some(_) => {}
        }
    }

    /// In ticks. None where the kernel does not say how its clock and the counter belong together.
    pub(super) fn in_ticks(self, clock: Option<TickClock>) -> Vec<Absence> {
        let Some(clock) = clock else { return Vec::new() };
        let surplus = self.all.len().saturating_sub(MOST);
        let kept = self.all.into_iter().skip(surplus);
        kept.filter_map(|absence| {
            Some(Absence {
                from: match absence.from {
                    0 => 0,
                    from => clock.ticks(from)?,
                },
                to: match absence.to {
                    None => None,
                    Some(to) => Some(clock.ticks(to)?),
                },
                ..absence
            })
        })
        .collect()
    }
}

/// How perf's clock and the timestamp counter belong together: `time_zero`, `time_mult` and `time_shift` of a ring's first
/// page, perf_event_open(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickClock {
    /// The clock when the counter was 0.
    pub zero: u64,
    /// Nanoseconds for `1 << shift` ticks.
    pub mult: u32,
    /// See `mult`.
    pub shift: u16,
}

impl TickClock {
    /// The counter at a time of perf's clock.
    #[must_use]
    pub fn ticks(self, time: u64) -> Option<u64> {
        // The counter can be older than the clock: then the zero is below 0, and the difference wraps around to be right.
        let since = u128::from(time.wrapping_sub(self.zero));
        let scaled = since.checked_mul(1_u128.checked_shl(self.shift.into())?)?;
        u64::try_from(scaled.checked_div(self.mult.into())?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One nanosecond is one tick, and the counter began at 100.
    const CLOCK: TickClock = TickClock {
        zero: 100,
        mult: 1 << 20,
        shift: 20,
    };

    fn absences(switches: &[(u64, bool, bool)]) -> Vec<Absence> {
        let mut absences = Absences::default();
        for &(time, out, preempted) in switches {
            absences.note(time, out, preempted);
        }
        absences.in_ticks(Some(CLOCK))
    }

    fn absence(from: u64, to: impl Into<Option<u64>>, preempted: bool) -> Absence {
        let to = to.into();
        Absence { from, to, preempted }
    }

    #[test]
    fn a_thread_is_away_from_its_loss_to_its_return() {
        let switches = [
            (110, false, false),
            (200, true, true),
            (300, false, false),
            (400, true, false),
        ];
        let expected = [
            absence(0, 10, false),
            absence(100, 200, true),
            absence(300, None, false),
        ];
        assert_eq!(absences(&switches), expected);
    }

    #[test]
    fn records_that_were_lost_leave_what_is_known() {
        // Lost: a return, then a loss.
        let switches = [
            (200, true, false),
            (300, true, true),
            (400, false, false),
            (500, false, false),
        ];
        assert_eq!(
            absences(&switches),
            [absence(100, None, false), absence(200, 300, true)]
        );
        assert_eq!(absences(&[]), []);
    }

    #[test]
    fn without_a_common_clock_nothing_is_said() {
        let mut absences = Absences::default();
        absences.note(5, true, false);
        assert_eq!(absences.in_ticks(None), []);
    }

    #[test]
    fn the_last_ones_are_kept() {
        let mut absences = Absences::default();
        for time in 0..3 * MOST as u64 {
            absences.note(1_000 + 2 * time, true, false);
            absences.note(1_001 + 2 * time, false, false);
        }
        let kept = absences.in_ticks(Some(CLOCK));
        assert_eq!(kept.len(), MOST);
        assert_eq!(
            kept.last().map(|last| last.from),
            Some(900 + 2 * (3 * MOST as u64 - 1))
        );
    }

    #[test]
    fn ticks_are_what_the_manual_says() {
        // time_mult and time_shift of a counter of 2.1 GHz, and the manual's formula.
        let clock = TickClock {
            zero: 5_000,
            mult: 1_022_611_260,
            shift: 31,
        };
        for time in [5_000, 5_001, 1_000_000, 4_000_000_000, 86_400_000_000_000_u64] {
            let since = time - clock.zero;
            let (quot, rem) = (since / u64::from(clock.mult), since % u64::from(clock.mult));
            let manual = (quot << clock.shift) + (rem << clock.shift) / u64::from(clock.mult);
            assert_eq!(clock.ticks(time), Some(manual), "{time}");
        }
        assert_eq!(clock.ticks(4_999), None, "before the counter began");
        let older = TickClock {
            zero: 0_u64.wrapping_sub(1_022_611_260),
            ..clock
        };
        assert_eq!(
            older.ticks(0),
            Some(1 << 31),
            "a counter that began before the clock"
        );
        assert_eq!(TickClock { mult: 0, ..clock }.ticks(6_000), None);
        assert_eq!(TickClock { shift: 200, ..clock }.ticks(6_000), None);
    }
}

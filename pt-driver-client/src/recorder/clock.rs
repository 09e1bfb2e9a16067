//! When what a trace tells of happened.

use serde::{Deserialize, Serialize};
use tracee::ClockPoint;
use tracee::perf::intel_pt::Absence;

/// What the times in a trace (TSC packets) are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Clock {
    /// Nanoseconds of CLOCK_MONOTONIC.
    Monotonic,
    /// Ticks of the processor's counter. Two moments at which both clocks were looked at say what they are in
    /// nanoseconds.
    Counter(Option<(ClockPoint, ClockPoint)>),
}

impl Clock {
    /// The time of a TSC packet as CLOCK_MONOTONIC in nanoseconds, where that is known.
    #[must_use]
    pub fn nanoseconds(self, ticks: u64) -> Option<u64> {
        let Self::Counter(points) = self else {
            return Some(ticks);
        };
        let (begin, end) = points?;
        let length = i128::from(end.ticks) - i128::from(begin.ticks);
        let nanoseconds = i128::from(end.nanoseconds) - i128::from(begin.nanoseconds);
        let since = i128::from(ticks) - i128::from(begin.ticks);
        let time = i128::from(begin.nanoseconds) + (since * nanoseconds).checked_div(length)?;
        u64::try_from(time).ok()
    }
}

/// Nothing of a thread runs while it does not have the processor. What its trace times so ran right before or right after:
/// the tracing unit is on for a moment longer at both ends, and times between two packets that tell the counter are
/// estimates. `absences` are in order.
pub(super) fn while_running(ticks: u64, absences: &[Absence]) -> u64 {
    let begun = absences.partition_point(|absence| absence.from <= ticks);
    let last = begun.checked_sub(1).and_then(|index| absences.get(index));
    match last.and_then(|absence| Some((absence.from, absence.to?))) {
        Some((from, to)) if ticks < to => {
            if ticks - from < to - ticks {
                from
            } else {
                to
            }
        }
        // It ran then, or nobody knows: the record of its return may be lost.
        _ => ticks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_nothing_while_it_is_away() {
        let absence = |from, to| Absence {
            from,
            to,
            preempted: false,
        };
        let absences = [
            absence(0, Some(10)),
            absence(20, Some(30)),
            absence(40, None),
            absence(50, Some(52)),
        ];
        for (told, expected) in [
            (9, 10),
            (10, 10),
            (19, 19),
            (20, 20),
            (24, 20),
            (25, 30),
            (29, 30),
            (30, 30),
            (45, 45),
            (51, 52),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(while_running(told, &absences), expected, "{told}");
            assert_eq!(while_running(told, &[]), told);
        }
    }

    #[test]
    fn ticks_become_nanoseconds_by_two_points() {
        let point = |ticks, nanoseconds| ClockPoint { ticks, nanoseconds };
        let clock = Clock::Counter(Some((point(3_000, 100), point(6_000, 1_100))));
        assert_eq!(clock.nanoseconds(3_000), Some(100));
        assert_eq!(clock.nanoseconds(4_500), Some(600));
        assert_eq!(clock.nanoseconds(9_000), Some(2_100));
        assert_eq!(clock.nanoseconds(0), None, "before the clock began");
        assert_eq!(
            Clock::Counter(Some((point(1, 1), point(1, 2)))).nanoseconds(5),
            None
        );
        assert_eq!(Clock::Counter(None).nanoseconds(5), None);
        assert_eq!(Clock::Monotonic.nanoseconds(5), Some(5));
    }
}

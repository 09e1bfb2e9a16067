//! Accesses that have happened and whose stops have not come yet.
//!
//! A thread may have to wait for a processor between an access and its stop, on a busy machine for longer than any
//! time one would like to assume. But the kernel counts an access in the exception that it raises, with interrupts
//! off: whoever asks for the count asks the processor of the thread, and it answers before the access or after the
//! count. When as many stops were taken as accesses were counted, nobody is on the way.

/// After so many stops it is time to see to it that nobody is on the way: what is put in order together stays small.
const ENOUGH: usize = 64;
/// How often the count is asked for at most while nothing else is to do: it interrupts the processors of threads.
const BETWEEN_LOOKS_NS: u64 = 5_000_000;
/// A difference may also come from accesses that have no stop: two watched pieces touched at once, a watch and a probe
/// at once, a thread that was killed. So it is when nothing has moved for so long and nobody runs,
const STILL_NS: u64 = 10_000_000;
/// or, if somebody runs and never comes here, for so long.
const STILL_RUNNING_NS: u64 = 2_000_000_000;
/// After so many of such differences counts are no help.
const MOST_DIFFERENCES: u32 = 3;
/// How long a thread is assumed to be on its way where nobody counts.
const ASSUMED_NS: u64 = 50_000_000;
/// The same while stops come without a pause, so that processors are busy.
const ASSUMED_BUSY_NS: u64 = 200_000_000;

/// Who is on the way from an access to its stop.
#[derive(Debug, Default)]
pub(super) struct Flight {
    taken: u64,
    /// Stops since nobody was on the way.
    since: usize,
    /// Nobody was on the way then.
    landed_ns: u64,
    looked_ns: u64,
    still: Option<Still>,
    differences: u32,
    /// No stop was to be served then.
    idle_ns: u64,
}

/// A difference between count and stops, and since when it has been the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Still {
    counted: u64,
    taken: u64,
    since_ns: u64,
}

/// What a look at the count says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Everything that happened before this time has been reported.
    Complete(u64),
    /// Somebody is on the way.
    Open,
    /// Nobody counts.
    Unknown,
}

impl Flight {
    /// A stop for an access was taken.
    pub(super) fn taken(&mut self) {
        self.taken += 1;
        self.since += 1;
    }

    /// An access whose stop is taken now did not happen before this.
    pub(super) fn earliest_ns(&self) -> u64 {
        if self.counts_help() {
            self.landed_ns
        } else {
            self.landed_ns.max(self.idle_ns.saturating_sub(ASSUMED_NS))
        }
    }

    /// Whether it is time for a look, though stops come without a pause.
    pub(super) fn has_enough(&self) -> bool {
        self.since >= ENOUGH && self.counts_help()
    }

    /// Whether it is time for a look when there is nothing else to do.
    pub(super) fn may_look(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.looked_ns) >= BETWEEN_LOOKS_NS
    }

    /// Takes in what the kernel has counted when it was asked at `asked_ns`. `nobody_runs` says whether all threads are
    /// held or asleep, as one that is on the way never is.
    pub(super) fn look(
        &mut self,
        counted: Option<u64>,
        asked_ns: u64,
        nobody_runs: impl FnOnce() -> bool,
    ) -> Look {
        self.looked_ns = asked_ns;
        let Some(counted) = counted.filter(|_| self.counts_help()) else {
            self.differences = MOST_DIFFERENCES;
            return Look::Unknown;
        };
        let now = Still {
            counted,
            taken: self.taken,
            since_ns: asked_ns,
        };
        let landed_ns = if counted <= self.taken {
            if counted < self.taken {
                // Somebody was very late, and no difference without a stop.
                self.differences = self.differences.saturating_sub(1);
            }
            asked_ns
        } else {
            let same = |still: &Still| (still.counted, still.taken) == (now.counted, now.taken);
            let still = self.still.filter(same).unwrap_or(now);
            self.still = Some(still);
            let still_ns = asked_ns.saturating_sub(still.since_ns);
            if still_ns < STILL_NS || (still_ns < STILL_RUNNING_NS && !nobody_runs()) {
                return Look::Open;
            }
            self.differences += 1;
            still.since_ns
        };
        self.taken = counted;
        self.still = None;
        self.since = 0;
        self.landed_ns = landed_ns;
        Look::Complete(landed_ns)
    }

    /// No stop is to be served. Where nobody counts, everything that happened before this is assumed to be reported.
    pub(super) fn idle(&mut self, now_ns: u64) -> Option<u64> {
        self.idle_ns = now_ns;
        (!self.counts_help()).then_some(now_ns.saturating_sub(ASSUMED_NS))
    }

    /// The same while stops come without a pause.
    pub(super) fn busy(&self, now_ns: u64) -> Option<u64> {
        (!self.counts_help()).then_some(now_ns.saturating_sub(ASSUMED_BUSY_NS))
    }

    /// The counters are new ones.
    pub(super) fn restart(&mut self) {
        *self = Self {
            landed_ns: self.landed_ns,
            ..Self::default()
        };
    }

    fn counts_help(&self) -> bool {
        self.differences < MOST_DIFFERENCES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: u64 = STILL_NS;

    fn look(flight: &mut Flight, counted: u64, asked_ns: u64) -> Look {
        flight.look(Some(counted), asked_ns, || true)
    }

    #[test]
    fn whoever_is_counted_and_not_taken_is_on_the_way() {
        let mut flight = Flight::default();
        flight.taken();
        assert_eq!(look(&mut flight, 2, 10), Look::Open);
        assert_eq!(flight.earliest_ns(), 0);
        flight.taken();
        assert_eq!(look(&mut flight, 2, 20), Look::Complete(20));
        assert_eq!(flight.earliest_ns(), 20);
    }

    #[test]
    fn a_difference_that_stays_is_no_thread_on_its_way() {
        let mut flight = Flight::default();
        flight.taken();
        assert_eq!(look(&mut flight, 2, 10), Look::Open);
        flight.taken();
        assert_eq!(look(&mut flight, 3, LATER + 10), Look::Open, "something moved");
        assert_eq!(look(&mut flight, 3, 2 * LATER + 9), Look::Open);
        assert_eq!(look(&mut flight, 3, 2 * LATER + 10), Look::Complete(LATER + 10));
        flight.taken();
        assert_eq!(
            look(&mut flight, 4, 2 * LATER + 11),
            Look::Complete(2 * LATER + 11)
        );
    }

    #[test]
    fn whoever_was_very_late_is_no_reason_to_distrust_counts() {
        let mut flight = Flight::default();
        for round in 1..=2 * u64::from(MOST_DIFFERENCES) {
            let start = 4 * round * LATER;
            assert_eq!(look(&mut flight, round, start), Look::Open);
            assert_eq!(look(&mut flight, round, start + LATER), Look::Complete(start));
            flight.taken();
            let look = look(&mut flight, round, start + 2 * LATER);
            assert_eq!(look, Look::Complete(start + 2 * LATER));
        }
    }

    #[test]
    fn whoever_runs_may_be_on_the_way() {
        let mut flight = Flight::default();
        assert_eq!(flight.look(Some(1), 10, || false), Look::Open);
        let last = 10 + STILL_RUNNING_NS;
        assert_eq!(flight.look(Some(1), last - 1, || false), Look::Open);
        assert_eq!(flight.look(Some(1), last, || false), Look::Complete(10));
    }

    #[test]
    fn counts_that_never_agree_are_not_asked_for_long() {
        let mut flight = Flight::default();
        for round in 1..=u64::from(MOST_DIFFERENCES) {
            look(&mut flight, round, 2 * round * LATER);
            let look = look(&mut flight, round, (2 * round + 1) * LATER);
            assert!(matches!(look, Look::Complete(_)));
        }
        assert_eq!(look(&mut flight, 9, 99 * LATER), Look::Unknown);
        assert!(!flight.has_enough());
    }
}

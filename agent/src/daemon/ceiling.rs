//! What tracking costs, and what to turn off before that is too much.
//!
//! A trap is what everything costs, so traps are counted: accesses to watched bytes, probes, and the stops in which signals are
//! looked at. What one takes is measured on the program itself: the shortest time that usually lies between two traps of a
//! thread is a trap and what the program does in between, which is more than a trap. What the agent takes to understand the accesses
//! counts as well: on a busy host it is the program's time.

use std::collections::BTreeMap;
use std::time::Duration;

use watchpoint::Hit;

use crate::config::Ceiling;

/// What a trap takes as long as nobody knows: measured in a virtual machine, on real ones it is a tenth.
const USUAL: Duration = Duration::from_micros(20);
/// What a stop takes in which a signal is looked at, with the way to us and back.
const STOP: Duration = Duration::from_micros(40);
/// The agent's own time that is not held against a window: code is read once, where it is first seen to access something.
const TO_BEGIN: Duration = Duration::from_millis(100);
/// Two traps of a thread that are further apart say nothing about what a trap takes.
const FAR: u64 = 100_000;
/// Traps that lie close together until they say something.
const ENOUGH: usize = 64;
/// Times that are kept to be compared.
const KEPT: usize = 1024;
/// A window's share of what it may cost that may be spent at once.
const CREDIT: u32 = 10;
/// Accesses of one window at most: more is no help to anybody who compares runs.
const MOST_HITS: u64 = 100_000;

/// What tracking one window may cost, and did.
pub(super) struct Budget {
    ceiling: Ceiling,
    window: Duration,
    cost: TrapCost,
    /// Traps at the last look, by location.
    before: BTreeMap<usize, u64>,
}

/// What tracking took so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Spent {
    /// Traps, by location.
    pub(super) traps: BTreeMap<usize, u64>,
    /// Stops in which signals were looked at.
    pub(super) stops: u64,
    /// The agent's own time.
    pub(super) own: Duration,
}

/// What is to be done about the cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Nothing.
    None,
    /// Watch these locations no more, all at once: each look takes its time, and what is hot costs most of it.
    TurnOff(Vec<usize>),
    /// Watch nothing more: what costs so much is none of the locations.
    Stop,
}

impl Budget {
    /// For a window.
    pub(super) fn new(ceiling: Ceiling, window: Duration, cost: TrapCost) -> Self {
        Self {
            ceiling,
            window,
            cost,
            before: BTreeMap::new(),
        }
    }

    /// What so many traps and stops took, with the agent's own time.
    fn spent(&self, traps: u64, stops: u64, own: Duration) -> Duration {
        let times = |each: Duration, count: u64| {
            Duration::from_nanos(
                u64::try_from(each.as_nanos())
                    .unwrap_or(u64::MAX)
                    .saturating_mul(count),
            )
        };
        times(self.cost.one(), traps) + times(STOP, stops) + own.saturating_sub(TO_BEGIN)
    }

    /// What may have been spent by now.
    fn allowed(&self, passed: Duration) -> Duration {
        (passed + self.window / CREDIT).mul_f64(f64::from(self.ceiling.0) / 1e6)
    }

    /// What is to be done after so much of the program's time. As much again as since the last look may come before the
    /// next one: the ceiling is not to be passed then.
    pub(super) fn look(
        &mut self,
        passed: Duration,
        spent: &Spent,
        locations: usize,
        off: &[usize],
    ) -> Remedy {
        let all: u64 = spent.traps.values().sum();
        let before = std::mem::replace(&mut self.before, spent.traps.clone());
        let since = |(&location, &traps): (&usize, &u64)| {
            let before = before.get(&location).copied().unwrap_or_default();
            (location, traps.saturating_sub(before))
        };
        let mut since: Vec<(usize, u64)> = spent.traps.iter().map(since).collect();
        let mut more: u64 = since.iter().map(|(_, traps)| traps).sum();
        let fits = |more: u64| {
            let expected = self.spent(all.saturating_add(more), spent.stops, spent.own);
            expected <= self.allowed(passed) && all < MOST_HITS
        };
        if more == 0 || fits(more) {
            return Remedy::None;
        }
        since.sort_by_key(|(_, traps)| std::cmp::Reverse(*traps));
        let on = |location: usize| location < locations && !off.contains(&location);
        let mut hottest = Vec::new();
        for (location, traps) in since
            .into_iter()
            .filter(|(location, traps)| on(*location) && *traps > 0)
        {
            if !hottest.is_empty() && fits(more) {
                break;
            }
            hottest.push(location);
            more -= traps;
        }
        match hottest.is_empty() && (0..locations).all(|location| off.contains(&location)) {
            true => Remedy::Stop,
            false if hottest.is_empty() => self.without_hits(&spent.traps, locations, off),
            false => Remedy::TurnOff(hottest),
        }
    }

    /// What costs so much is no location's own, as far as is known: the one that was touched most goes, and at last everything.
    fn without_hits(&self, traps: &BTreeMap<usize, u64>, locations: usize, off: &[usize]) -> Remedy {
        let on = traps
            .iter()
            .filter(|(location, _)| **location < locations && !off.contains(location));
        match on.max_by_key(|(_, traps)| **traps) {
            Some((&hottest, _)) => Remedy::TurnOff(vec![hottest]),
            None => Remedy::Stop,
        }
    }

    /// Learns from accesses what a trap takes.
    pub(super) fn learn(&mut self, hits: &[Hit]) {
        for hit in hits {
            self.cost.learn(hit.tid, hit.time_ns);
        }
    }

    /// What is known of the cost, for the next window; and what was spent, in millionths of the time.
    pub(super) fn finish(self, passed: Duration, spent: &Spent) -> (TrapCost, u64) {
        let traps = spent.traps.values().sum();
        let spent = self.spent(traps, spent.stops, spent.own).as_nanos();
        let time = passed.as_nanos().max(1);
        let share = u64::try_from(spent.saturating_mul(1_000_000) / time).unwrap_or(u64::MAX);
        (self.cost, share)
    }
}

/// What a trap takes.
#[derive(Clone, Debug, Default)]
pub(super) struct TrapCost {
    /// When each thread was trapped last.
    last: BTreeMap<u32, u64>,
    /// Times between two traps of a thread.
    between: Vec<u64>,
}

impl TrapCost {
    fn learn(&mut self, tid: u32, time_ns: u64) {
        let before = self.last.insert(tid, time_ns);
        let Some(between) = before.and_then(|before| time_ns.checked_sub(before)) else {
            return;
        };
        if (1..FAR).contains(&between) && self.between.len() < KEPT {
            self.between.push(between);
        }
    }

    /// The median of short times: a few very short ones are of one instruction that touched two places.
    fn one(&self) -> Duration {
        if self.between.len() < ENOUGH {
            return USUAL;
        }
        let mut between = self.between.clone();
        let middle = between.len() / 2;
        let (_, median, _) = between.select_nth_unstable(middle);
        Duration::from_nanos(*median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    fn budget() -> Budget {
        Budget {
            ceiling: Ceiling(10_000),
            window: WINDOW,
            cost: TrapCost::default(),
            before: BTreeMap::new(),
        }
    }

    fn spent(traps: BTreeMap<usize, u64>, stops: u64) -> Spent {
        Spent {
            traps,
            stops,
            own: Duration::ZERO,
        }
    }

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn what_is_hot_goes_before_the_ceiling_is_passed_and_the_rest_stays() {
        let mut budget = budget();
        // Twenty microseconds each: the credit is 60 ms, 3000 traps.
        let traps = |hot: u64| spent(BTreeMap::from([(0, 10), (1, hot)]), 0);
        assert_eq!(budget.look(at(0.02), &traps(900), 2, &[]), Remedy::None);
        assert_eq!(budget.look(at(0.04), &traps(1900), 2, &[]), Remedy::None);
        // As many again would be too many.
        assert_eq!(
            budget.look(at(0.06), &traps(2900), 2, &[]),
            Remedy::TurnOff(vec![1])
        );
        let cost = budget.spent(2910, 0, Duration::ZERO);
        assert!(cost <= WINDOW.mul_f64(0.01), "{cost:?}");
        assert_eq!(budget.look(at(0.08), &traps(2900), 2, &[1]), Remedy::None);
    }

    #[test]
    fn what_is_hot_goes_together() {
        let mut budget = budget();
        let hot = spent(BTreeMap::from([(0, 3000), (1, 40), (2, 5000), (3, 0)]), 0);
        assert_eq!(
            budget.look(at(0.02), &hot, 4, &[]),
            Remedy::TurnOff(vec![2, 0, 1])
        );
        let later = spent(BTreeMap::from([(0, 3000), (1, 40), (2, 5000), (3, 1)]), 0);
        assert_eq!(budget.look(at(30.0), &later, 4, &[2, 0, 1]), Remedy::None);
    }

    #[test]
    fn what_is_below_the_ceiling_stays_for_the_whole_window() {
        let mut budget = budget();
        for second in 0..60_u64 {
            // 400 a second are 0.8 %.
            let spent = spent(BTreeMap::from([(0, second * 400)]), 0);
            let elapsed = Duration::from_secs(second);
            assert_eq!(budget.look(elapsed, &spent, 1, &[]), Remedy::None, "{second}");
        }
        let (_, share) = budget.finish(WINDOW, &spent(BTreeMap::from([(0, 59 * 400)]), 0));
        assert_eq!(share, 7866);
    }

    #[test]
    fn stops_for_signals_count_too() {
        let with = |stops| spent(BTreeMap::from([(0, 100)]), stops);
        assert_eq!(budget().look(at(0.1), &with(0), 1, &[]), Remedy::None);
        assert_eq!(
            budget().look(at(0.1), &with(1600), 1, &[]),
            Remedy::TurnOff(vec![0])
        );
    }

    #[test]
    fn so_does_what_the_agent_itself_takes() {
        let own = Spent {
            own: TO_BEGIN + Duration::from_millis(62),
            ..spent(BTreeMap::from([(0, 100)]), 0)
        };
        assert_eq!(budget().look(at(0.1), &own, 1, &[]), Remedy::TurnOff(vec![0]));
    }

    #[test]
    fn what_belongs_to_no_location_ends_everything() {
        let none = spent(BTreeMap::from([(usize::MAX, 10_000)]), 0);
        assert_eq!(budget().look(at(0.1), &none, 2, &[]), Remedy::Stop);
    }

    #[test]
    fn the_cost_of_a_trap_is_measured() {
        let mut cost = TrapCost::default();
        assert_eq!(cost.one(), USUAL);
        for number in 0..200 {
            cost.learn(1, number * 7_000);
            // Another thread's traps lie between, far apart from each other.
            cost.learn(2, number * 900_000);
        }
        assert_eq!(cost.one(), Duration::from_micros(7));
    }
}

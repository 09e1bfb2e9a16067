//! How often a location may stop a run.
//!
//! A stop costs from 30 to 90 µs, and a multiple of that where threads contend. What a loop touches at each turn would
//! make a run of milliseconds one of minutes, a hang of a success, and a failure of a race that the program hardly ever
//! loses.
//!
//! A thread that polls is another matter: it has nothing else to do, and does it later. What it polls is watched for longer, and
//! when that is enough, nothing more is to be seen until the content changes.

use std::collections::{BTreeMap, BTreeSet};

use program::RunAddr;
use tracee::Tid;

/// Hits of a location. More make a run too slow to be the same program.
const MOST_HITS: u32 = 2000;
/// How many hits that find what the same instruction has found before weigh as much as one that does not.
const POLLS_IN_A_HIT: u32 = 8;
/// Stops at the probes of a location that found it where it was known to be.
const MOST_IDLE: u32 = 256;
/// Steps of a pointer that walks through memory: each place is touched once, and no register can follow.
const MOST_STEPS: u32 = 32;
/// The same of one that leads to ever other objects, wherever they are: registers follow it for a while.
const MOST_MOVES: u32 = 500;
/// Both, where a process has one thread: a register is in time for the next access, which is the thread's own, and a run that takes
/// longer is the same run.
const MOST_MOVES_ALONE: u32 = 2000;
/// How far such a pointer goes at once: the element of an array that it walks through.
const LONGEST_STEP: u64 = 64;

/// What to do about a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    GoOn,
    /// Look for it no longer; it stays watched where it is.
    EnoughProbes,
    /// Give it up.
    TooMuch,
    /// Do not watch it any more: threads look at it again and again, and find what they have found before.
    Polled,
}

/// Who touched a location, and what was there afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touch {
    pub(super) tid: Tid,
    /// The instruction after the one that did.
    pub(super) pc: u64,
    pub(super) content: Option<u64>,
}

/// The stops of each location of a run.
#[derive(Debug, Default)]
pub(super) struct Ceiling {
    locations: Vec<Stops>,
}

#[derive(Clone, Debug, Default)]
struct Stops {
    /// What the hits weigh, in polls.
    weight: u32,
    /// Polls since the content was another one.
    polls: u32,
    content: Option<u64>,
    /// Who has seen this content, by which instruction.
    seen: BTreeSet<(Tid, u64)>,
    idle: u32,
    moves: u32,
    steps: u32,
    /// It was said that it is given up because of these.
    left: bool,
    /// Where each thread came by last.
    last: BTreeMap<Tid, RunAddr>,
}

impl Ceiling {
    /// Without limits.
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// For so many locations.
    pub(super) fn of(locations: usize) -> Self {
        Self {
            locations: vec![Stops::default(); locations],
        }
    }

    /// A thread has ended.
    pub(super) fn forget(&mut self, tid: Tid) {
        for stops in &mut self.locations {
            stops.last.remove(&tid);
        }
    }

    /// A location was touched.
    pub(super) fn hit(&mut self, location: usize, touch: Touch) -> Verdict {
        const MOST: u32 = MOST_HITS * POLLS_IN_A_HIT;
        let Some(stops) = self.locations.get_mut(location) else {
            return Verdict::GoOn;
        };
        if stops.weight >= MOST {
            // Said once: the hits that are on their way when a location is given up change nothing.
            return Verdict::GoOn;
        }
        stops.weight += match stops.is_poll(touch) {
            true => 1,
            false => POLLS_IN_A_HIT,
        };
        if stops.weight < MOST {
            Verdict::GoOn
        } else if stops.polls >= MOST_HITS {
            Verdict::Polled
        } else {
            Verdict::TooMuch
        }
    }

    /// A thread's probe found a location somewhere, where it was watched already or not. `alone`: there is no other thread.
    pub(super) fn probed(
        &mut self,
        location: usize,
        tid: Tid,
        at: RunAddr,
        known: bool,
        alone: bool,
    ) -> Verdict {
        let Some(stops) = self.locations.get_mut(location) else {
            return Verdict::GoOn;
        };
        let last = stops.last.insert(tid, at);
        if known {
            stops.idle = stops.idle.saturating_add(1);
        } else {
            stops.moves = stops.moves.saturating_add(1);
            // One that is where this thread had it last did not walk: others had the registers meanwhile.
            let steps = last.is_some_and(|last| (1..=LONGEST_STEP).contains(&last.0.abs_diff(at.0)));
            stops.steps = stops.steps.saturating_add(u32::from(steps));
        }
        let too_far = match alone {
            true => stops.moves >= MOST_MOVES_ALONE,
            false => stops.steps >= MOST_STEPS || stops.moves >= MOST_MOVES,
        };
        if too_far && !std::mem::replace(&mut stops.left, true) {
            Verdict::TooMuch
        } else if known && stops.idle == MOST_IDLE {
            Verdict::EnoughProbes
        } else {
            Verdict::GoOn
        }
    }
}

impl Stops {
    /// Whether whoever touches the location has been there before with the same instruction, and found the same.
    fn is_poll(&mut self, touch: Touch) -> bool {
        if touch.content.is_none() || touch.content != self.content {
            self.content = touch.content;
            self.seen.clear();
            self.polls = 0;
        }
        let again = !self.seen.insert((touch.tid, touch.pc));
        self.polls += u32::from(again);
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody touched a location, after which this was there.
    fn touch(content: u64) -> Touch {
        Touch {
            tid: Tid(7),
            pc: 0x1000,
            content: Some(content),
        }
    }

    #[test]
    fn a_pointer_that_walks_is_given_up_and_one_that_jumps_is_followed_for_a_while() {
        let mut ceiling = Ceiling::of(2);
        let verdicts = |ceiling: &mut Ceiling, location, stride: u64| -> Vec<Verdict> {
            (0..1000_u64)
                .map(|n| ceiling.probed(location, Tid(7), RunAddr(0x1000 + n * stride), false, false))
                .collect()
        };
        let given_up = |verdicts: Vec<Verdict>| verdicts.iter().position(|it| *it == Verdict::TooMuch);
        let walking = given_up(verdicts(&mut ceiling, 0, 1));
        let jumping = given_up(verdicts(&mut ceiling, 1, 4096));
        assert!(walking < jumping && jumping.is_some(), "{walking:?} {jumping:?}");
    }

    #[test]
    fn a_pointer_that_comes_back_to_where_its_thread_left_it_does_not_walk() {
        let mut ceiling = Ceiling::of(1);
        let verdicts = (0..200_u64).map(|n| {
            let tid = Tid(7 + u32::try_from(n % 2).unwrap_or(0));
            ceiling.probed(0, tid, RunAddr(0x1000 + n % 2 * 0x1000), false, false)
        });
        assert_eq!(verdicts.filter(|it| *it != Verdict::GoOn).count(), 0);
    }

    #[test]
    fn the_only_thread_is_followed_for_longer() {
        let mut ceiling = Ceiling::of(1);
        let mut walk = (0..).map(|n| ceiling.probed(0, Tid(7), RunAddr(0x1000 + n * 24), false, true));
        let given_up = walk.position(|verdict| verdict == Verdict::TooMuch);
        assert_eq!(given_up, Some(MOST_MOVES_ALONE as usize - 1));
    }

    #[test]
    fn threads_walk_on_their_own() {
        let mut ceiling = Ceiling::of(1);
        let verdicts = (0..1000_u64).map(|n| {
            let (thread, step) = (n % 2, n / 2);
            let tid = if thread == 0 { Tid(7) } else { Tid(8) };
            ceiling.probed(0, tid, RunAddr(0x1000 + thread * 0x1000 + step), false, false)
        });
        assert_eq!(verdicts.filter(|it| *it == Verdict::TooMuch).count(), 1);
    }

    #[test]
    fn a_place_that_is_found_again_and_again_is_looked_for_no_longer() {
        let mut ceiling = Ceiling::of(1);
        let verdicts: Vec<Verdict> = (0..1000)
            .map(|_| ceiling.probed(0, Tid(7), RunAddr(0x1000), true, false))
            .collect();
        assert!(!verdicts.contains(&Verdict::TooMuch));
        assert_eq!(
            verdicts.iter().filter(|it| **it == Verdict::EnoughProbes).count(),
            1
        );
    }

    #[test]
    fn hits_are_counted_by_location() {
        let mut ceiling = Ceiling::of(2);
        let mut changes = (0..).map(touch);
        let mut next = || changes.next().expect("there are enough");
        assert!((0..MOST_HITS - 1).all(|_| ceiling.hit(0, next()) == Verdict::GoOn));
        assert_eq!(ceiling.hit(1, next()), Verdict::GoOn);
        assert_eq!(ceiling.hit(0, next()), Verdict::TooMuch);
        assert_eq!(ceiling.hit(0, next()), Verdict::GoOn);
        assert_eq!(Ceiling::none().hit(7, next()), Verdict::GoOn);
    }

    #[test]
    fn what_is_polled_is_watched_for_longer() {
        let mut ceiling = Ceiling::of(1);
        let hits = (1..).find(|_| ceiling.hit(0, touch(1)) != Verdict::GoOn);
        assert_eq!(hits, Some(MOST_HITS * POLLS_IN_A_HIT - POLLS_IN_A_HIT + 1));
        let mut ceiling = Ceiling::of(1);
        let verdict = (1..).find_map(|_| Some(ceiling.hit(0, touch(1))).filter(|it| *it != Verdict::GoOn));
        assert_eq!(verdict, Some(Verdict::Polled));
        // Content that cannot be read is not known to be the same.
        let unread = Touch {
            content: None,
            ..touch(1)
        };
        let mut ceiling = Ceiling::of(1);
        let verdict = (1..).find_map(|_| Some(ceiling.hit(0, unread)).filter(|it| *it != Verdict::GoOn));
        assert_eq!(verdict, Some(Verdict::TooMuch));
    }
}

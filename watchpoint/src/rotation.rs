//! More locations than registers: runs take turns.
//!
//! Which locations a run watches follows from the run's number alone, so hosts that never speak to each other
//! share the work, and a record of the number is a record of what was watched.

use std::collections::BTreeSet;
use std::ops::Range;

/// A fair assignment of locations to runs.
///
/// Locations are taken in order, as many as fit; the next run goes on where this one stopped. After as many
/// runs as there are locations every location has been watched equally often, and any two neighbours (a plan
/// lists what belongs together side by side) have been watched together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Registers that each location takes; at most `registers`.
    needs: Vec<usize>,
    registers: usize,
    /// Those that have no turn.
    resting: BTreeSet<usize>,
}

impl Rotation {
    /// A rotation of locations that need so many registers each. One that needs more than there are is never
    /// watched, which [`Rotation::left_out`] tells.
    #[must_use]
    pub fn new(needs: Vec<usize>, registers: usize) -> Self {
        Self {
            needs,
            registers,
            resting: BTreeSet::new(),
        }
    }

    /// Some locations have no turn, and are only watched by runs that are to watch them.
    #[must_use]
    pub fn with_resting(self, resting: BTreeSet<usize>) -> Self {
        Self { resting, ..self }
    }

    /// The locations that fit into no run.
    pub fn left_out(&self) -> impl Iterator<Item = usize> + '_ {
        let needs = self.needs.iter().enumerate();
        needs
            .filter(|(_, need)| !self.can_fit(**need))
            .map(|(index, _)| index)
    }

    /// Whether every run watches everything.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.needs.iter().sum::<usize>() <= self.registers && self.left_out().next().is_none()
    }

    /// The locations that run number `run` watches, ascending.
    #[must_use]
    pub fn of_run(&self, run: u64) -> Vec<usize> {
        let sum = |taken: &[usize]| taken.iter().filter_map(|&index| self.needs.get(index)).sum();
        self.of_run_with(run, &[], sum)
    }

    /// The same for a run that is to watch some locations whatever its number is, as far as they fit; the others take
    /// turns at what is left. `together` says how many registers some locations take: those behind one pointer take
    /// fewer together than each by itself.
    #[must_use]
    pub fn of_run_with(
        &self,
        run: u64,
        wanted: &[usize],
        together: impl Fn(&[usize]) -> usize,
    ) -> Vec<usize> {
        let (resting, fitting): (Vec<usize>, Vec<usize>) = (0..self.needs.len())
            .filter(|&index| self.can_fit(self.needs[index]))
            .partition(|index| self.resting.contains(index));
        let start = run.checked_rem(fitting.len() as u64).unwrap_or(0);
        let start = usize::try_from(start).unwrap_or(0);
        let turn = fitting.iter().cycle().skip(start).take(fitting.len());
        let mut taken: Vec<usize> = Vec::new();
        let take = |taken: &mut Vec<usize>, index| {
            taken.push(index);
            let fits = together(taken) <= self.registers;
            if !fits {
                taken.pop();
            }
            fits
        };
        let fits = |index: &&usize| fitting.contains(index) || resting.contains(index);
        for &index in wanted.iter().filter(fits) {
            if !taken.contains(&index) {
                take(&mut taken, index);
            }
        }
        for &index in turn.filter(|index| !wanted.contains(index)) {
            // Stopping at the first that does not fit keeps neighbours together, and every location's turns
            // the same number as the next one's.
            if !take(&mut taken, index) {
                break;
            }
        }
        taken.sort_unstable();
        taken
    }

    /// How often each location is watched in a range of runs.
    #[must_use]
    pub fn watched_in(&self, runs: Range<u64>) -> Vec<u64> {
        let mut counts = vec![0; self.needs.len()];
        for index in runs.flat_map(|run| self.of_run(run)) {
            if let Some(count) = counts.get_mut(index) {
                *count += 1;
            }
        }
        counts
    }

    fn can_fit(&self, need: usize) -> bool {
        need <= self.registers && need > 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_rests_is_watched_by_those_who_want_it() {
        let rotation = Rotation::new(vec![1; 6], 2).with_resting([0, 1, 2].into());
        let sum = |taken: &[usize]| taken.len();
        for run in 0..4 {
            let plain = rotation.of_run_with(run, &[], sum);
            assert!(
                plain.len() == 2 && plain.iter().all(|&index| index > 2),
                "{plain:?}"
            );
            assert!(rotation.of_run_with(run, &[1], sum).contains(&1));
        }
        let all = Rotation::new(vec![1; 2], 2).with_resting([0, 1].into());
        assert_eq!(all.of_run_with(7, &[1], sum), [1]);
    }

    #[test]
    fn what_is_wanted_is_watched_in_every_run() {
        let rotation = Rotation::new(vec![1; 9], 4);
        for run in 0..9 {
            let taken = rotation.of_run_with(run, &[7, 2], <[usize]>::len);
            assert!(
                taken.contains(&2) && taken.contains(&7) && taken.len() == 4,
                "{taken:?}"
            );
        }
        let watched: BTreeSet<usize> = (0..9)
            .flat_map(|run| rotation.of_run_with(run, &[7, 2], <[usize]>::len))
            .collect();
        assert_eq!(watched.len(), 9);
        let needs = [1, 5, 3, 2];
        let large = Rotation::new(needs.to_vec(), 4);
        let sum = |taken: &[usize]| taken.iter().map(|&index| needs[index]).sum();
        assert_eq!(large.of_run_with(0, &[1, 2, 3], sum), [0, 2]);
    }

    #[test]
    fn what_takes_less_together_is_watched_together() {
        let rotation = Rotation::new(vec![2; 4], 4);
        assert_eq!(rotation.of_run(0), [0, 1]);
        let one_pointer = |taken: &[usize]| taken.len() + 1;
        assert_eq!(rotation.of_run_with(0, &[], one_pointer), [0, 1, 2]);
    }

    #[test]
    fn four_fit_and_nobody_waits() {
        let rotation = Rotation::new(vec![1; 4], 4);
        assert!(rotation.is_whole());
        assert!((0..9).all(|run| rotation.of_run(run) == [0, 1, 2, 3]));
    }

    #[test]
    fn six_take_turns() {
        let rotation = Rotation::new(vec![1; 6], 4);
        assert_eq!(rotation.of_run(0), [0, 1, 2, 3]);
        assert_eq!(rotation.of_run(1), [1, 2, 3, 4]);
        assert_eq!(rotation.of_run(4), [0, 1, 4, 5]);
        assert_eq!(rotation.of_run(u64::MAX).len(), 4);
        assert_eq!(rotation.watched_in(0..6), [4; 6]);
    }

    #[test]
    fn too_wide_is_left_out_and_said() {
        let rotation = Rotation::new(vec![1, 5, 2], 4);
        assert_eq!(rotation.left_out().collect::<Vec<_>>(), [1]);
        assert!(!rotation.is_whole());
        assert_eq!(rotation.of_run(7), [0, 2]);
        assert!(Rotation::new(Vec::new(), 4).of_run(3).is_empty());
    }

    proptest! {
        #[test]
        fn every_run_fits_and_everybody_gets_a_turn(
            needs in prop::collection::vec(1usize..=4, 1..20),
            run in any::<u64>(),
        ) {
            let rotation = Rotation::new(needs.clone(), 4);
            let taken = rotation.of_run(run);
            prop_assert!(!taken.is_empty());
            prop_assert!(taken.iter().map(|&index| needs[index]).sum::<usize>() <= 4);
            prop_assert_eq!(&taken, &rotation.of_run(run));
            let counts = rotation.watched_in(0..needs.len() as u64);
            prop_assert!(counts.iter().all(|&count| count >= 1));
        }

        #[test]
        fn equal_needs_get_equal_turns(count in 1usize..30, need in 1usize..=4) {
            let counts = Rotation::new(vec![need; count], 4).watched_in(0..count as u64);
            prop_assert!(counts.iter().all(|&times| times == counts[0]));
        }

        #[test]
        fn neighbours_are_watched_together(count in 5usize..30, at in 0usize..29) {
            let rotation = Rotation::new(vec![1; count], 4);
            let (a, b) = (at % count, (at + 1) % count);
            let together = (0..count as u64).any(|run| {
                let taken = rotation.of_run(run);
                taken.contains(&a) && taken.contains(&b)
            });
            prop_assert!(together);
        }
    }
}

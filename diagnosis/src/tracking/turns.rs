//! Whose turn it is: which locations a run watches, with four registers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use watchpoint::{Address, WatchSpec, registers_for};

use super::given_up::{self, Access};
use super::{Planned, Promising, REGISTERS, Tracking, Wanted, locks};
use crate::fixed::Place;
use crate::reading::Cataloguer;
use crate::record::WatchedRecord;
use crate::run::StatementId;

/// Bytes that a register watches.
const REGISTER_BYTES: u32 = 8;
/// Failing runs that have to have watched a near location to their end before it has its turn like others,
const ENOUGH: u32 = 3;
/// and successful ones: what failing runs have of it is not said before that.
const COMPARED: u32 = 5;
/// Registers for further places of one location: one is left to the others.
const MORE_PLACES: usize = REGISTERS - 2;

impl Tracking<'_, '_> {
    /// The locations that a run watches: what the best explanation is about, with what the failing statement accesses, or else
    /// the nearest that are not known well enough; which of the others follows from its number. With the places of the former in
    /// the list.
    pub(super) fn chosen(
        &self,
        planned: &Planned,
        run: u64,
        first: &Wanted,
        catalogue: &mut Cataloguer,
    ) -> (Vec<(WatchedRecord, WatchSpec)>, Vec<usize>) {
        let mut wanted = self.locations_of(planned, &first.promising, catalogue);
        let locks: Vec<_> = self.locks.watches(&self.given_up).collect();
        let several = match wanted[..] {
            [only] => Some((only, self.more_places(planned, only))),
            _ => None,
        };
        let together = |taken: &[usize]| {
            let more = several.filter(|(only, _)| taken.len() > 1 && taken.contains(only));
            self.registers_of(planned, taken, &locks) + more.map_or(0, |(_, more)| more)
        };
        let open = self.locations_of(planned, &first.open, catalogue);
        wanted = with_room_left(wanted, open, together);
        // A program of one thread mostly fails for its input, and much that goes along with that convinces.
        if !first.convincing || first.alone {
            wanted = with_room_left(self.suspected(planned), wanted, together);
        }
        let mut most: BTreeSet<Access> = self.accesses_of(planned, &wanted);
        if wanted.is_empty() || !first.convincing {
            let anything = |&statement: &StatementId| Promising {
                statement,
                location: None,
            };
            let mut deciding: Vec<usize> = Vec::new();
            for wanted in first.deciding.iter().map(anything) {
                let locations = self.locations_of(planned, &[wanted], catalogue).into_iter();
                let new: Vec<usize> = locations.filter(|number| !deciding.contains(number)).collect();
                deciding.extend(new);
            }
            let nearest = self.nearest(planned, &deciding);
            wanted = match wanted.is_empty() {
                true => {
                    most = self.accesses_of(planned, &nearest);
                    nearest
                }
                false => with_room_left(wanted, nearest, together),
            };
        }
        if !first.promising.is_empty() {
            let failing = self.of_the_failing_statement(planned, catalogue);
            wanted = with_room_left(wanted, failing, together);
        }
        let mut taken = planned.rotation.of_run_with(run, &wanted, together);
        // A lock that is found where it is taken may be one of many, and each takes a register: every other run leaves them to locks.
        let locking = self.locking(planned, catalogue);
        if run.is_multiple_of(2) && !locking.is_empty() {
            taken = locking;
            while together(&taken) > REGISTERS && taken.pop().is_some() {}
        }
        let several = several.filter(|_| taken.len() > 1);
        let locations = taken.into_iter().filter_map(|number| {
            let (watched, mut spec) = self.location(planned, number)?;
            let more = several.filter(|(only, _)| *only == number);
            spec.places += more.map_or(0, |(_, more)| u32::try_from(more).unwrap_or(0));
            Some((watched, spec))
        });
        let mut locations: Vec<_> = locations.collect();
        // One that a statement of the plan takes by its name is known by that.
        let named = |lock: &WatchSpec| locations.iter().any(|(_, spec)| spec.address == lock.address);
        let unnamed: Vec<_> = locks.into_iter().filter(|(_, lock)| !named(lock)).collect();
        locations.splice(..0, unnamed);
        self.add_fixed(&mut locations);
        let numbered = locations.iter().enumerate();
        let most = numbered.filter(|(_, (watched, _))| most.contains(&given_up::access(watched)));
        let most = most.map(|(at, _)| at).collect();
        (locations, most)
    }

    pub(super) fn accesses_of(&self, planned: &Planned, locations: &[usize]) -> BTreeSet<Access> {
        let sites = locations
            .iter()
            .filter_map(|&number| planned.armament.locations.get(number)?.sites.first());
        let sites = sites.filter_map(|&site| planned.plan.watch_sites.get(site));
        sites.map(|site| self.access(site)).collect()
    }

    /// The locations that these accesses are about.
    pub(super) fn locations_of(
        &self,
        planned: &Planned,
        promising: &[Promising],
        catalogue: &mut Cataloguer,
    ) -> Vec<usize> {
        let (known, open): (Vec<_>, Vec<_>) = promising.iter().partition(|access| access.location.is_some());
        let mut wanted = Vec::new();
        for (number, armed) in planned.armament.locations.iter().enumerate() {
            let statements = armed.sites.iter().filter_map(|&site| {
                let site = planned.plan.watch_sites.get(site)?;
                catalogue.number_at(site.access, self.program)
            });
            let statements: Vec<StatementId> = statements.collect();
            let accessed = |access: &&Promising| statements.contains(&access.statement);
            let is_wanted = open.iter().copied().any(|access| accessed(&access))
                || !known.is_empty()
                    && self.location(planned, number).is_some_and(|(watched, _)| {
                        let id = catalogue.location(&watched, self.program);
                        known.iter().any(|access| access.location == Some(id))
                    });
            if is_wanted {
                wanted.push(number);
            }
        }
        wanted
    }

    /// The locations of statements that take locks, and may have taken those that threads wait for.
    fn locking(&self, planned: &Planned, catalogue: &Cataloguer) -> Vec<usize> {
        let takes = |&site: &usize| {
            let site = planned.plan.watch_sites.get(site);
            let site = site.filter(|site| !self.given_up.contains(&self.access(site)));
            let known = site.and_then(|site| catalogue.known_at(site.access, self.program));
            known.is_some_and(|statement| statement.takes)
        };
        let locations = planned.armament.locations.iter().enumerate();
        let locking = locations.filter(|(_, armed)| armed.spec.len == locks::WIDTH);
        let locking = locking.filter(|(_, armed)| armed.sites.first().is_some_and(takes));
        locking.map(|(number, _)| number).collect()
    }

    /// Where the pointer came from that the failing thread failed over, until enough runs have watched that. It comes before whatever
    /// explains the failure by chance.
    fn suspected(&self, planned: &Planned) -> Vec<usize> {
        let site = |&site: &usize| planned.plan.watch_sites.get(site).map(|site| site.access);
        let locations = planned.armament.locations.iter().enumerate();
        let suspected = locations.filter(|(_, armed)| {
            let mut accesses = armed.sites.iter().filter_map(site);
            accesses.any(|access| self.suspects.contains(&access))
        });
        first_unknown(suspected.filter_map(|(number, _)| self.near(planned, number, Rank::Suspected)))
    }

    /// How many registers a location takes beside the first, because threads have it at several places at once: one register would follow
    /// whoever came last, away from the object that two of them get in each other's way over.
    fn more_places(&self, planned: &Planned, number: usize) -> usize {
        let Some((watched, spec)) = self.location(planned, number) else {
            return 0;
        };
        if registers(&spec) > 1 || self.fixed.places(&watched).next().is_some() {
            return 0;
        }
        let places = self.given_up.places(&given_up::access(&watched));
        places.saturating_sub(1).min(MORE_PLACES)
    }

    /// What the failing statement accesses: what it met there is how the failing thread learns of the race.
    fn of_the_failing_statement(&self, planned: &Planned, catalogue: &Cataloguer) -> Vec<usize> {
        let failing = self.statements.first().copied();
        let locations = planned.armament.locations.iter().enumerate();
        let accessed = locations.filter(|(_, armed)| {
            let mut sites = armed
                .sites
                .iter()
                .filter_map(|&site| planned.plan.watch_sites.get(site));
            sites.any(|site| {
                let access = self.access(site);
                let in_vain = self.given_up.contains(&access) || self.given_up.is_idle(&access);
                !in_vain && catalogue.number_at(site.access, self.program) == failing
            })
        });
        accessed.map(|(number, _)| number).collect()
    }

    /// The nearest locations that too few failing runs have watched: most often it is one of them, but none that nobody touches. What
    /// decides at the branch where runs part comes before the nearest. If threads were seen to share none of the first, the nearest that
    /// they share has its turn beside the first one.
    fn nearest(&self, planned: &Planned, deciding: &[usize]) -> Vec<usize> {
        let all = 0..planned.armament.locations.len();
        let others = all.filter(|number| !deciding.contains(number));
        let near = deciding.iter().copied().chain(others);
        let rank = |number| match deciding.contains(&number) {
            true => Rank::Decides,
            false => Rank::Near,
        };
        let near = near.filter_map(|number| self.near(planned, number, rank(number)));
        let mut near: Vec<Near> = near.collect();
        let shared = near.iter().position(|near| self.is_shared(planned, near.number));
        if let Some(shared) = shared.filter(|&at| at > 1) {
            let shared = near.remove(shared);
            near.insert(1, shared);
        }
        first_unknown(near.into_iter())
    }

    fn is_shared(&self, planned: &Planned, number: usize) -> bool {
        let armed = planned.armament.locations.get(number);
        let site = armed.and_then(|armed| planned.plan.watch_sites.get(*armed.sites.first()?));
        site.is_some_and(|site| self.given_up.is_shared(&self.access(site)))
    }

    /// A location, if too few runs have watched it, and somebody touches it.
    fn near(&self, planned: &Planned, number: usize, rank: Rank) -> Option<Near> {
        let armed = planned.armament.locations.get(number)?;
        let site = planned.plan.watch_sites.get(*armed.sites.first()?)?;
        let access = self.access(site);
        let seen = self.seen_well(&access);
        let is_known = seen >= ENOUGH && self.given_up.is_compared(&access, COMPARED);
        let is_quiet = rank == Rank::Near && self.given_up.is_quiet(&access);
        let in_vain = self.given_up.is_idle(&access) || self.given_up.contains(&access);
        if in_vain || (is_known || is_quiet) && !self.is_elsewhere(&access) {
            return None;
        }
        let (watched, spec) = self.location(planned, number)?;
        let fixed = self.fixed.places(&watched).next();
        Some(Near {
            number,
            rank,
            registers: registers_for(&[&spec]) + fixed.map_or(0, |_| registers(&spec)),
            seen,
        })
    }

    /// Whether a location is in one of many objects, and too few failing runs have watched that one from its beginning on: what others had
    /// shows nothing.
    pub(super) fn is_elsewhere(&self, access: &Access) -> bool {
        self.provenance.is_numbered(access) && self.given_up.early(access) < ENOUGH
    }

    /// How many failing runs saw a location well: what was found late was not, and will be where failing runs had it, or where the
    /// code stores to it. A program that fails in every run shows only in this way who left what it failed of.
    pub(super) fn seen_well(&self, access: &Access) -> u32 {
        let is_fixed = self
            .fixed
            .is_known(access.module.as_deref(), access.addr, access.within);
        let is_stored = self.kin.knows(access) && !self.provenance.is_one_object(access);
        match is_fixed {
            true => self.given_up.early(access),
            false if is_stored => self.given_up.at_stores(access),
            false => self.given_up.kept(access),
        }
    }

    /// How many registers some locations take beside the locks, each with the place that the last failing run had it at. A location that is
    /// found late says nothing without that place: fewer of them, watched well, are worth more than many.
    fn registers_of(
        &self,
        planned: &Planned,
        taken: &[usize],
        locks: &[(WatchedRecord, WatchSpec)],
    ) -> usize {
        let armed = taken
            .iter()
            .filter_map(|&number| planned.armament.locations.get(number));
        let is_lock = |spec: &&WatchSpec| locks.iter().any(|(_, lock)| lock.address == spec.address);
        let armed = armed.map(|armed| &armed.spec).filter(|spec| !is_lock(spec));
        let together: Vec<&WatchSpec> = locks.iter().map(|(_, spec)| spec).chain(armed).collect();
        let together = registers_for(&together);
        let [_, _, ..] = taken else {
            // Whatever else there is to watch, one location has its turn.
            return together;
        };
        let mut places: BTreeMap<Place, usize> = BTreeMap::new();
        for (watched, spec) in taken.iter().filter_map(|&number| self.location(planned, number)) {
            if let Some(place) = self.fixed.places(&watched).next() {
                places.insert(place.clone(), registers(&spec));
            }
        }
        together + places.values().sum::<usize>()
    }

    /// Adds the places that failing runs had locations at, as far as there are registers. They come first: who finds a
    /// location where it is watched already needs no other register for it.
    fn add_fixed(&self, locations: &mut Vec<(WatchedRecord, WatchSpec)>) {
        let specs: Vec<&WatchSpec> = locations.iter().map(|(_, spec)| spec).collect();
        let mut free = REGISTERS.saturating_sub(registers_for(&specs));
        let mut added: Vec<(WatchedRecord, WatchSpec)> = Vec::new();
        for (watched, spec) in &*locations {
            for place in self.fixed.places(watched) {
                let known = locations.iter().chain(&added);
                let known = known
                    .filter_map(|(other, _)| other.fixed.as_ref())
                    .any(|other| other == place);
                if known || registers(spec) > free {
                    continue;
                }
                free -= registers(spec);
                let (module, addr) = place.clone();
                let module = module.map(PathBuf::from);
                let watched = WatchedRecord {
                    fixed: Some(place.clone()),
                    ..watched.clone()
                };
                let spec = WatchSpec {
                    address: Address::Static { module, addr },
                    ..spec.clone()
                };
                added.push((watched, spec));
            }
        }
        locations.splice(..0, added);
    }
}

/// Adds locations to those that every run is to watch, as long as the others have a register to take turns at.
fn with_room_left(
    mut wanted: Vec<usize>,
    more: Vec<usize>,
    together: impl Fn(&[usize]) -> usize,
) -> Vec<usize> {
    for number in more {
        if wanted.contains(&number) {
            continue;
        }
        wanted.push(number);
        if together(&wanted) >= REGISTERS {
            wanted.pop();
        }
    }
    wanted
}

/// Why a location is to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// The failing thread had the pointer from there that it failed over.
    Suspected,
    /// It makes the value at which runs part.
    Decides,
    /// It is near.
    Near,
}

/// A location of which too little is known.
struct Near {
    number: usize,
    rank: Rank,
    /// How many it takes.
    registers: usize,
    /// In how many failing runs it was seen well.
    seen: u32,
}

/// The first locations of which too little is known, for half of the registers: the others take turns at the rest. What decides comes
/// first, then of the very nearest those that were seen least.
fn first_unknown(nearest: impl Iterator<Item = Near>) -> Vec<usize> {
    let mut nearest: Vec<Near> = nearest.take(REGISTERS).collect();
    nearest.sort_by_key(|near| (near.rank, near.seen));
    let mut free = REGISTERS / 2;
    let first = nearest.iter().map_while(|near| {
        free = free.checked_sub(near.registers)?;
        Some(near.number)
    });
    first.collect()
}

/// How many registers a place takes.
fn registers(spec: &WatchSpec) -> usize {
    spec.len.div_ceil(REGISTER_BYTES) as usize
}

#[cfg(test)]
mod tests {
    use super::{Near, Rank, first_unknown, with_room_left};

    #[test]
    fn what_the_failing_statement_accesses_leaves_a_register_to_the_others() {
        let with = |wanted: &[usize], more: &[usize]| {
            with_room_left(wanted.to_vec(), more.to_vec(), |taken| taken.iter().sum())
        };
        // A location takes as many registers as its number is.
        assert_eq!(with(&[1], &[2]), [1, 2]);
        assert_eq!(with(&[1], &[1, 3]), [1], "three more are too many");
        assert_eq!(with(&[2], &[2, 1]), [2, 1]);
        assert_eq!(with(&[4], &[1]), [4]);
    }

    #[test]
    fn the_nearest_of_which_too_little_is_known_have_half_of_the_registers() {
        let first = |locations: &[(usize, u32)]| {
            let near = |(number, &(registers, seen))| Near {
                number,
                rank: Rank::Near,
                registers,
                seen,
            };
            first_unknown(locations.iter().enumerate().map(near))
        };
        assert_eq!(first(&[(1, 0), (1, 0), (1, 0)]), [0, 1]);
        let passed_over = "none is passed over for a farther one";
        assert_eq!(first(&[(1, 0), (2, 0), (1, 0)]), [0], "{passed_over}");
        assert_eq!(first(&[(3, 0), (1, 0)]), [0_usize; 0]);
        assert_eq!(first(&[(1, 1), (1, 1), (2, 0)]), [2], "seen least");
        let far = [(1, 1), (1, 1), (1, 1), (1, 1), (1, 0)];
        assert_eq!(first(&far), [0, 1], "but none of the farther ones");
    }
}

//! Which register watches which location, while addresses become known and change.
//!
//! The policy: a location that is found at a new address takes a register that nobody uses; when there is none, it
//! takes the one of its own registers that has been where it is for longest. It never takes another location's:
//! one that keeps moving must not push out one that stays, nor take what is held for one that is still to be found, at one place
//! or at several. What is given up is told.

use std::collections::BTreeMap;

use program::RunAddr;

use crate::arms::Wanted;
use crate::location::{Location, LocationError, Slot};

/// A register in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    location: usize,
    /// The place that the register is a part of.
    at: Location,
    slot: Slot,
    since: u64,
    /// The location stays at this place.
    pinned: bool,
}

/// All registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    registers: Vec<Option<Used>>,
    /// Registers that are held for locations that were not found yet, at as many places as they are to be watched at.
    held: BTreeMap<usize, usize>,
    moves: u64,
}

/// What changes when a location is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Registers, and what they wait for from now on.
    pub(crate) set: Vec<(usize, Wanted)>,
    /// Places that are no longer watched: location and address.
    pub(crate) given_up: Vec<(usize, RunAddr)>,
    /// Whether anything is watched that was not.
    pub(crate) armed: bool,
}

impl Table {
    pub(crate) fn new(registers: usize) -> Self {
        Self {
            registers: vec![None; registers],
            held: BTreeMap::new(),
            moves: 0,
        }
    }

    /// Holds registers for a location until it is found, at so many places.
    pub(crate) fn hold(&mut self, location: usize, registers: usize, places: usize) {
        self.held
            .insert(location, registers.saturating_mul(places.max(1)));
    }

    /// What the registers wait for now.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        self.registers
            .iter()
            .map(|used| used.as_ref().map_or(Wanted::reserved(), wanted))
            .collect()
    }

    /// The places that are watched, with the number of their location.
    pub(crate) fn places(&self) -> Vec<(usize, Location)> {
        let mut places: Vec<(usize, Location)> = Vec::new();
        for used in self.registers.iter().flatten() {
            if !places.contains(&(used.location, used.at)) {
                places.push((used.location, used.at));
            }
        }
        places
    }

    /// A location was found at a place.
    ///
    /// # Errors
    /// When the place cannot be watched, or no register can be had for it.
    pub(crate) fn place(&mut self, location: usize, at: Location) -> Result<Placement, LocationError> {
        let mut placement = Placement::default();
        // Bytes that are watched already for another location need no second register, and two would report each access
        // twice.
        self.moves += 1;
        if let Some((of, place)) = self.places().into_iter().find(|(_, place)| place.covers(&at)) {
            if of == location {
                self.is_still_at(location, place);
            }
            return Ok(placement);
        }
        let slots = at.slots()?;
        let held = self.held.remove(&location).unwrap_or(0);
        // Nor does what tells of more accesses beside what tells of fewer.
        for (of, place) in self.places() {
            if at.covers(&place) {
                self.give_up(of, place);
                placement.given_up.push((of, place.addr));
            }
        }
        while self.free() < slots.len() {
            let oldest = self.registers.iter().flatten();
            let oldest = oldest
                .filter(|used| used.location == location && !used.pinned)
                .min_by_key(|used| used.since)
                .copied();
            let Some(oldest) = oldest else {
                // Whoever is found for the first time comes before those who may never be.
                if self.unused() >= slots.len() && !placement.given_up.iter().any(|(of, _)| *of == location) {
                    break;
                }
                let needed = self.registers.len() + slots.len() - self.free();
                self.held.extend((held > 0).then_some((location, held)));
                return Err(LocationError::TooMany { needed });
            };
            self.give_up(location, oldest.at);
            placement.given_up.push((location, oldest.at.addr));
        }
        // What is left is for its next place.
        let rest = held.saturating_sub(slots.len());
        self.held.extend((rest > 0).then_some((location, rest)));
        let mut slots = slots.into_iter();
        for (register, used) in self.registers.iter_mut().enumerate() {
            if used.is_none()
                && let Some(slot) = slots.next()
            {
                let new = Used {
                    location,
                    at,
                    slot,
                    since: self.moves,
                    pinned: false,
                };
                *used = Some(new);
                placement.set.push((register, wanted(&new)));
            }
        }
        // What was given up and not taken again waits for nothing.
        for (register, used) in self.registers.iter().enumerate() {
            if used.is_none() && !placement.given_up.is_empty() {
                placement.set.push((register, Wanted::reserved()));
            }
        }
        placement.armed = true;
        Ok(placement)
    }

    /// A location stays at a place, if it is watched there.
    pub(crate) fn pin(&mut self, location: usize, at: Location) {
        for used in self.registers.iter_mut().flatten() {
            used.pinned |= used.location == location && used.at == at;
        }
    }

    /// Whether a location stays at as many places as it is to be watched at.
    pub(crate) fn stays(&self, location: usize, places: u32) -> bool {
        let pinned = self.registers.iter().flatten();
        let pinned = pinned.filter(|used| used.location == location && used.pinned);
        let mut at: Vec<Location> = Vec::new();
        for used in pinned {
            if !at.contains(&used.at) {
                at.push(used.at);
            }
        }
        !at.is_empty() && at.len() >= places.max(1) as usize
    }

    /// A location is at another place now, and no longer where it was.
    ///
    /// # Errors
    /// When the place cannot be watched, or no register can be had for it; then the location is not watched.
    pub(crate) fn move_to(&mut self, location: usize, at: Location) -> Result<Placement, LocationError> {
        let former: Vec<Location> = self
            .places()
            .into_iter()
            .filter(|&(of, place)| of == location && place != at)
            .map(|(_, place)| place)
            .collect();
        let before = self.registers.clone();
        for place in &former {
            self.give_up(location, *place);
        }
        let mut placement = match self.place(location, at) {
            Ok(placement) => placement,
            Err(error) => {
                self.registers = before;
                return Err(error);
            }
        };
        let left = former.iter().map(|place| (location, place.addr));
        placement.given_up.extend(left);
        for (register, (was, is)) in before.iter().zip(&self.registers).enumerate() {
            if was.is_some() && is.is_none() && !placement.set.iter().any(|(of, _)| *of == register) {
                placement.set.push((register, Wanted::reserved()));
            }
        }
        Ok(placement)
    }

    /// A location is not to be watched any more.
    pub(crate) fn leave(&mut self, location: usize) -> Placement {
        let mut placement = Placement::default();
        for (of, at) in self.places() {
            if of == location {
                placement.given_up.push((location, at.addr));
            }
        }
        for (register, used) in self.registers.iter_mut().enumerate() {
            if used.is_some_and(|used| used.location == location) {
                *used = None;
                placement.set.push((register, Wanted::reserved()));
            }
        }
        placement
    }

    /// Forgets everything: another program runs.
    pub(crate) fn clear(&mut self) -> Vec<(usize, RunAddr)> {
        let places = self.places();
        self.registers.fill(None);
        places
            .into_iter()
            .map(|(location, at)| (location, at.addr))
            .collect()
    }

    fn unused(&self) -> usize {
        self.registers.iter().filter(|used| used.is_none()).count()
    }

    /// Those that are held for nobody.
    fn free(&self) -> usize {
        self.unused().saturating_sub(self.held.values().sum())
    }

    /// Whoever uses an object comes by again: it is no old one.
    fn is_still_at(&mut self, location: usize, at: Location) {
        for used in self.registers.iter_mut().flatten() {
            if used.location == location && used.at == at {
                used.since = self.moves;
            }
        }
    }

    fn give_up(&mut self, location: usize, at: Location) {
        for used in &mut self.registers {
            if used.is_some_and(|used| used.location == location && used.at == at) {
                *used = None;
            }
        }
    }
}

fn wanted(used: &Used) -> Wanted {
    Wanted {
        slot: used.slot,
        trigger: used.at.trigger,
        armed: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::Trigger;

    fn at(addr: u64, len: u32) -> Location {
        Location {
            addr: RunAddr(addr),
            len,
            trigger: Trigger::ReadWrite,
        }
    }

    #[test]
    fn a_new_address_takes_a_free_register_then_the_oldest_of_its_own() {
        let mut table = Table::new(3);
        assert_eq!(table.place(0, at(0x1000, 8)).unwrap().set.len(), 1);
        assert_eq!(table.place(1, at(0x2000, 8)).unwrap().set[0].0, 1);
        assert_eq!(table.place(1, at(0x2100, 8)).unwrap().set[0].0, 2);
        let moved = table.place(1, at(0x2200, 8)).unwrap();
        assert_eq!(moved.given_up, [(1, RunAddr(0x2000))]);
        assert_eq!(moved.set[0].0, 1);
        assert_eq!(table.place(1, at(0x2200, 8)).unwrap(), Placement::default());
        let mut places: Vec<u64> = table.places().iter().map(|(_, place)| place.addr.0).collect();
        places.sort_unstable();
        assert_eq!(places, [0x1000, 0x2100, 0x2200]);
    }

    #[test]
    fn a_location_stays_where_it_is_pinned() {
        let mut table = Table::new(2);
        table.hold(0, 1, 2);
        table.place(0, at(0x1000, 8)).unwrap();
        table.pin(0, at(0x1000, 8));
        assert!(table.stays(0, 1) && !table.stays(0, 2));
        for addr in [0x2000, 0x3000, 0x1000, 0x4000] {
            table.place(0, at(addr, 8)).unwrap();
            assert!(table.places().contains(&(0, at(0x1000, 8))), "{addr:#x}");
        }
        assert_eq!(table.places().len(), 2);
    }

    #[test]
    fn a_location_that_moved_is_watched_where_it_is_alone() {
        let mut table = Table::new(3);
        table.place(0, at(0x1000, 8)).unwrap();
        table.move_to(1, at(0x2000, 16)).unwrap();
        let moved = table.move_to(1, at(0x3000, 8)).unwrap();
        assert_eq!(moved.given_up, [(1, RunAddr(0x2000))]);
        let armed = moved.set.iter().filter(|(_, wanted)| wanted.armed).count();
        assert_eq!(
            (armed, moved.set.len()),
            (1, 2),
            "one moves, the other is switched off"
        );
        assert_eq!(table.places(), [(0, at(0x1000, 8)), (1, at(0x3000, 8))]);
        assert_eq!(table.move_to(1, at(0x3000, 8)).unwrap(), Placement::default());
        assert!(table.move_to(1, at(0x4000, 24)).is_err());
        assert_eq!(table.places().len(), 2, "what cannot move stays");
    }

    #[test]
    fn what_is_left_frees_its_registers_and_nobody_elses() {
        let mut table = Table::new(3);
        table.place(0, at(0x1000, 8)).unwrap();
        table.place(1, at(0x2000, 16)).unwrap();
        let placement = table.leave(1);
        assert_eq!(placement.given_up, [(1, RunAddr(0x2000))]);
        assert_eq!(placement.set, [(1, Wanted::reserved()), (2, Wanted::reserved())]);
        assert_eq!(table.places(), [(0, at(0x1000, 8))]);
        assert_eq!(table.leave(1), Placement::default());
    }

    #[test]
    fn bytes_that_are_watched_already_take_no_second_register() {
        let mut table = Table::new(2);
        table.place(0, at(0x1000, 8)).unwrap();
        assert_eq!(table.place(1, at(0x1000, 8)).unwrap(), Placement::default());
        assert_eq!(table.places(), [(0, at(0x1000, 8))]);
        assert!(table.place(1, at(0x1000, 4)).unwrap().armed);
    }

    #[test]
    fn a_watch_for_all_accesses_is_one_for_writes() {
        let writes = |addr, len| Location {
            trigger: Trigger::Write,
            ..at(addr, len)
        };
        let mut table = Table::new(2);
        table.place(0, at(0x1000, 8)).unwrap();
        assert_eq!(table.place(5, writes(0x1000, 8)).unwrap(), Placement::default());
        assert!(table.place(6, writes(0x2000, 8)).unwrap().armed);
        let more = table.place(1, at(0x2000, 8)).unwrap();
        assert_eq!(more.given_up, [(6, RunAddr(0x2000))]);
        assert_eq!(more.set.len(), 1, "it takes the register over");
        assert_eq!(table.places(), [(0, at(0x1000, 8)), (1, at(0x2000, 8))]);
    }

    #[test]
    fn what_is_held_for_another_is_not_taken() {
        let mut table = Table::new(3);
        table.hold(0, 1, 1);
        table.hold(1, 1, 1);
        table.place(0, at(0x1000, 8)).unwrap();
        table.place(0, at(0x2000, 8)).unwrap();
        let third = table.place(0, at(0x3000, 8)).unwrap();
        assert_eq!(third.given_up, [(0, RunAddr(0x1000))]);
        let other = table.place(1, at(0x4000, 8)).unwrap();
        assert!(other.armed && other.given_up.is_empty());
        assert_eq!(table.places().len(), 3);
    }

    /// Two threads use an object each, and take another one from time to time.
    #[test]
    fn what_is_held_for_several_places_is_one_locations_and_the_object_that_nobody_uses_gives_way() {
        let mut table = Table::new(4);
        table.hold(0, 1, 1);
        table.hold(1, 1, 2);
        for object in 1..4 {
            table.place(0, at(object << 12, 8)).unwrap();
        }
        assert_eq!(table.places().len(), 2, "two are for the other one");
        table.place(1, at(0x11_000, 8)).unwrap();
        table.place(1, at(0x12_000, 8)).unwrap();
        table.place(1, at(0x11_000, 8)).unwrap();
        let moved = table.place(1, at(0x13_000, 8)).unwrap();
        assert_eq!(moved.given_up, [(1, RunAddr(0x12_000))]);
        assert_eq!(table.places().len(), 4);
    }

    #[test]
    fn nobody_is_pushed_out_by_another() {
        let mut table = Table::new(1);
        table.place(0, at(0x1000, 8)).unwrap();
        assert!(table.place(1, at(0x2000, 8)).is_err());
        assert_eq!(table.places(), [(0, at(0x1000, 8))]);
    }

    #[test]
    fn a_wide_place_is_given_up_whole() {
        let mut table = Table::new(2);
        table.place(0, at(0x1000, 16)).unwrap();
        let moved = table.place(0, at(0x2000, 8)).unwrap();
        assert_eq!(moved.given_up, [(0, RunAddr(0x1000))]);
        assert_eq!(moved.set.len(), 2, "one moves, the other is switched off");
        assert!(!moved.set[1].1.armed);
        assert_eq!(table.wanted().iter().filter(|wanted| wanted.armed).count(), 1);
        assert_eq!(table.clear(), [(0, RunAddr(0x2000))]);
    }
}

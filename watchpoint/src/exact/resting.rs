//! Locations that are not watched any more because threads only polled them.

use super::core::Core;
use super::owner::Owner;
use crate::location::Location;
use crate::watcher::Event;

/// Where a location was, and what was there when it was left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resting {
    location: usize,
    place: Location,
    content: Option<u64>,
    until_ns: u64,
}

impl Resting {
    pub(super) fn new(location: usize, place: Location, content: Option<u64>, until_ns: u64) -> Self {
        Self {
            location,
            place,
            content,
            until_ns,
        }
    }
}

impl<Kind, O: Owner<Kind>> Core<Kind, O> {
    /// The program fails, and everybody is stopped. What has the content that it had when it was left alone was polled until
    /// now: all that happened to it is known.
    pub(crate) fn wake(&mut self) {
        let resting = std::mem::take(&mut self.resting);
        let changed =
            |resting: &Resting| resting.content.is_none() || self.word(&resting.place) != resting.content;
        self.resting = resting.into_iter().filter(changed).collect();
    }

    /// What is at a location, of eight bytes at most.
    pub(super) fn word(&self, at: &Location) -> Option<u64> {
        let bytes = self.memory.read(at.addr, at.len as usize)?;
        let bytes = bytes.iter().rev().take(8);
        Some(bytes.fold(0, |word, &byte| word << 8 | u64::from(byte)))
    }

    /// The program is over: nobody knows what happened to the others.
    pub(crate) fn tell_unwatched(&mut self) {
        let resting = std::mem::take(&mut self.resting).into_iter();
        self.out.extend(resting.map(|resting| Event::Disarmed {
            location: resting.location,
            at: resting.place.addr,
            until_ns: resting.until_ns,
        }));
    }
}

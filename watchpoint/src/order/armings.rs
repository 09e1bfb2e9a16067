//! Where locations are watched: each may be at several addresses at once, and come back to one it had left.

use std::collections::{BTreeMap, VecDeque};

use program::RunAddr;

use super::item::Place;

/// How many places are remembered that are watched no more, for hits that are still on their way.
const MOST_LEFT: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Armings {
    /// The last arming of each location at each address.
    last: BTreeMap<(usize, RunAddr), u64>,
    count: u64,
    /// What is watched no more, oldest first.
    left: VecDeque<Place>,
}

impl Armings {
    pub(super) fn arm(&mut self, location: usize, at: RunAddr) -> Place {
        self.count += 1;
        self.last.insert((location, at), self.count);
        self.place(location, at)
    }

    pub(super) fn leave(&mut self, location: usize, at: RunAddr) {
        self.left.push_back(self.place(location, at));
        if self.left.len() > MOST_LEFT
            && let Some(oldest) = self.left.pop_front()
            && self.is_last(oldest)
        {
            self.last.remove(&(oldest.location, oldest.at));
        }
    }

    pub(super) fn place(&self, location: usize, at: RunAddr) -> Place {
        let armed = self.last.get(&(location, at)).copied().unwrap_or(0);
        Place { location, at, armed }
    }

    /// Whether the location was not armed there again.
    pub(super) fn is_last(&self, place: Place) -> bool {
        self.last.get(&(place.location, place.at)) == Some(&place.armed)
    }
}

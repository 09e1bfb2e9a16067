//! Some of many: those that were asked for last.

use std::collections::HashMap;
use std::hash::Hash;

/// At most so many values by their keys.
#[derive(Debug)]
pub(super) struct Lately<K, V> {
    all: HashMap<K, (V, u64)>,
    asked: u64,
    most: usize,
}

impl<K: Clone + Eq + Hash, V: Clone> Lately<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            all: HashMap::new(),
            asked: 0,
            most,
        }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        self.asked += 1;
        let (value, asked) = self.all.get_mut(key)?;
        *asked = self.asked;
        Some(value.clone())
    }

    /// Adds one; the one that nobody has asked for the longest makes room for it.
    pub(super) fn insert(&mut self, key: K, value: V) {
        self.asked += 1;
        if self.all.len() >= self.most && !self.all.contains_key(&key) {
            let oldest = self.all.iter().min_by_key(|(_, (_, asked))| *asked);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.all.remove(&oldest);
            }
        }
        self.all.insert(key, (value, self.asked));
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.all.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_not_asked_for_the_longest_makes_room() {
        let mut lately = Lately::new(2);
        lately.insert(1, "one");
        lately.insert(2, "two");
        assert_eq!(lately.get(&1), Some("one"));
        lately.insert(3, "three");
        assert_eq!(
            [1, 2, 3].map(|key| lately.get(&key)),
            [Some("one"), None, Some("three")]
        );
        lately.insert(3, "again");
        lately.remove(&1);
        lately.insert(4, "four");
        assert_eq!(
            [1, 3, 4].map(|key| lately.get(&key)),
            [None, Some("again"), Some("four")]
        );
    }
}

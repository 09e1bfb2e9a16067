//! What takes long, and how much of it one credential may have under way on a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tonic::Status;

use super::later;
use crate::store::model::Owner;

/// When somebody should try again who has too much under way.
const AGAIN: Duration = Duration::from_secs(2);

/// How much everybody has under way.
#[derive(Debug, Default)]
pub struct Turns(Mutex<HashMap<Owner, usize>>);

/// One of them, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Turn {
    all: Arc<Turns>,
    owner: Owner,
}

impl Turns {
    /// One more, if somebody has fewer than so many; `setting` is where that comes from.
    pub fn begin(self: &Arc<Self>, owner: Owner, most: usize, setting: &str) -> Result<Turn, Status> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let under_way = all.get(&owner).copied().unwrap_or(0);
        if under_way >= most {
            return Err(later(
                format!(
                    "{owner} has {under_way} of these under way, and may have {most} (`limits.{setting}`)"
                ),
                AGAIN,
            ));
        }
        all.insert(owner.clone(), under_way + 1);
        Ok(Turn {
            all: Arc::clone(self),
            owner,
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(&self.owner) {
            Some(under_way) if *under_way > 1 => *under_way -= 1,
            _ => drop(all.remove(&self.owner)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::retry_after;

    #[test]
    fn each_has_so_many_and_no_more() {
        let turns = Arc::new(Turns::default());
        let begin = |name: &str| turns.begin(Owner(name.to_owned()), 2, "uploads");
        let (one, _other) = (begin("a").unwrap(), begin("a").unwrap());
        let refused = begin("a").unwrap_err();
        assert!(refused.message().contains("limits.uploads"), "{refused}");
        assert!(retry_after(&refused).is_some());
        let elsewhere = begin("b").unwrap();
        drop(one);
        drop(begin("a").unwrap());
        drop(begin("a").unwrap());
        drop(elsewhere);
        assert_eq!(
            turns.0.lock().unwrap().len(),
            1,
            "who has nothing under way takes no memory"
        );
    }
}

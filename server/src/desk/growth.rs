//! How much runs may add to what is known of a bug.
//!
//! Every run is small enough (`limits::run`), but a host that makes its runs up can show ever new accesses in ever new orders, and
//! what is known of a bug would grow without end. Runs of a program show the same things again and again, so hosts have a share of
//! what there is room for, and whoever has used it up is heard no more. Everything follows from the log, on every server alike.

use std::collections::BTreeMap;

use crate::store::model::{Owner, StoredRun};

/// Things that all runs of a case may show together: some 200 MB of them.
const MOST: usize = 1_000_000;
/// Things that the runs of one host may be the first to show: half of what a run may show at most.
const MOST_OF_HOST: usize = 100_000;

/// The same of all hosts of one credential: it makes up as many hosts as it likes. Fleets often have one credential.
const MOST_OF_OWNER: usize = 500_000;

/// What runs have added.
#[derive(Debug, Default)]
pub(super) struct Growth {
    by_host: BTreeMap<String, usize>,
    by_owner: BTreeMap<Owner, usize>,
    /// Runs that were not looked at.
    unheard: u64,
}

impl Growth {
    /// Whether another run may be looked at, when so many things are known.
    pub(super) fn hears(&mut self, run: &StoredRun, known: usize) -> bool {
        let of_host = self.by_host.get(&run.host).copied().unwrap_or_default();
        let owner = run.owner.as_ref();
        let of_owner = owner.and_then(|owner| self.by_owner.get(owner)).copied();
        let hears = known < MOST && of_host < MOST_OF_HOST && of_owner.unwrap_or_default() < MOST_OF_OWNER;
        self.unheard += u64::from(!hears);
        hears
    }

    /// A run added something.
    pub(super) fn add(&mut self, run: &StoredRun, more: usize) {
        if more == 0 {
            return;
        }
        *self.by_host.entry(run.host.clone()).or_default() += more;
        if let Some(owner) = &run.owner {
            *self.by_owner.entry(owner.clone()).or_default() += more;
        }
    }

    /// What was left out, for people.
    pub(super) fn note(&self) -> Option<String> {
        (self.unheard > 0).then(|| {
            format!(
                "{} runs were not looked at: their hosts had shown more than programs do",
                self.unheard
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Body;

    fn run(host: &str, owner: &str) -> StoredRun {
        StoredRun {
            seq: 1,
            id: "r".to_owned(),
            host: host.to_owned(),
            owner: Some(Owner(owner.to_owned())).filter(|owner| !owner.0.is_empty()),
            at: 1,
            body: Body::Inline("{}".into()),
        }
    }

    #[test]
    fn who_shows_too_much_is_heard_no_more_and_the_others_are() {
        let mut growth = Growth::default();
        let mut known = 0;
        let endless = run("endless", "");
        while growth.hears(&endless, known) {
            growth.add(&endless, 50_000);
            known += 50_000;
        }
        assert_eq!(known, MOST_OF_HOST);
        assert!(growth.hears(&run("other", ""), known));
        assert!(growth.note().is_some_and(|note| note.starts_with("1 runs")));
    }

    /// What a thousand hosts bring to be known, in the order of their numbers.
    fn shown(growth: &mut Growth, owner: impl Fn(usize) -> &'static str) -> usize {
        let mut known = 0;
        for host in 0..1000 {
            let run = run(&format!("host-{host}"), owner(host));
            if growth.hears(&run, known) {
                growth.add(&run, 50_000);
                known += 50_000;
            }
        }
        known
    }

    #[test]
    fn many_hosts_together_do_not_get_more_than_there_is() {
        assert_eq!(shown(&mut Growth::default(), |_| ""), MOST);
        let two = |host: usize| ["a", "b"][host % 2];
        assert_eq!(shown(&mut Growth::default(), two), MOST);
    }

    #[test]
    fn one_credential_with_many_hosts_leaves_something_to_the_others() {
        let mut growth = Growth::default();
        let known = shown(&mut growth, |_| "greedy");
        assert_eq!(known, MOST_OF_OWNER);
        assert!(!growth.hears(&run("another", "greedy"), known));
        assert!(growth.hears(&run("another", "honest"), known));
    }
}

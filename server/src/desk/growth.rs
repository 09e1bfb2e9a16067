//! How much runs may add to what is known of a bug.
//!
//! Every run is small enough (`limits::run`), but a host that makes its runs up can show ever new accesses in ever new orders, and
//! what is known of a bug would grow without end. Runs of a program show the same things again and again, so hosts have a share of
//! what there is room for, and whoever has used it up is heard no more. Everything follows from the log, on every server alike.

use std::collections::BTreeMap;

/// Things that all runs of a case may show together: some 200 MB of them.
const MOST: usize = 1_000_000;
/// Things that the runs of one host may be the first to show: half of what a run may show at most.
const MOST_OF_HOST: usize = 100_000;

/// What runs have added.
#[derive(Debug, Default)]
pub(super) struct Growth {
    by_host: BTreeMap<String, usize>,
    /// Runs that were not looked at.
    unheard: u64,
}

impl Growth {
    /// Whether another run of a host may be looked at, when so many things are known.
    pub(super) fn hears(&mut self, host: &str, known: usize) -> bool {
        let own = self.by_host.get(host).copied().unwrap_or_default();
        let hears = known < MOST && own < MOST_OF_HOST;
        self.unheard += u64::from(!hears);
        hears
    }

    /// A run of a host added something.
    pub(super) fn add(&mut self, host: &str, more: usize) {
        if more > 0 {
            *self.by_host.entry(host.to_owned()).or_default() += more;
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

    #[test]
    fn who_shows_too_much_is_heard_no_more_and_the_others_are() {
        let mut growth = Growth::default();
        let mut known = 0;
        while growth.hears("endless", known) {
            growth.add("endless", 50_000);
            known += 50_000;
        }
        assert_eq!(known, MOST_OF_HOST);
        assert!(growth.hears("other", known));
        assert!(growth.note().is_some_and(|note| note.starts_with("1 runs")));
    }

    #[test]
    fn many_hosts_together_do_not_get_more_than_there_is() {
        let mut growth = Growth::default();
        let mut known = 0;
        for host in 0..1000 {
            let host = format!("host-{host}");
            if growth.hears(&host, known) {
                growth.add(&host, 50_000);
                known += 50_000;
            }
        }
        assert_eq!(known, MOST);
    }
}

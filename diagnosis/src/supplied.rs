//! Who supplies, in runs that succeed, what failing runs find missing.
//!
//! That a pointer was null where the failing statement read it says nothing new. In a run that succeeded somebody had written it:
//! why that write did not come about is the question, and the statements that decide on it are its answer. A write of another
//! thread is a matter of order, which has predictors of its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::predictor::Predictor;
use crate::run::{Run, StatementId, ThreadIx, What};

/// The statements by which a thread of a successful run wrote what it read where failing runs read another value.
pub(crate) fn supplied(run: &Run, best: &Predictor) -> BTreeSet<StatementId> {
    let Predictor::Value {
        at, location, test, ..
    } = best
    else {
        return BTreeSet::new();
    };
    let read = test.read_by().unwrap_or(at.statement);
    let mut written: BTreeMap<u64, (ThreadIx, StatementId)> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for event in &run.events {
        let What::Access(access) = event.what else {
            continue;
        };
        if access.location == *location && access.kind.reads() && event.statement == read {
            let last = written.get(&access.addr);
            found.extend(
                last.filter(|(thread, _)| *thread == event.thread)
                    .map(|(_, by)| *by),
            );
        }
        if access.kind.writes() {
            written.insert(access.addr, (event.thread, event.statement));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Shape;
    use crate::testkit::Lab;

    #[test]
    fn the_last_write_before_the_read_supplied_it() {
        let mut lab = Lab::new(&[('m', "main"), ('a', "other")], &[("words", Shape::Pointer)]);
        let good = lab.success("m:W1=0 m:W60=5 m:R88=5 m:W90=0");
        let bad = lab.failure("m:W1=0 m:R88=0", 'm', &[88]);
        let (_, ranked) = lab.rank(&[good.clone(), good.clone(), good.clone(), bad.clone(), bad]);
        let best = &ranked[0].predictor;
        assert!(matches!(best, Predictor::Value { .. }), "{best:?}");
        assert_eq!(supplied(&good, best), BTreeSet::from([lab.line(60)]));
        for text in ["m:R88=5", "m:W60=5 a:W61=5 m:R88=5"] {
            assert_eq!(supplied(&lab.success(text), best), BTreeSet::new(), "{text}");
        }
    }
}

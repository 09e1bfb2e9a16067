//! A failing and a successful run beside one another.

use std::collections::{BTreeMap, BTreeSet};

use super::present::{by_number, value, variable};
use crate::predictor::Predictor;
use crate::predictor::extract::locate;
use crate::rank::Ranked;
use crate::run::{Access, AccessKind, Catalogue, Event, Run, StatementId, ThreadIx, What};
use crate::sketch::{self, Examples, Step};

/// The predictor's accesses in the failing run, and what the same statements did in a successful one.
pub(super) fn examples(
    catalogue: &Catalogue,
    best: &Ranked,
    failing: Option<&Run>,
    successful: Option<&Run>,
) -> Option<Examples> {
    let run = failing?;
    let events = locate(catalogue, run, &best.predictor)?;
    let failing = steps(catalogue, run, events);
    let successful = successful.map_or_else(Vec::new, |run| {
        steps(catalogue, run, comparable(run, &best.predictor))
    });
    Some(Examples { failing, successful })
}

/// Each access's last execution in a successful run. Where the accesses are to one location, of one object: those of two objects
/// beside one another can look like what did not happen. For the same reason each read has the write before it that it returns.
fn comparable(run: &Run, predictor: &Predictor) -> Vec<usize> {
    let wanted = predictor.accesses();
    let is_wanted = |event: &Event| {
        let role = run
            .threads
            .get(event.thread.0 as usize)
            .map(|thread| &thread.role);
        wanted
            .iter()
            .any(|(who, _, _)| who.statement == event.statement && Some(&who.role) == role)
    };
    let all = || {
        let accesses = run.events.iter().enumerate();
        accesses.filter_map(|(at, event)| Some((at, event, access(event)?)))
    };
    let one_location = wanted.windows(2).all(|pair| pair[0].1 == pair[1].1);
    let object = one_location.then(|| {
        let mut objects: BTreeMap<u64, (BTreeSet<StatementId>, usize)> = BTreeMap::new();
        for (at, event, access) in all().filter(|(_, event, _)| is_wanted(event)) {
            let (statements, last) = objects.entry(access.addr).or_default();
            statements.insert(event.statement);
            *last = at;
        }
        let best = objects
            .into_iter()
            .max_by_key(|(_, (statements, last))| (statements.len(), *last));
        best.map(|(addr, _)| addr)
    });
    let object = object.flatten();
    let of_object = |access: &Access| object.is_none_or(|addr| access.addr == addr);
    let mut last: Vec<(ThreadIx, StatementId, usize)> = Vec::new();
    for (at, event, _) in all().filter(|(_, event, access)| is_wanted(event) && of_object(access)) {
        last.retain(|(thread, id, _)| (*thread, *id) != (event.thread, event.statement));
        last.push((event.thread, event.statement, at));
    }
    let mut shown: Vec<usize> = last.into_iter().map(|(_, _, at)| at).collect();
    if let (Some(_), Some(&first)) = (object, shown.first()) {
        let mut write = None;
        let mut returned = Vec::new();
        for (at, _, access) in all().filter(|(at, _, access)| *at >= first && of_object(access)) {
            if access.kind != AccessKind::Write && shown.contains(&at) {
                returned.extend(write);
            }
            if access.kind != AccessKind::Read {
                write = Some(at);
            }
        }
        shown.extend(returned);
    }
    shown
}

fn access(event: &Event) -> Option<&Access> {
    match &event.what {
        What::Access(access) => Some(access),
        _ => None,
    }
}

fn steps(catalogue: &Catalogue, run: &Run, mut events: Vec<usize>) -> Vec<Step> {
    events.sort_unstable();
    events.dedup();
    let mut lanes: Vec<ThreadIx> = Vec::new();
    let happened = events.into_iter().filter_map(|at| run.events.get(at)).enumerate();
    happened
        .map(|(n, event)| {
            let lane = lanes
                .iter()
                .position(|thread| *thread == event.thread)
                .unwrap_or_else(|| {
                    lanes.push(event.thread);
                    lanes.len() - 1
                });
            let access = match event.what {
                What::Access(access) => Some(access),
                _ => None,
            };
            let location = access.and_then(|access| catalogue.locations.get(access.location.0 as usize));
            Step {
                n: u32::try_from(n).unwrap_or(u32::MAX),
                thread: u32::try_from(lane).unwrap_or(u32::MAX),
                statement: by_number(catalogue, event.statement),
                access: access.map(|access| access.kind),
                variable: access.and_then(|access| variable(catalogue, access.location)),
                value: access.zip(location).and_then(|(access, location)| {
                    Some(value(access.value?, location.width, location.shape))
                }),
                source: sketch::Source::Watchpoint,
                evidence: sketch::Evidence::Traced,
                ..Step::default()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::sketch;
    use crate::run::Shape;
    use crate::testkit::Lab;

    /// Sessions set what they do and clear it; a monitor looks whether it is set, and uses it.
    #[test]
    fn what_did_not_happen_is_not_shown_for_a_successful_run() {
        let mut lab = Lab::new(
            &[('m', "monitor"), ('s', "session"), ('t', "session")],
            &[("info", Shape::Pointer)],
        );
        lab.function("report", &[60, 63]);
        lab.function("query", &[83, 86]);
        lab.slice(63, 0, None);
        let bad = "s:W83=5 m:R60=5 s:W86=0 m:R63=0";
        // Another session clears its own between the two reads; and the same one sets it anew.
        let good = "s:W83=5@info t:W83=6@info+1 m:R60=5@info t:W86=0@info+1 m:R63=5@info s:W86=0@info \
                    m:R60=0@info s:W86=0@info s:W83=7@info m:R63=7@info";
        let runs = vec![
            lab.success(good),
            lab.success("s:W83=5 m:R60=5 m:R63=5 s:W86=0"),
            lab.failure(bad, 'm', &[63]),
            lab.failure(bad, 'm', &[63]),
        ];
        let sketch = sketch(&mut lab, &runs);
        let best = &sketch.predictors[0];
        let examples = best.examples.as_ref().unwrap();
        let lines: Vec<u32> = examples
            .successful
            .iter()
            .filter_map(|step| step.statement.line)
            .collect();
        assert_eq!(best.pattern.as_deref(), Some("RWR"));
        assert_eq!(lines, [60, 86, 83, 63]);
    }
}

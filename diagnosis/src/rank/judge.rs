//! How a predictor stands among those that have the same F-measure, and whether it explains the failure.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::deadly::deadly;
use super::{Class, Ranked, Showing, Standing, expected_writes, returned};
use crate::evidence::Evidence;
use crate::predictor::{Actor, AtomicityPattern, Ending, OrderPattern, Predictor, Role, Test, When};
use crate::run::{Because, Catalogue, LocationId, Shape, StatementId};
use crate::sketch::Why;
use crate::statistics::Counts;

pub(super) struct Judge<'a> {
    catalogue: &'a Catalogue,
    evidence: &'a Evidence,
    failing: StatementId,
    /// Reads of what threads of some kind change, as successful runs show.
    changed: BTreeSet<Changed>,
    /// Calls that do nothing but fail.
    deadly: BTreeSet<StatementId>,
}

/// What is read, by whom, and the kind of the threads that change it.
type Changed = (LocationId, Actor, Role);

/// [`Judge::changed`]: reads that returned another thread's write, and also came before one, or never returned it in a failing run.
/// What somebody wrote before all reads is not going to change.
fn changed(evidence: &Evidence) -> BTreeSet<Changed> {
    let mut early = BTreeSet::new();
    let mut returned = BTreeMap::new();
    for predictor in evidence.predictors() {
        let Predictor::Order {
            pattern,
            location,
            first,
            second,
        } = predictor
        else {
            continue;
        };
        let counts = evidence.counts(predictor);
        if counts.successful_with == 0 {
            continue;
        }
        match pattern {
            OrderPattern::Wr => {
                let read = (*location, second.clone(), first.role.clone());
                *returned.entry(read).or_insert(false) |= counts.failing_with == 0;
            }
            OrderPattern::Rw => {
                early.insert((*location, first.clone(), second.role.clone()));
            }
            OrderPattern::Ww => {}
        }
    }
    returned.retain(|read, only_there| *only_there || early.contains(read));
    returned.into_keys().collect()
}

impl<'a> Judge<'a> {
    pub(super) fn new(catalogue: &'a Catalogue, evidence: &'a Evidence, failing: StatementId) -> Self {
        Self {
            catalogue,
            evidence,
            failing,
            changed: changed(evidence),
            deadly: deadly(catalogue, failing),
        }
    }

    pub(super) fn standing(&self, predictor: &Predictor) -> Option<Ranked> {
        let counts = self.evidence.counts(predictor);
        let number = matches!(
            predictor,
            Predictor::Value {
                test: Test::Is(_),
                ..
            }
        );
        if counts.failing_with == 0 || number && counts.failing_with == 1 && counts.failing > 1 {
            return None;
        }
        if let Predictor::Unwritten { location, read } = predictor
            && self.expected_writes(*location, read).is_empty()
        {
            return None;
        }
        let explains = self.explains(predictor);
        if matches!(predictor, Predictor::Torn { .. }) && !explains {
            return None;
        }
        let length = match predictor {
            // Of two locations only where one alone does not tell.
            Predictor::Torn { .. }
            | Predictor::Branch { .. }
            | Predictor::Value { .. }
            | Predictor::Unwritten { .. } => 1,
            Predictor::Order { .. } | Predictor::Missed { .. } => 2,
            Predictor::Atomicity { .. } | Predictor::Unfinished { .. } => 3,
            Predictor::Deadlock { waits, .. } => 2 * waits.len().max(2),
        };
        Some(Ranked {
            predictor: self.evidence.completed(predictor),
            counts,
            explains,
            standing: Standing {
                class: self.class(predictor, explains),
                length,
                shows_in_values: self.shows_in_values(predictor, &counts),
                before_the_failure: predictor
                    .accesses()
                    .last()
                    .is_none_or(|(actor, ..)| actor.statement != self.failing),
                ends_elsewhere: self.evidence.ends_elsewhere(predictor),
                events_after: self.evidence.events_after(predictor),
            },
        })
    }

    /// The two writes that a read came between, where every process died of it before the second: both are the same function's, one
    /// after the other, and successful runs read before the first or what the second wrote.
    pub(super) fn unfinished(&self, ranked: &Ranked) -> Option<Ranked> {
        let Predictor::Order {
            pattern: OrderPattern::Wr,
            location,
            first,
            second: read,
        } = &ranked.predictor
        else {
            return None;
        };
        let next = Actor {
            statement: self.evidence.cut_off(*location, first, read)?,
            role: first.role.clone(),
        };
        let info = |of: &Actor| self.catalogue.statements.get(of.statement.0 as usize);
        let (one, other) = (info(first)?, info(&next)?);
        let goes_on = one.function == other.function && one.pc < other.pc;
        let both =
            self.evidence.succeeded_with(*location, read, first) && self.returned(*location, &next, read);
        (both && goes_on).then(|| Ranked {
            predictor: Predictor::Unfinished {
                location: *location,
                first: first.clone(),
                between: read.clone(),
                second: next,
            },
            counts: ranked.counts,
            explains: true,
            standing: Standing {
                class: Class::Explanation,
                length: 3,
                ..ranked.standing
            },
        })
    }

    /// Rules 1 and 2.
    fn class(&self, predictor: &Predictor, explains: bool) -> Class {
        match predictor {
            Predictor::Value {
                at, location, test, ..
            } => match (test, self.restates(at.statement)) {
                (Test::Is(_), true) => Class::FailingNumber,
                (Test::Is(_), false) => Class::Number,
                (_, false) if self.is_kept_inside(at.statement, *location) => Class::Number,
                (_, true) => Class::FailingValue,
                (Test::NonZeroReadBy(_), false) => Class::Written,
                (_, false) => Class::Value,
            },
            Predictor::Branch { branch, .. } => {
                let info = self.catalogue.branches.get(branch.0 as usize);
                match info {
                    Some(info) if self.restates(info.statement) => Class::FailingBranch,
                    Some(info) if info.of_library => Class::LibraryBranch,
                    _ => Class::Branch,
                }
            }
            _ if explains => Class::Explanation,
            _ => Class::Threads,
        }
    }

    /// Whether a library keeps a location for itself, and the failing thread did not fail of what came from there: that has some number in
    /// each run.
    fn is_kept_inside(&self, statement: StatementId, location: LocationId) -> bool {
        let statement = self.catalogue.statements.get(statement.0 as usize);
        let location = self.catalogue.locations.get(location.0 as usize);
        let gave = statement.is_some_and(|info| info.gave.is_some());
        location.is_some_and(|info| info.of_library) && !gave
    }

    /// Whether a statement is the failing one, or decides on nothing but it.
    fn restates(&self, statement: StatementId) -> bool {
        statement == self.failing
            // A macro that checks has its branch and its call on one line.
            || self.deadly.contains(&statement)
            || self.because(statement).is_some_and(|because| {
                let decides = because.why == Why::Control;
                decides && (because.of == self.failing || self.deadly.contains(&because.of))
            })
    }

    fn because(&self, statement: StatementId) -> Option<Because> {
        self.catalogue.statements.get(statement.0 as usize)?.because
    }

    /// Whether an access is how a thread takes a lock that threads of a program which hangs wait for. Who had it before whom tells
    /// nothing: who has it now, and what that one waits for, does.
    fn takes_lock(&self, access: &Actor) -> bool {
        let info = self.catalogue.statements.get(access.statement.0 as usize);
        info.is_some_and(|info| info.takes)
    }

    fn explains(&self, predictor: &Predictor) -> bool {
        match predictor {
            Predictor::Order { second, .. } | Predictor::Atomicity { second, .. }
                if self.takes_lock(second) =>
            {
                false
            }
            Predictor::Branch { .. } | Predictor::Value { .. } => false,
            _ if self.evidence.is_harmless(predictor) => false,
            // What nobody is left to write does not come too late.
            Predictor::Unwritten { location, read } => {
                let failing = self.evidence.counts(predictor).failing_with;
                let writers = self.expected_writes(*location, read).into_iter();
                let kinds = writers.map(|writer| writer.role);
                self.evidence.may_still_come(*location, read, failing, kinds)
            }
            Predictor::Unfinished { .. } => true,
            // Why the last one waits may be another story.
            Predictor::Deadlock { ending, .. } => *ending != Ending::Elsewhere,
            Predictor::Torn {
                changed,
                kept,
                write,
                fresh,
                stale,
                ..
            } => self.returned(*changed, write, fresh) && self.changes_both(*kept, write, stale),
            // Others looked again.
            Predictor::Missed {
                location,
                read,
                write,
            } => self.returned(*location, write, read),
            Predictor::Order {
                location,
                first,
                second,
                ..
            } => self.evidence.succeeded_with(*location, second, first),
            Predictor::Atomicity {
                location,
                first,
                between,
                second,
                pattern,
            } => {
                let begins_with_read = !matches!(pattern, AtomicityPattern::Wwr | AtomicityPattern::Wrw);
                let before = self.returned(*location, between, first)
                    || !begins_with_read && self.evidence.succeeded_with(*location, between, first)
                    || *pattern == AtomicityPattern::Rwr
                        && self.would_stop(*location, first, between, second);
                // What is checked after its use, in the turn of a loop before, is no check.
                let pair =
                    *pattern != AtomicityPattern::Rwr || self.evidence.may_guard(*location, first, second);
                pair && before && self.evidence.succeeded_with(*location, second, between)
            }
        }
    }

    /// Whether a thread checks what it uses, and would have stopped at the check if another one had written before it: then no run has to
    /// show that.
    fn would_stop(&self, location: LocationId, check: &Actor, write: &Actor, used: &Actor) -> bool {
        let pair = (check.statement, used.statement);
        self.catalogue.guards.contains(&pair) && !self.evidence.fills(location, write)
    }

    /// Whether a successful run had `read` return what `write` wrote.
    fn returned(&self, location: LocationId, write: &Actor, read: &Actor) -> bool {
        returned(self.evidence, location, write, read)
    }

    /// Whether threads of the kind that makes a write change what is read elsewhere, too.
    fn changes_both(&self, location: LocationId, write: &Actor, read: &Actor) -> bool {
        self.changed
            .contains(&(location, read.clone(), write.role.clone()))
    }

    /// The other threads' writes that a read returns in successful runs.
    fn expected_writes(&self, location: LocationId, read: &Actor) -> Vec<Actor> {
        expected_writes(self.evidence, location, read)
    }

    /// Rule 5.
    fn shows_in_values(&self, predictor: &Predictor, counts: &Counts) -> Showing {
        let accesses = predictor.accesses();
        let Some((actor, Some(location), _)) = accesses.last() else {
            return Showing::Not;
        };
        let start = Predictor::Value {
            at: (*actor).clone(),
            location: *location,
            test: Test::Zero,
            when: When::Ever,
        };
        let shows = self
            .evidence
            .values_from(&start)
            .filter(|value| matches!(value, Predictor::Value { when: When::Ever, .. }))
            .any(|value| self.evidence.counts(value).compare_f(counts) != Ordering::Less);
        let info = self.catalogue.locations.get(location.0 as usize);
        match (shows, info.map(|info| info.shape)) {
            (false, _) => Showing::Not,
            (true, Some(Shape::Pointer)) => Showing::InPointer,
            (true, _) => Showing::InNumber,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::run::Shape;
    use crate::testkit::Lab;

    /// A pool is closed (29) while it is used (23), through a pointer to a function (25) that was set (36) before there were threads.
    #[test]
    fn what_was_written_before_all_reads_is_no_half_of_a_change() {
        let mut lab = Lab::new(
            &[('m', "main"), ('u', "user")],
            &[("pool->memory", Shape::Pointer), ("use_pool", Shape::Pointer)],
        );
        let whole = "m:W15=7 m:W36=9@use_pool u:R25=9@use_pool u:R23=7 m:W29=0";
        let harmless = format!("{whole} u:R23=0");
        let mut runs = vec![lab.success(whole); 8];
        runs.extend(vec![lab.success(&harmless); 2]);
        let torn = "m:W15=7 m:W36=9@use_pool u:R25=9@use_pool u:R23=7 m:W29=0 u:R25=9@use_pool u:R23=0";
        runs.extend(vec![lab.failure(torn, 'u', &[23]); 4]);
        let (_, ranked) = lab.rank(&runs);
        let described: Vec<String> = ranked.iter().map(|ranked| lab.describe(ranked)).collect();
        assert!(
            described.iter().all(|it| !it.starts_with("WRR 29")),
            "{described:?}"
        );
    }

    /// A file is checked (78) and used (66) while a manager may drop it (120). Whoever finds it dropped loads it again (104), so in no run
    /// does the check see that.
    #[test]
    fn a_check_that_would_have_stopped_its_thread_needs_no_run_that_was_stopped() {
        let mut lab = Lab::new(
            &[('w', "worker"), ('m', "manager")],
            &[("node->file", Shape::Pointer)],
        );
        let runs = [
            lab.success("w:W104=7 w:R78=7 w:R66=7 m:W120=0 w:W104=7 w:R78=7 w:R66=7"),
            lab.success("w:W104=7 w:R78=7 w:R66=7 m:W120=0"),
            lab.failure("w:W104=7 w:R78=7 m:W120=0 w:R66=0", 'w', &[45]),
            lab.failure("w:W104=7 w:R78=7 m:W120=0 w:R66=0", 'w', &[45]),
        ];
        let best = |lab: &mut Lab| {
            let (_, ranked) = lab.rank(&runs);
            lab.describe(&ranked[0])
        };
        assert_eq!(
            best(&mut lab),
            "WR 120 66",
            "for all that is known, one use before another"
        );
        let pair = (lab.line(78), lab.line(66));
        lab.catalogue.guards.insert(pair);
        assert_eq!(best(&mut lab), "RWR 78 120 66");
    }

    /// The same where a file is sent in parts (66): the check (78) is of all of them.
    #[test]
    fn a_check_is_of_all_uses_of_what_it_found() {
        let mut lab = Lab::new(
            &[('w', "worker"), ('m', "manager")],
            &[("node->file", Shape::Pointer)],
        );
        let mut runs = vec![lab.success("w:W104=7 w:R78=7 w:R66=7 w:R66=7 m:W120=0"); 4];
        runs.extend(vec![
            lab.failure(
                "w:W104=7 w:R78=7 w:R66=7 w:R66=7 m:W120=0 w:R66=0",
                'w',
                &[45]
            );
            3
        ]);
        let pair = (lab.line(78), lab.line(66));
        lab.catalogue.guards.insert(pair);
        let (_, ranked) = lab.rank(&runs);
        assert_eq!(lab.describe(&ranked[0]), "RWR 78 120 66");
    }

    /// Two workers set one variable (125) before they read it back (105); the one that reads what the other set fails, and the other goes on.
    #[test]
    fn who_met_the_change_failed_and_not_who_made_it() {
        let mut lab = Lab::new(&[('a', "work"), ('b', "work")], &[("tenant", Shape::Signed)]);
        let mut runs = vec![lab.success("a:W125=1 a:R105=1 b:W125=2 b:R105=2"); 4];
        runs.extend(vec![
            lab.failure("a:W125=1 b:W125=2 a:R105=2 b:W125=3", 'a', &[94]);
            4
        ]);
        let (_, ranked) = lab.rank(&runs);
        assert_eq!(lab.describe(&ranked[0]), "WWR 125 125 105");
    }

    /// A worker fills a slot (57) that the last one to end reads (66). Where none is left, nobody comes too late.
    #[test]
    fn what_nobody_is_left_to_write_was_not_read_too_early() {
        for (ended, explains) in [(false, true), (true, false)] {
            let mut lab = Lab::new(&[('a', "work"), ('b', "work")], &[("slot", Shape::Pointer)]);
            let mut runs = vec![lab.success("b:W57=7 a:R66=7"); 4];
            for _ in 0..3 {
                let mut run = lab.failure("a:R66=0", 'a', &[66]);
                run.threads[1].ended = ended;
                runs.push(run);
            }
            let (_, ranked) = lab.rank(&runs);
            let unwritten = ranked.iter().find(|ranked| lab.describe(ranked) == "-R 66");
            assert_eq!(unwritten.map(|ranked| ranked.explains), Some(explains));
        }
    }

    /// A page is set (38) and taken (43) by a thread that fails if another one has cleared it (57) between, which looks at it first (54).
    #[test]
    fn what_another_thread_read_is_no_explanation() {
        let mut lab = Lab::new(
            &[('n', "navigate"), ('k', "keys")],
            &[("pending", Shape::Pointer)],
        );
        let mut runs = vec![lab.success("k:R54=0 n:W38=22 n:R43=22 n:W43=0"); 3];
        runs.extend(vec![lab.success("n:W38=22 n:R43=22 n:W43=0 k:R54=0"); 3]);
        runs.extend(vec![
            lab.failure(
                "n:W38=22 k:R54=22 k:W57=0 n:R43=0 n:W43=0",
                'n',
                &[44]
            );
            4
        ]);
        let (_, ranked) = lab.rank(&runs);
        assert_eq!(lab.describe(&ranked[0]), "WWR 38 57 43");
    }
}

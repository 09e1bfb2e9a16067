//! Values that are bad in themselves, before what only goes along with them.
//!
//! A program of one thread fails for its input, and failing runs often have the same: whatever the program does with that input alone
//! separates the runs, a branch in its parser as well as the null that was followed in the end. A null that the failing thread then
//! followed, a zero that it divided by, or a number that is less than zero, belongs to the failure in any case. A branch before it says more only if it has to do with
//! it: it decided on a write there, or on the read.
//!
//! Of a bad value that was computed from another one, that other one comes first: `at += padded` wrote the place where the failure
//! was noticed, and `padded` was zero.

use super::{Class, Ranked};
use crate::evidence::Evidence;
use crate::predictor::{Actor, Predictor, Test};
use crate::run::{Catalogue, Gave, LocationId, Shape, StatementId};
use crate::sketch::Why;

/// Statements between a branch and a write that it decides on.
const FARTHEST: usize = 4;

pub(super) fn put_bad_values_first(ranked: &mut [Ranked], catalogue: &Catalogue, evidence: &Evidence) {
    let Some(best) = ranked.first() else { return };
    let as_good = |other: &&Ranked| other.counts.compare_f(&best.counts).is_eq();
    let others = || ranked.iter().take_while(as_good);
    let found = match &best.predictor {
        Predictor::Branch { branch, .. } if best.standing.class == Class::Branch => {
            let Some(info) = catalogue.branches.get(branch.0 as usize) else {
                return;
            };
            others().position(|other| {
                let value = read(other).filter(|value| is_bad(value, catalogue));
                value.is_some_and(|value| !decides_on(info.statement, &value, catalogue, evidence))
            })
        }
        Predictor::Value {
            at: writer,
            location,
            test,
            ..
        } if test.read_by().is_some() => {
            let other_value = |other| read(other).filter(|value| value.location != *location);
            let read_by_writer =
                |other| other_value(other).is_some_and(|value| value.at.statement == writer.statement);
            // Who wrote something else has less to do with a null that was followed than that it was null.
            let followed = |other| {
                other_value(other).is_some_and(|value| value.test == Test::Zero && is_bad(&value, catalogue))
            };
            others()
                .position(read_by_writer)
                .or_else(|| others().position(followed))
        }
        _ => None,
    };
    if let Some(at) = found {
        ranked[..=at].rotate_right(1);
    }
}

/// What several failing runs met by a statement that is not the failing one: zero, or less.
struct Met<'r> {
    at: &'r Actor,
    location: LocationId,
    test: Test,
}

fn read(ranked: &Ranked) -> Option<Met<'_>> {
    match &ranked.predictor {
        Predictor::Value {
            at, location, test, ..
        } if ranked.standing.class == Class::Value && ranked.counts.failing_with > 1 => {
            let (location, test) = (*location, *test);
            test.read_by().is_none().then_some(Met { at, location, test })
        }
        _ => None,
    }
}

/// Whether nobody wants such a value: less than zero, or a null that the failing thread followed, or a zero that it divided by.
fn is_bad(value: &Met<'_>, catalogue: &Catalogue) -> bool {
    let statement = catalogue.statements.get(value.at.statement.0 as usize);
    let location = catalogue.locations.get(value.location.0 as usize);
    match value.test {
        Test::Negative | Test::Wrapped => true,
        Test::Zero => match statement.and_then(|it| it.gave) {
            Some(Gave::Pointer) => {
                location.is_some_and(|it| matches!(it.shape, Shape::Pointer | Shape::Unknown))
            }
            Some(Gave::Divisor) => true,
            None => false,
        },
        Test::Is(_) | Test::ReadBy(_) | Test::NonZeroReadBy(_) => false,
    }
}

/// Whether a branch decides, by itself or through a few other statements, on a write to a location or on what was read there.
fn decides_on(branch: StatementId, value: &Met<'_>, catalogue: &Catalogue, evidence: &Evidence) -> bool {
    let mut at = branch;
    let mut only_control = true;
    for _ in 0..FARTHEST {
        if evidence.is_written_by(value.location, at) {
            return true;
        }
        let because = catalogue
            .statements
            .get(at.0 as usize)
            .and_then(|info| info.because);
        let Some(because) = because else { return false };
        only_control &= because.why != Why::Data;
        at = because.of;
        if only_control && at == value.at.statement {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use crate::run::{Gave, Run, Shape};
    use crate::sketch::Why;
    use crate::testkit::Lab;

    fn best(lab: &mut Lab, runs: &[Run]) -> String {
        let (_, ranked) = lab.rank(runs);
        lab.describe(&ranked[0])
    }

    /// Line 20 is the parser's, 53 takes a variable out of a list, 56 follows its name. Line 30 would have stored a name.
    fn parsed() -> (Lab, Vec<Run>) {
        let mut lab = Lab::new(&[('m', "main")], &[("variable.name", Shape::Pointer)]);
        let mut runs = vec![lab.success("m:B20+ m:W30=7 m:R53=7"); 8];
        runs.extend(vec![lab.failure("m:B20- m:R53=0", 'm', &[56]); 3]);
        (lab, runs)
    }

    #[test]
    fn a_null_that_was_followed_comes_before_a_branch_that_has_nothing_to_do_with_it() {
        let (mut lab, runs) = parsed();
        assert_eq!(best(&mut lab, &runs), "branch 20 NotTaken", "as far as is known");
        let at = lab.line(53).0 as usize;
        lab.catalogue.statements[at].gave = Some(Gave::Pointer);
        assert!(best(&mut lab, &runs).starts_with("value 53"));
    }

    /// Line 93 wrote which element is taken (110), and that is null.
    #[test]
    fn a_null_that_was_followed_comes_before_who_wrote_something_else() {
        let locations = [
            ("this->index_", Shape::Unsigned),
            ("this->commands_[…]", Shape::Pointer),
        ];
        let mut lab = Lab::new(&[('m', "main")], &locations);
        let index = |value: u64| format!("m:W93={value}@this->index_ m:R108={value}@this->index_");
        let mut runs = vec![lab.success("m:R108=2@this->index_ m:R110=7@this->commands_[…]"); 8];
        let failing = format!("{} m:R110=0@this->commands_[…]", index(3));
        runs.extend(vec![lab.failure(&failing, 'm', &[111]); 3]);
        assert!(best(&mut lab, &runs).contains("93"), "as far as is known");
        let at = lab.line(110).0 as usize;
        lab.catalogue.statements[at].gave = Some(Gave::Pointer);
        assert!(best(&mut lab, &runs).starts_with("value 110"));
    }

    #[test]
    fn a_branch_that_decides_on_the_value_comes_before_it() {
        for why in [(Why::Control, 30), (Why::Control, 53)] {
            let (mut lab, runs) = parsed();
            let at = lab.line(53).0 as usize;
            lab.catalogue.statements[at].gave = Some(Gave::Pointer);
            lab.slice(20, 3, Some(why));
            assert_eq!(best(&mut lab, &runs), "branch 20 NotTaken", "{why:?}");
        }
    }

    #[test]
    fn a_branch_of_inlined_library_code_comes_after_a_value() {
        let mut lab = Lab::new(&[('m', "main")], &[("person.manager", Shape::Unsigned)]);
        let mut runs = vec![lab.success("m:B18+ m:R26=3"); 8];
        let wrapped = u64::MAX;
        runs.extend(vec![
            lab.failure(&format!("m:B18- m:R26={wrapped}"), 'm', &[25]);
            3
        ]);
        lab.catalogue.branches[0].of_library = true;
        assert!(best(&mut lab, &runs).starts_with("value 26"));
    }

    /// Line 84 adds what is padded to the place in the archive that is read at line 25, where the failure was noticed.
    #[test]
    fn what_the_writer_of_a_bad_value_read_comes_before_the_write() {
        let mut lab = Lab::new(
            &[('m', "main")],
            &[("r->at", Shape::Unsigned), ("m->padded", Shape::Unsigned)],
        );
        let mut runs = vec![lab.success("m:W73=5 m:R84=512@m->padded m:W84=517 m:W73=520 m:R25=520"); 8];
        runs.extend(vec![
            lab.failure(
                "m:W73=5 m:R84=0@m->padded m:W84=5 m:R25=5",
                'm',
                &[30]
            );
            3
        ]);
        assert_eq!(best(&mut lab, &runs), "value 84 Zero Ever");
    }
}

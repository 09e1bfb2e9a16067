//! Which of two explanations says more, of an order and of a pattern that it is in.

use super::{Ranked, SEVERAL};
use crate::predictor::{Actor, Predictor};

/// Puts a pattern first that explains the failure beside an order in it which explains it, too, and is the best one.
///
/// Where an interleaving may end well, because there is enough for both threads, neither has all runs on its side: which of the two a few
/// more successful runs had is chance, and both were in every failing run. The longer one says what was torn.
pub(super) fn put_the_longer_first(ranked: &mut [Ranked]) {
    let Some(best) = ranked.first() else { return };
    let Predictor::Order {
        location,
        first,
        second,
        ..
    } = &best.predictor
    else {
        return;
    };
    if !best.explains || best.counts.successful_with == 0 {
        return;
    }
    let contains = |other: &Ranked| {
        let Predictor::Atomicity {
            location: at,
            first: a,
            between: b,
            second: c,
            ..
        } = &other.predictor
        else {
            return false;
        };
        let inside: [(&Actor, &Actor); 2] = [(a, b), (b, c)];
        at == location && inside.contains(&(first, second))
    };
    let in_all = |other: &Ranked| {
        other.counts.failing_with >= SEVERAL && other.counts.failing_with == other.counts.failing
    };
    let is_longer = |other: &Ranked| other.explains && contains(other) && in_all(other);
    let no_worse = |other: &Ranked| !best.counts.is_rarer_than(&other.counts);
    let longer = ranked
        .iter()
        .position(|other| is_longer(other) && no_worse(other));
    if let Some(at) = longer {
        ranked[..=at].rotate_right(1);
    }
}

#[cfg(test)]
mod tests {
    use crate::run::Shape;
    use crate::testkit::Lab;

    /// Two workers find enough memory free (86) before one of them takes it (92), or gives it back (100). Where there is enough for both,
    /// nothing happens.
    #[test]
    fn the_longer_of_two_that_may_end_well_comes_first() {
        let mut lab = Lab::new(
            &[('a', "work"), ('b', "work"), ('c', "work")],
            &[("this->free", Shape::Signed)],
        );
        let short = u64::MAX - 4;
        let mut runs = vec![lab.success("a:R86=60 a:RW92=60>35 b:R86=35 b:RW92=35>5"); 8];
        runs.push(lab.success("a:R86=60 b:R86=60 a:RW92=60>40 b:RW92=40>15"));
        runs.push(lab.success("a:R86=60 c:RW100=60>70 b:R86=70 b:RW92=70>50 a:RW92=50>15"));
        let failing = format!("a:R86=40 b:R86=40 a:RW92=40>20 b:RW92=20>{short}");
        runs.extend(vec![lab.failure(&failing, 'b', &[94]); 4]);
        let (_, ranked) = lab.rank(&runs);
        assert_eq!(lab.describe(&ranked[0]), "RWW 86 92 92");
    }
}

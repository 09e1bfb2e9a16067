//! Which of two orders that are each other's reverse explains the failure.

use super::{NEARLY_ALL, Ranked, SEVERAL};
use crate::predictor::Predictor;

/// Puts the order first that ends with what the failing thread met, where nearly all failing runs had it both ways.
///
/// A thread that reads again and again has read before the write as well as after it, and it fails of what it met last. One run in which that
/// was not seen makes no difference.
pub(super) fn put_what_was_met_first(ranked: &mut [Ranked]) {
    let Some(best) = ranked.first().filter(|best| best.explains) else {
        return;
    };
    let Predictor::Order {
        location,
        first,
        second,
        ..
    } = &best.predictor
    else {
        return;
    };
    let is_reverse = |other: &Ranked| {
        matches!(&other.predictor, Predictor::Order { location: at, first: one, second: two, .. }
            if (at, one, two) == (location, second, first))
    };
    let is_met = |other: &Ranked| best.came_before(other) && !other.standing.ends_elsewhere;
    let turned = ranked.iter().position(|other| {
        let counts = &other.counts;
        let often = counts.failing_with >= SEVERAL && counts.f_at_least(NEARLY_ALL);
        is_reverse(other) && other.explains && is_met(other) && often
    });
    if let Some(at) = turned {
        ranked[..=at].rotate_right(1);
    }
}

#[cfg(test)]
mod tests {
    use crate::run::Shape;
    use crate::testkit::Lab;

    /// A worker looks at a table again and again (110), and closing gives it back (138). Once the last look was not seen.
    #[test]
    fn a_thread_fails_of_what_it_met_and_not_of_what_it_had_met_before() {
        let mut lab = Lab::new(
            &[('m', "main"), ('w', "worker")],
            &[("this->imm_", Shape::Pointer)],
        );
        let mut runs = vec![lab.success("w:R110=7 w:W112=0 m:W138=0"); 3];
        runs.extend(vec![lab.success("m:W138=0 w:W112=7 w:R110=7"); 3]);
        for turn in 0..6 {
            let met = if turn == 0 { "" } else { "w:R110=0" };
            runs.push(lab.failure(&format!("w:R110=7 m:W138=0 {met}"), 'w', &[111]));
        }
        let (_, ranked) = lab.rank(&runs);
        let said: Vec<String> = ranked.iter().map(|ranked| lab.describe(ranked)).collect();
        assert_eq!(said[0], "WR 138 110", "{said:?}");
    }
}

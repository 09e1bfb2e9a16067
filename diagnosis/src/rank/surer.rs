//! Which of two equally good predictors of different locations is the surer one.

use super::{Class, NEARLY_ALL, Ranked, SEVERAL, Showing};

/// How many times less likely by chance a predictor is that goes before one as good of another location.
const MUCH_SURER: f64 = 4.0;

/// Whether one failing run showed it, and no other could have: what that one wrote or met there may be its own.
fn is_lone(ranked: &Ranked) -> bool {
    ranked.counts.failing == 1
}

/// Of two that were in all failing runs that could have shown them, and in no other, more runs may have been able to show one: two
/// of two are as many as five of five, and far more often by chance. So they are beside eight of ten, for an interleaving is not seen each time
/// that it happens. About one location the longer pattern says more all the
/// same, though fewer runs show all of it; and a pointer whose null was followed is no chance beside a number that nobody met.
pub(super) fn put_the_surer_first(ranked: &mut [Ranked]) {
    let Some(best) = ranked
        .first()
        .filter(|best| best.standing.class <= Class::Written || is_lone(best))
    else {
        return;
    };
    let (locations, chance) = (best.predictor.locations(), best.counts.chance());
    let of_few = best.explains && best.counts.failing < SEVERAL;
    let in_nearly_all = |other: &Ranked| {
        let counts = &other.counts;
        counts.failing_with >= SEVERAL && counts.successful_with == 0 && counts.f_at_least(NEARLY_ALL)
    };
    let as_good =
        |other: &Ranked| other.counts.compare_f(&best.counts).is_eq() || of_few && in_nearly_all(other);
    // Failing runs of one thread have the same input, and much else in common that few runs were asked about: who wrote what they all read.
    let alike = |other: &Ranked| match best.standing.class {
        _ if is_lone(best) && !best.explains => {
            other.says_something() && other.counts.failing_with >= SEVERAL
        }
        Class::Written => {
            other.standing.class == Class::Written
                || other.standing.class == Class::Value
                    && other.standing.shows_in_values == Showing::InPointer
        }
        class => {
            let (shows, best_shows) = (other.standing.shows_in_values, best.standing.shows_in_values);
            // Some number is in all of two runs anyway.
            let by_number = of_few && best_shows == Showing::InNumber;
            other.standing.class == class && (shows >= best_shows || by_number)
        }
    };
    let of_another = |other: &Ranked| {
        let of = other.predictor.locations();
        of.iter().all(|location| !locations.contains(location))
    };
    let others = ranked.iter().enumerate().filter(|(_, other)| as_good(other));
    let surer = others
        .filter(|(_, other)| of_another(other) && alike(other))
        .map(|(at, other)| (at, other.counts.chance()))
        .filter(|(_, of_other)| of_other * MUCH_SURER <= chance)
        .min_by(|(_, one), (_, other)| one.total_cmp(other));
    if let Some((at, _)) = surer {
        ranked[..=at].rotate_right(1);
    }
}

#[cfg(test)]
mod tests {
    use crate::run::Shape;
    use crate::testkit::Lab;

    /// Two of the five failing runs watched the queue's last block, too, and saw something that no successful run had.
    #[test]
    fn what_more_runs_say_comes_first() {
        let mut lab = Lab::new(
            &[('m', "main"), ('a', "consumer")],
            &[("q->mut", Shape::Pointer), ("q->last", Shape::Pointer)],
        );
        let mut runs = Vec::new();
        for turn in 0..5 {
            let in_order = match turn % 2 {
                0 => "a:W86=5@q->last m:R71=5@q->last m:R73=5@q->last a:W88=0@q->last",
                _ => "a:W86=5@q->last a:W88=0@q->last m:R71=0@q->last",
            };
            runs.push(lab.success(&format!("a:R82=5 m:W62=0 {in_order}")));
            let torn = "a:W86=5@q->last m:R71=5@q->last a:W88=0@q->last m:R73=0@q->last m:W62=0 a:R82=0";
            let mut run = lab.failure(torn, 'a', &[82]);
            if turn > 1 {
                run.watched.pop_last();
            }
            runs.push(run);
        }
        let (_, ranked) = lab.rank(&runs);
        let said: Vec<String> = ranked.iter().map(|ranked| lab.describe(ranked)).collect();
        assert_eq!(said[..2], ["WR 62 82", "RWR 71 88 73"]);
    }

    /// A permit is counted (40, 46) by two who do not see each other; in one of eight runs the second one was noticed late. Two of the runs
    /// watched a list's size, too.
    #[test]
    fn what_nearly_all_of_many_runs_show_comes_before_what_two_of_two_do() {
        let mut lab = Lab::new(
            &[('m', "main"), ('a', "crawl"), ('b', "crawl")],
            &[("in_use", Shape::Unsigned), ("pages", Shape::Unsigned)],
        );
        let mut runs = Vec::new();
        for turn in 0..8 {
            let pages = "a:R94=0@pages m:W94=4@pages";
            runs.push(lab.success(&format!("a:R40=0 a:W46=1 b:R40=1 b:W46=2 {pages}")));
            runs.push(lab.success(&format!("b:R40=0 b:W46=1 a:R40=1 a:W46=2 {pages}")));
            let torn = match turn {
                0 => "a:R40=0 a:W46=1",
                _ => "a:R40=0 b:R40=0 b:W46=1 a:W46=1",
            };
            let text = format!("{torn} m:W94=4@pages a:R94=4@pages");
            let mut run = lab.failure(&text, 'a', &[57]);
            if turn > 1 {
                run.watched.pop_last();
                run.events.truncate(run.events.len() - 2);
            }
            runs.push(run);
        }
        let (_, ranked) = lab.rank(&runs);
        let said: Vec<String> = ranked.iter().map(|ranked| lab.describe(ranked)).collect();
        assert_eq!(said[0], "RWW 40 46 46", "{said:?}");
    }

    /// All failing runs have the same input, and the function that looks for a name finds nothing. What else they have in common few were
    /// asked about.
    #[test]
    fn a_null_that_all_runs_were_asked_about_comes_before_who_wrote_something_else() {
        let mut lab = Lab::new(
            &[('m', "main")],
            &[("find()", Shape::Pointer), ("scope->end", Shape::Pointer)],
        );
        let mut runs = Vec::new();
        for turn in 0..5 {
            for _ in 0..8 {
                let mut run = lab.success("m:R30=7@scope->end m:R60=5");
                if turn > 1 {
                    run.watched.pop_last();
                    run.events.remove(0);
                }
                runs.push(run);
            }
            let mut run = lab.failure("m:W20=7@scope->end m:R30=7@scope->end m:R60=0", 'm', &[80]);
            if turn > 2 {
                run.watched.pop_last();
                run.events.drain(..2);
            }
            runs.push(run);
        }
        let (_, ranked) = lab.rank(&runs);
        let said: Vec<String> = ranked.iter().map(|ranked| lab.describe(ranked)).collect();
        assert!(said[0].contains("60"), "{said:?}");
        assert!(said.iter().any(|said| said.contains("20")), "{said:?}");
    }

    /// Four failing runs read a negative target (66); one of them also saw what a library copied (11) of what had been written (23).
    #[test]
    fn what_several_runs_met_comes_before_what_one_of_them_was_asked_about() {
        let mut lab = Lab::new(
            &[('m', "main")],
            &[("op->p2", Shape::Signed), ("op->p1", Shape::Signed)],
        );
        let negative = u64::MAX;
        let mut runs = vec![lab.success("m:R66=5 m:W23=0@op->p1 m:R63=0@op->p1"); 12];
        for turn in 0..4 {
            let text = format!("m:W23=9@op->p1 m:R11=9@op->p1 m:R66={negative}");
            let mut run = lab.failure(&text, 'm', &[67]);
            if turn > 0 {
                run.watched.pop_last();
                run.events.drain(..2);
            }
            runs.push(run);
        }
        let (_, ranked) = lab.rank(&runs);
        let said: Vec<String> = ranked.iter().map(|ranked| lab.describe(ranked)).collect();
        assert!(said[0].contains("66"), "{said:?}");
    }
}

//! Which steps belong together: the steps of a predictor's pattern, and the arrows between them.

use diagnosis::sketch::{Predictor, PredictorKind, PredictorStatement, Sketch, Step};

use super::view::same_place;
use super::words::DEADLOCK;

/// The steps of a predictor's pattern, one for each of its statements where the sketch has it: the last ones that
/// stand in the pattern's order, because a race that failed is the last one. Threads that wait for one another came there
/// in any order.
#[must_use]
pub fn pattern_steps(sketch: &Sketch, predictor: &Predictor) -> Vec<Option<usize>> {
    let in_order = predictor.pattern.as_deref() != Some(DEADLOCK);
    let mut found = Vec::with_capacity(predictor.statements.len());
    let mut end = sketch.steps.len();
    for wanted in predictor.statements.iter().rev() {
        let step = last_step(sketch, predictor, wanted, end);
        if in_order {
            end = step.unwrap_or(end);
        }
        found.push(step);
    }
    found.reverse();
    found
}

/// The last step before `end` that is an access of a pattern; one that is marked as such, if there is one.
fn last_step(
    sketch: &Sketch,
    predictor: &Predictor,
    wanted: &PredictorStatement,
    end: usize,
) -> Option<usize> {
    let fits = |step: &Step| {
        let role = role_of(sketch, step.thread);
        same_place(&step.statement, &wanted.statement)
            && role.is_none_or(|role| role == wanted.thread_role)
            && (step.access.is_none() || wanted.access.is_none() || step.access == wanted.access)
    };
    let before = sketch.steps.get(..end)?.iter().enumerate().rev();
    let mut candidates = before.filter(|(_, step)| fits(step));
    let marked = candidates
        .clone()
        .find(|(_, step)| step.predictor == Some(predictor.rank));
    marked.or_else(|| candidates.next()).map(|(index, _)| index)
}

fn role_of(sketch: &Sketch, thread: u32) -> Option<&str> {
    let thread = sketch.threads.iter().find(|known| known.id == thread)?;
    thread.role.as_deref()
}

/// From which step to which an arrow goes, for the best order or atomicity predictor: from each access to the next; in a
/// deadlock, from where a thread waits to where another got what it waits for.
#[must_use]
pub fn arrows(sketch: &Sketch) -> Vec<(usize, usize)> {
    let of_threads =
        |predictor: &&Predictor| matches!(predictor.kind, PredictorKind::Order | PredictorKind::Atomicity);
    let Some(best) = sketch.predictors.iter().find(of_threads) else {
        return Vec::new();
    };
    let steps = pattern_steps(sketch, best);
    if best.pattern.as_deref() == Some(DEADLOCK) {
        if waits(best).is_empty() {
            return Vec::new();
        }
        let (held, waits) = steps.split_at(steps.len() / 2);
        let pairs = waits.iter().zip(held);
        return pairs.filter_map(|(&wait, &held)| wait.zip(held)).collect();
    }
    let steps: Vec<usize> = steps.into_iter().flatten().collect();
    steps.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Of a deadlock, where each thread waits, and where what it waits for was got. A deadlock has all that is held first, then the
/// waits for it in the same order: whoever has what one waits for is the next to wait. Where something is missing, nobody can
/// say which wait is for what: then there are none.
#[must_use]
pub fn waits(predictor: &Predictor) -> Vec<(&PredictorStatement, &PredictorStatement)> {
    let statements = predictor.statements.as_slice();
    let (held, waits) = statements.split_at(statements.len() / 2);
    let next = waits.iter().cycle().skip(1);
    let mut around = held.iter().zip(next);
    let complete = held.len() == waits.len()
        && (held.len() == 1
            || predictor.predicate.is_none()
                && around.all(|(held, next)| held.thread_role == next.thread_role));
    if complete && predictor.pattern.as_deref() == Some(DEADLOCK) {
        waits.iter().zip(held).collect()
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnosis::sketch::{RunsBehind, StatementRef, Thread};

    fn at(function: &str, line: u32) -> StatementRef {
        StatementRef {
            function: function.to_owned(),
            file: Some("a.c".to_owned()),
            line: Some(line),
            ..StatementRef::default()
        }
    }

    fn sketch(pattern: &str, steps: &[(u32, u32)], statements: &[(&str, u32)]) -> Sketch {
        let roles = ["left", "right"];
        let thread = |id: u32| Thread {
            id,
            role: Some(roles[id as usize].to_owned()),
            label: None,
        };
        let by = |&(role, line): &(&str, u32)| PredictorStatement {
            statement: at(role, line),
            thread_role: role.to_owned(),
            access: None,
        };
        let step = |(n, &(thread, line)): (u32, &(u32, u32))| Step {
            n,
            thread,
            statement: at(roles[thread as usize], line),
            ..Step::default()
        };
        Sketch {
            threads: vec![thread(0), thread(1)],
            steps: (0..).zip(steps).map(step).collect(),
            predictors: vec![Predictor {
                rank: 1,
                kind: PredictorKind::Order,
                pattern: Some(pattern.to_owned()),
                variable: None,
                predicate: None,
                statements: statements.iter().map(by).collect(),
                missing: Vec::new(),
                f: 1.0,
                precision: 1.0,
                recall: 1.0,
                precision_interval: [0.0, 1.0],
                recall_interval: [0.0, 1.0],
                failing_with: 1,
                failing: 1,
                successful_with: 0,
                successful: 1,
                examples: None,
                runs: RunsBehind::default(),
            }],
            ..Sketch::default()
        }
    }

    #[test]
    fn an_order_goes_from_access_to_access() {
        let steps = [(0, 5), (1, 7), (0, 5), (1, 7)];
        let found = sketch("WR", &steps, &[("left", 5), ("right", 7)]);
        assert_eq!(arrows(&found), [(2, 3)], "the last ones");
    }

    /// Whoever waits points to where the other took the lock, whichever came first.
    #[test]
    fn a_deadlock_goes_from_the_wait_to_the_holder() {
        let steps = [(1, 20), (0, 10), (1, 21), (0, 11)];
        let statements = [("left", 10), ("right", 20), ("right", 21), ("left", 11)];
        assert_eq!(arrows(&sketch(DEADLOCK, &steps, &statements)), [(2, 1), (3, 0)]);
    }

    #[test]
    fn what_is_held_nobody_knows_since_when_has_no_arrow() {
        let steps = [(0, 10), (1, 21), (0, 11)];
        let statements = [("left", 10), ("right", 21), ("left", 11)];
        assert_eq!(arrows(&sketch(DEADLOCK, &steps, &statements)), []);
        let statements = [("left", 10), ("left", 11), ("right", 21), ("left", 11)];
        assert_eq!(arrows(&sketch(DEADLOCK, &steps, &statements)), []);
    }
}

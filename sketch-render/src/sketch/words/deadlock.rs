//! Threads that do not go on, in a sentence.

use diagnosis::sketch::{ENDED, ITSELF, Predictor, PredictorStatement, SIGNAL};

use super::{Phrase, role};

/// Who waits for whom, over which locks.
pub(super) fn phrase(predictor: &Predictor, locks: Option<String>) -> Phrase {
    let over = |phrase: Phrase, otherwise: &str| match &locks {
        Some(locks) => phrase.code(locks.clone()),
        None => phrase.text(otherwise),
    };
    let say = Phrase::default;
    let statements = predictor.statements.as_slice();
    match (predictor.predicate.as_deref(), statements) {
        (Some(ITSELF), [.., waiting]) => {
            let phrase = over(say().text(format!("{} waits for ", role(waiting))), "a lock");
            phrase.text(", which it has taken itself")
        }
        (Some(ENDED), [.., waiting]) => {
            let phrase = over(say().text(format!("{} waits for ", role(waiting))), "a lock");
            let taker = match statements {
                [taker, _] => role(taker),
                _ => "a thread".to_owned(),
            };
            phrase.text(format!(
                ", which {taker} took and did not give back before it ended"
            ))
        }
        (Some(SIGNAL), [.., waiting, holder]) => {
            let phrase = over(say().text(format!("{} waits for ", role(waiting))), "a lock");
            phrase.text(format!(", which {} has, who waits for a signal", role(holder)))
        }
        _ => {
            let phrase = say().text(format!("{} wait for one another", kinds(statements)));
            match &locks {
                Some(_) => over(phrase.text(" over "), ""),
                None => phrase,
            }
        }
    }
}

/// The kinds of threads, each once: a thread of a deadlock has one lock and wants another.
fn kinds(statements: &[PredictorStatement]) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for statement in statements {
        let kind = role(statement);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    match kinds.as_slice() {
        [one] => format!("threads that run {one}"),
        several => several.join(" and "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnosis::sketch::{PredictorKind, RunsBehind, StatementRef};

    fn predictor(predicate: Option<&str>, roles: &[&str]) -> Predictor {
        let by = |role: &&str| PredictorStatement {
            statement: StatementRef::default(),
            thread_role: (*role).to_owned(),
            access: None,
        };
        Predictor {
            rank: 1,
            kind: PredictorKind::Order,
            pattern: Some("deadlock".to_owned()),
            variable: None,
            predicate: predicate.map(str::to_owned),
            statements: roles.iter().map(by).collect(),
            missing: Vec::new(),
            f: 1.0,
            precision: 1.0,
            recall: 1.0,
            precision_interval: [0.0, 1.0],
            recall_interval: [0.0, 1.0],
            failing_with: 1,
            failing: 1,
            successful_with: 0,
            successful: 0,
            examples: None,
            runs: RunsBehind::default(),
        }
    }

    fn said(predicate: Option<&str>, roles: &[&str]) -> String {
        phrase(&predictor(predicate, roles), Some("box->lock".to_owned())).plain()
    }

    #[test]
    fn whoever_has_the_lock_is_named() {
        assert_eq!(
            said(None, &["fill", "take", "take", "fill"]),
            "fill and take wait for one another over `box->lock`"
        );
        assert_eq!(
            said(Some(ITSELF), &["fill", "fill"]),
            "fill waits for `box->lock`, which it has taken itself"
        );
        assert_eq!(
            said(Some(ENDED), &["fill", "take"]),
            "take waits for `box->lock`, which fill took and did not give back before it ended"
        );
        assert_eq!(
            said(Some(SIGNAL), &["fill", "take", "fill"]),
            "take waits for `box->lock`, which fill has, who waits for a signal"
        );
        let unseen = phrase(&predictor(Some(ENDED), &["take"]), None).plain();
        assert_eq!(
            unseen,
            "take waits for a lock, which a thread took and did not give back before it ended"
        );
    }
}

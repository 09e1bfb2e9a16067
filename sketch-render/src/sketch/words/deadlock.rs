//! Threads that do not go on, in a sentence.

use diagnosis::sketch::{ENDED, ITSELF, Predictor, PredictorStatement, SIGNAL};

use super::{NAME, Phrase, role};
use crate::sketch::names::short;

/// Who waits for whom, over which locks.
pub(super) fn phrase(predictor: &Predictor) -> Phrase {
    let locks = predictor.variable.as_deref().map(names);
    let over = |phrase: Phrase, otherwise: &str| match &locks {
        Some(locks) => listed_code(phrase, locks),
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

/// The names of several locks.
fn names(variables: &str) -> Vec<String> {
    variables.split(", ").map(|name| short(name, NAME)).collect()
}

/// The same as code, and of many only how many more there are.
fn listed_code(mut phrase: Phrase, names: &[String]) -> Phrase {
    const MOST: usize = 4;
    let (shown, more) = match names.len() {
        many if many > MOST => (MOST - 1, many + 1 - MOST),
        few => (few, 0),
    };
    for (at, name) in names.iter().take(shown).enumerate() {
        let between = match at {
            0 => "",
            _ if more == 0 && at + 1 == shown => " and ",
            _ => ", ",
        };
        phrase = phrase.text(between).code(name.clone());
    }
    match more {
        0 => phrase,
        more => phrase.text(format!(" and {more} more")),
    }
}

/// `feed, wet and ink`.
fn listed(names: &[String]) -> String {
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
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
        several => listed(several),
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
        let over = Some("box->lock".to_owned());
        phrase(&Predictor {
            variable: over,
            ..predictor(predicate, roles)
        })
        .plain()
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
        let unseen = phrase(&predictor(Some(ENDED), &["take"])).plain();
        assert_eq!(
            unseen,
            "take waits for a lock, which a thread took and did not give back before it ended"
        );
    }

    #[test]
    fn many_threads_and_locks_are_a_list() {
        let many = Predictor {
            variable: Some("a, b, c, d, e".to_owned()),
            ..predictor(None, &["feed", "wet", "ink", "feed", "wet", "ink"])
        };
        assert_eq!(
            phrase(&many).plain(),
            "feed, wet and ink wait for one another over `a`, `b`, `c` and 2 more"
        );
        let two = Predictor {
            variable: Some("a, b".to_owned()),
            ..many
        };
        assert!(phrase(&two).plain().ends_with("over `a` and `b`"));
    }
}

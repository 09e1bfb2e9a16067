//! The sketch in plain language.

mod deadlock;

use diagnosis::sketch::{
    LAST_READ, Predictor, PredictorKind, PredictorStatement, READ_BY, Sketch, Step, Value,
};

use super::arrows::pattern_steps;
use super::names::short;
use super::view;
use crate::text::plain_start;

/// Columns of a name inside a sentence.
const NAME: usize = 60;

/// The role of a thread of which nothing is known.
const UNKNOWN: &str = "??";

/// The pattern of threads that wait for one another.
pub(super) const DEADLOCK: &str = "deadlock";

/// A part of a sentence: forms that can show code as code do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Words.
    Text(String),
    /// A name or an expression of the program.
    Code(String),
}

/// A sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phrase(pub Vec<Piece>);

impl Phrase {
    fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(Piece::Text(text.into()));
        self
    }

    fn code(mut self, code: impl Into<String>) -> Self {
        self.0.push(Piece::Code(code.into()));
        self
    }

    fn variable(self, name: Option<String>) -> Self {
        match name {
            Some(name) => self.code(name),
            None => self.text("memory without a name"),
        }
    }

    /// ` to null`, where it is known to what.
    fn to(self, value: Option<String>) -> Self {
        match value {
            Some(value) => self.text(format!(" to {value}")),
            None => self,
        }
    }

    /// With code between backticks.
    #[must_use]
    pub fn plain(&self) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Code(code) => format!("`{code}`"),
        });
        pieces.collect()
    }
}

/// What happened, in one sentence: "worker read `ch->slot` after main had set it to null (17 of 17 failing runs, 0 of
/// 212 successful)". What chance may have made is said to be no more than that.
#[must_use]
pub fn sentence(sketch: &Sketch) -> Phrase {
    let (what, Phrase(mut rest)) = headline(sketch);
    let best = sketch.predictors.first().filter(|best| convinces(best));
    let between = if best.is_some() { " (" } else { "; " };
    let mut sentence = what.text(between);
    sentence.0.append(&mut rest);
    match best {
        Some(_) => sentence.text(")"),
        None => sentence,
    }
}

/// The same in two: what happened, and what speaks for it.
#[must_use]
pub fn headline(sketch: &Sketch) -> (Phrase, Phrase) {
    let (failing, successful) = (sketch.runs.failing, sketch.runs.successful);
    let said = |text: String| (failure(sketch), Phrase::default().text(text));
    match (sketch.predictors.first(), failing, successful) {
        (Some(best), ..) if convinces(best) => {
            (predictor(sketch, best), Phrase::default().text(counts(best)))
        }
        (_, 0, 0) => said("no run was watched".to_owned()),
        (_, 0, watched) => said(format!("it has not recurred in {watched} watched runs")),
        (_, watched, 0) => said(format!("so it was in all of {watched} watched runs")),
        (Some(best), ..) => {
            let (what, mut rest) = said(format!(
                "nothing clearly separates the {failing} failing from the {successful} successful runs yet, at best this: "
            ));
            rest.0.extend(predictor(sketch, best).0);
            (what, rest.text(format!(" ({})", counts(best))))
        }
        (None, ..) => said(format!(
            "nothing separates the {failing} failing from the {successful} successful runs yet"
        )),
    }
}

/// Whether a predictor is more than chance may make of so few runs. Threads that wait for one another need no comparison.
#[must_use]
pub fn convinces(predictor: &Predictor) -> bool {
    predictor.pattern.as_deref() == Some(DEADLOCK) || predictor.counts().convince()
}

/// The failure alone.
fn failure(sketch: &Sketch) -> Phrase {
    let failing = sketch.steps.iter().find(|step| step.failing);
    let lanes = view::lanes(sketch);
    let has_role = |step: &&Step| {
        let thread = sketch.threads.iter().find(|thread| thread.id == step.thread);
        thread.is_some_and(|thread| thread.role.is_some())
    };
    let failing = failing.filter(has_role);
    let who = failing
        .and_then(|step| lanes.iter().find(|lane| lane.thread == step.thread))
        .map_or_else(|| "The program".to_owned(), |lane| lane.name.clone());
    let phrase = Phrase::default().text(who);
    let phrase = match sketch.failure.kind.as_str() {
        "hang" => phrase.text(" does not go on"),
        "signal" => phrase.text(format!(" died of {}", view::failure_kind(sketch))),
        "assertion" => phrase.text(" failed an assertion"),
        "abort" => phrase.text(" aborted"),
        "exit-status" => phrase.text(" ended with a status that counts as a failure"),
        _ => phrase.text(" failed"),
    };
    match &sketch.failure.statement {
        Some(statement) => phrase
            .text(" at ")
            .code(short(&statement.function, NAME))
            .text(format!(" ({})", view::place(statement))),
        None => phrase,
    }
}

/// `17 of 17 failing runs, 0 of 212 successful`.
#[must_use]
pub fn counts(predictor: &Predictor) -> String {
    let failing = format!("{} of {} failing runs", predictor.failing_with, predictor.failing);
    match predictor.successful {
        0 => format!("{failing}, no successful run to compare with"),
        successful => format!(
            "{failing}, {} of {successful} successful",
            predictor.successful_with
        ),
    }
}

/// What a predictor says, without its counts.
#[must_use]
pub fn predictor(sketch: &Sketch, predictor: &Predictor) -> Phrase {
    match predictor.kind {
        PredictorKind::Branch => branch(predictor),
        PredictorKind::Value => value(predictor),
        PredictorKind::Order | PredictorKind::Atomicity => accesses(sketch, predictor),
    }
}

fn branch(predictor: &Predictor) -> Phrase {
    let predicate = plain_start(predictor.predicate.as_deref().unwrap_or("decided"), NAME);
    let went = if predicate.starts_with("to ") {
        format!("went {predicate}")
    } else {
        format!("was {predicate}")
    };
    let Some(at) = predictor.statements.first() else {
        return Phrase::default().text(format!("a branch {went}"));
    };
    Phrase::default()
        .text("the branch ")
        .code(short(&view::code(&at.statement), NAME))
        .text(" in ")
        .code(short(&at.statement.function, NAME))
        .text(format!(" ({}) {went}", view::place(&at.statement)))
}

fn value(predictor: &Predictor) -> Phrase {
    const LAST: &str = " (last)";
    let variable = predictor.variable.as_deref().map(|name| short(name, NAME));
    if let Some(((what, reader), at)) = predictor
        .predicate
        .as_deref()
        .and_then(|predicate| predicate.split_once(READ_BY))
        .zip(predictor.statements.first())
    {
        let what = match what.trim_end().strip_prefix("!= ") {
            Some("NULL") => " to something else than null".to_owned(),
            Some(other) => format!(" to something else than {}", plain_start(other, NAME)),
            None => String::new(),
        };
        return Phrase::default()
            .text(format!("{} set ", role(at)))
            .variable(variable)
            .text(format!("{what} in "))
            .code(short(&at.statement.function, NAME))
            .text(format!(
                " ({}), and read that in {}",
                view::place(&at.statement),
                plain_start(reader, NAME)
            ));
    }
    let predicate = plain_start(predictor.predicate.as_deref().unwrap_or("unusual"), NAME);
    let (predicate, found) = match predicate.strip_suffix(LAST) {
        Some(predicate) => (predicate.to_owned(), "last found"),
        None => (predicate, "found"),
    };
    let at = predictor.statements.first();
    let phrase = match at {
        Some(at) => Phrase::default().text(format!("{} {found} ", role(at))),
        None => Phrase::default(),
    };
    let operator = predicate.starts_with(|c: char| c.is_ascii_punctuation());
    let phrase = match (variable, operator) {
        (Some(variable), true) => phrase.code(format!("{variable} {predicate}")),
        (Some(variable), false) => phrase.code(variable).text(format!(" {predicate}")),
        (None, _) => phrase.text("memory without a name ").code(predicate),
    };
    match at {
        Some(at) => phrase
            .text(" in ")
            .code(short(&at.statement.function, NAME))
            .text(format!(" ({})", view::place(&at.statement))),
        None => phrase,
    }
}

fn accesses(sketch: &Sketch, predictor: &Predictor) -> Phrase {
    let variable = predictor.variable.as_deref().map(|name| short(name, NAME));
    let steps = pattern_steps(sketch, predictor);
    let to = |index: usize| {
        let step = steps.get(index).copied().flatten();
        let step = step.and_then(|index| sketch.steps.get(index))?;
        step.value
            .as_ref()
            .filter(|value| !is_address(value))
            .map(view::value)
    };
    let who = actors(predictor);
    let say = Phrase::default;
    let pattern = predictor.pattern.as_deref().unwrap_or_default();
    match (pattern, who.as_slice()) {
        ("-R", [.., reader]) => say()
            .text(format!("{reader} read "))
            .variable(variable)
            .text(format!(" before {} had set it", writer(predictor))),
        ("WR", [writer, reader]) => say()
            .text(format!("{reader} read "))
            .variable(variable)
            .text(format!(" after {writer} had set it"))
            .to(to(0)),
        ("RW", [reader, writer]) if predictor.predicate.as_deref() == Some(LAST_READ) => say()
            .text(format!("{reader} last read "))
            .variable(variable)
            .text(format!(" before {writer} set it"))
            .to(to(1))
            .text(", and waits"),
        ("RW", [reader, writer]) => say()
            .text(format!("{reader} read "))
            .variable(variable)
            .text(format!(" before {writer} had set it"))
            .to(to(1)),
        ("WW", [first, last]) => say()
            .text(format!("{last} set "))
            .variable(variable)
            .to(to(1))
            .text(format!(" after {first} had set it"))
            .to(to(0)),
        ("RWR", [reader, writer, _]) => say()
            .text(format!("{reader} read "))
            .variable(variable)
            .text(format!(" twice, and {writer} set it"))
            .to(to(1))
            .text(" in between"),
        ("WWR", [owner, other, _]) => say()
            .text(format!("{owner} set "))
            .variable(variable)
            .to(to(0))
            .text(format!(" and read it back after {other} had set it"))
            .to(to(1)),
        ("RWW", [owner, other, again]) => say()
            .text(format!("{owner} read "))
            .variable(variable)
            .text(format!(", {other} set it"))
            .to(to(1))
            .text(format!(", and {again} then set it"))
            .to(to(2)),
        ("WRW", [writer, reader, _]) => say()
            .text(format!("{reader} read "))
            .variable(variable)
            .text(format!(" between two writes of {writer}")),
        ("WRR", [writer, reader, _]) => say()
            .text(format!("{reader} read "))
            .variable(variable)
            .text(format!(" when {writer} had changed only a part of them")),
        (DEADLOCK, [_, ..]) => deadlock::phrase(predictor),
        _ => say()
            .text(format!("{} accessed ", who.join(", ")))
            .variable(variable)
            .text(format!(" in the order {}", plain_start(pattern, NAME))),
    }
}

/// Whether a value is an address: the next run has another one, and what is said is said of all of them.
fn is_address(value: &Value) -> bool {
    matches!(value, Value::Text(text) if text.starts_with("0x") && text != "0x0")
}

/// Who sets the variable first in successful runs.
fn writer(predictor: &Predictor) -> String {
    let first = predictor.missing.first();
    let all_the_same = predictor
        .missing
        .iter()
        .all(|write| Some(&write.thread_role) == first.map(|first| &first.thread_role));
    match first.filter(|_| all_the_same) {
        Some(write) if is_known(&write.thread_role) => one(&role(write)),
        _ => "any other thread".to_owned(),
    }
}

fn role(statement: &PredictorStatement) -> String {
    match statement.thread_role.as_str() {
        role if is_known(role) => view::role(role, NAME),
        _ => "thread of unknown start".to_owned(),
    }
}

/// A thread of a role that is no name takes an article.
fn one(role: &str) -> String {
    match role {
        role if role.contains(' ') || role == view::LAMBDA => format!("a {role}"),
        role => role.to_owned(),
    }
}

/// Whether a role says which kind of thread it is.
fn is_known(role: &str) -> bool {
    !role.is_empty() && role != UNKNOWN
}

/// The threads of a pattern by their roles. Two threads of one role are one and another; the third access of an
/// atomicity violation is the first thread's again.
fn actors(predictor: &Predictor) -> Vec<String> {
    let roles: Vec<String> = predictor.statements.iter().map(role).collect();
    let same = roles.len() > 1 && roles.iter().all(|role| Some(role) == roles.first());
    let name = |(index, role): (usize, &String)| match (same, index) {
        (false, _) => one(role),
        (true, 0) => format!("one {role}"),
        (true, 1) => format!("another {role}"),
        (true, _) => "the first".to_owned(),
    };
    roles.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnosis::sketch::{Failure, Runs, RunsBehind, StatementRef};

    /// A sketch whose best predictor held in so many of the failing and of the successful runs.
    fn sketch(pattern: &str, failing: (u64, u64), successful: (u64, u64)) -> Sketch {
        let actor = || PredictorStatement {
            statement: StatementRef::default(),
            thread_role: "worker".to_owned(),
            access: None,
        };
        let best = Predictor {
            rank: 1,
            kind: PredictorKind::Order,
            pattern: Some(pattern.to_owned()),
            variable: Some("count".to_owned()),
            predicate: None,
            statements: vec![actor(), actor()],
            missing: Vec::new(),
            f: 0.0,
            precision: 0.0,
            recall: 0.0,
            precision_interval: [0.0, 1.0],
            recall_interval: [0.0, 1.0],
            failing_with: failing.0,
            failing: failing.1,
            successful_with: successful.0,
            successful: successful.1,
            examples: None,
            runs: RunsBehind::default(),
        };
        Sketch {
            failure: Failure {
                kind: "hang".to_owned(),
                ..Failure::default()
            },
            runs: Runs {
                failing: failing.1,
                successful: successful.1,
                recurrences: failing.1,
            },
            predictors: vec![best],
            ..Sketch::default()
        }
    }

    #[test]
    fn a_cause_is_named_where_runs_show_it() {
        assert_eq!(
            sentence(&sketch("WR", (3, 3), (0, 14))).plain(),
            "another worker read `count` after one worker had set it (3 of 3 failing runs, 0 of 14 successful)"
        );
    }

    #[test]
    fn what_may_be_chance_is_said_to_be() {
        assert_eq!(
            sentence(&sketch("WR", (2, 2), (3, 4))).plain(),
            "The program does not go on; nothing clearly separates the 2 failing from the 4 successful runs yet, \
             at best this: another worker read `count` after one worker had set it (2 of 2 failing runs, 3 of 4 \
             successful)"
        );
        let alone = sentence(&sketch("WR", (9, 9), (0, 0))).plain();
        assert_eq!(
            alone,
            "The program does not go on; so it was in all of 9 watched runs"
        );
    }

    #[test]
    fn a_deadlock_needs_no_comparison() {
        let stuck = sentence(&sketch(DEADLOCK, (2, 2), (0, 0))).plain();
        assert!(
            stuck.starts_with("threads that run worker wait for one another"),
            "{stuck}"
        );
        let mut two = sketch(DEADLOCK, (2, 2), (0, 0));
        let statements = &mut two.predictors[0].statements;
        statements[1].thread_role = "saver".to_owned();
        let (first, last) = (statements[0].clone(), statements[1].clone());
        statements.extend([last, first]);
        let stuck = sentence(&two).plain();
        assert!(
            stuck.starts_with("worker and saver wait for one another"),
            "{stuck}"
        );
    }
}

//! Numbers of the catalogue as names and values for people.

use crate::evidence::Evidence;
use crate::predictor::{Actor, Ending, Predictor, Test, When};
use crate::rank::{Ranked, expected_writes};
use crate::run::{AccessKind, Catalogue, LocationId, Shape, StatementId, StatementInfo, Way};
use crate::sketch::{self, PredictorStatement, StatementRef, Value};

/// A statement by its names.
pub(super) fn statement(info: &StatementInfo) -> StatementRef {
    StatementRef {
        function: info.function.to_string(),
        file: info.file.as_deref().map(str::to_owned),
        line: info.line,
        pc: info.pc,
        text: info.text.as_deref().map(|text| text.trim().to_owned()),
        ..StatementRef::default()
    }
}

/// A value in the shape of its location.
pub(super) fn value(raw: u64, width: u32, shape: Shape) -> Value {
    let bits = width.clamp(1, 8) * 8;
    let raw = if bits == 64 { raw } else { raw & ((1 << bits) - 1) };
    match shape {
        Shape::Signed => Value::Integer((raw << (64 - bits)).cast_signed() >> (64 - bits)),
        Shape::Unknown | Shape::Unsigned | Shape::Bool => {
            i64::try_from(raw).map_or(Value::Large(raw), Value::Integer)
        }
        Shape::Pointer if raw == 0 => Value::Text("NULL".into()),
        Shape::Pointer => Value::Text(format!("{raw:#x}")),
        Shape::Float if bits == 32 => {
            Value::Float(f64::from(f32::from_bits(u32::try_from(raw).unwrap_or_default())))
        }
        Shape::Float if bits == 64 => Value::Float(f64::from_bits(raw)),
        Shape::Float => Value::Text(format!("{raw:#x}")),
    }
}

pub(super) fn variable(catalogue: &Catalogue, location: LocationId) -> Option<String> {
    let info = catalogue.locations.get(location.0 as usize)?;
    info.variable.as_deref().map(str::to_owned)
}

fn actor(catalogue: &Catalogue, actor: &Actor, access: Option<AccessKind>) -> PredictorStatement {
    PredictorStatement {
        statement: by_number(catalogue, actor.statement),
        thread_role: actor.role.to_string(),
        access,
    }
}

pub(super) fn by_number(catalogue: &Catalogue, id: StatementId) -> StatementRef {
    catalogue
        .statements
        .get(id.0 as usize)
        .map(statement)
        .unwrap_or_default()
}

/// A predictor for people, without its rank.
pub(super) fn predictor(catalogue: &Catalogue, evidence: &Evidence, ranked: &Ranked) -> sketch::Predictor {
    let Ranked {
        predictor, counts, ..
    } = ranked;
    let mut statements: Vec<PredictorStatement> = predictor
        .accesses()
        .into_iter()
        .map(|(who, _, access)| actor(catalogue, who, access))
        .collect();
    if let Predictor::Branch { branch, role, .. } = predictor
        && let Some(info) = catalogue.branches.get(branch.0 as usize)
    {
        statements.push(PredictorStatement {
            statement: by_number(catalogue, info.statement),
            thread_role: role.to_string(),
            access: None,
        });
    }
    let mut variables: Vec<String> = predictor
        .locations()
        .into_iter()
        .filter_map(|location| variable(catalogue, location))
        .collect();
    variables.dedup();
    let missing = match predictor {
        Predictor::Unwritten { location, read } => expected_writes(evidence, *location, read)
            .iter()
            .map(|who| actor(catalogue, who, Some(AccessKind::Write)))
            .collect(),
        _ => Vec::new(),
    };
    sketch::Predictor {
        rank: 0,
        kind: predictor.kind(),
        pattern: predictor.pattern().map(str::to_owned),
        variable: (!variables.is_empty()).then(|| variables.join(", ")),
        predicate: predicate(catalogue, predictor),
        statements,
        missing,
        f: counts.f(),
        precision: counts.precision(),
        recall: counts.recall(),
        precision_interval: counts.precision_interval(),
        recall_interval: counts.recall_interval(),
        failing_with: counts.failing_with,
        failing: counts.failing,
        successful_with: counts.successful_with,
        successful: counts.successful,
        examples: None,
        runs: evidence.behind(predictor),
    }
}

fn predicate(catalogue: &Catalogue, predictor: &Predictor) -> Option<String> {
    match predictor {
        Predictor::Branch { way, .. } => Some(match way {
            Way::Taken => "taken".to_owned(),
            Way::NotTaken => "not taken".to_owned(),
            Way::To(statement) => {
                let to = by_number(catalogue, *statement);
                match to.line {
                    Some(line) => format!("to {}:{line}", to.function),
                    None => format!("to {}", to.function),
                }
            }
        }),
        Predictor::Value {
            location, test, when, ..
        } => {
            let info = catalogue.locations.get(location.0 as usize);
            let shape = info.map_or(Shape::Unknown, |info| info.shape);
            let said = match test {
                Test::Zero if shape == Shape::Pointer => "== NULL".to_owned(),
                Test::Zero if shape == Shape::Bool => "== false".to_owned(),
                Test::Zero => "== 0".to_owned(),
                Test::Negative => "< 0".to_owned(),
                Test::Wrapped => format!(">= 2^{}", info.map_or(8, |info| info.width).clamp(1, 8) * 8 - 1),
                Test::ReadBy(read) => return Some(sketch::read_by(&by_number(catalogue, *read))),
                Test::NonZeroReadBy(read) => {
                    let something = match shape {
                        Shape::Pointer => "!= NULL",
                        Shape::Bool => "!= false",
                        _ => "!= 0",
                    };
                    let read = sketch::read_by(&by_number(catalogue, *read));
                    return Some(format!("{something} {read}"));
                }
                Test::Is(number) => match value(*number, info.map_or(8, |info| info.width), shape) {
                    Value::Integer(number) => format!("== {number}"),
                    _ => format!("== {number}"),
                },
            };
            Some(match when {
                When::Ever => said,
                When::Last => format!("{said} (last)"),
            })
        }
        Predictor::Missed { .. } => Some(sketch::LAST_READ.to_owned()),
        Predictor::Deadlock { waits, ending } => match ending {
            Ending::Cycle if waits.len() == 1 => Some(sketch::ITSELF.to_owned()),
            Ending::Cycle => None,
            Ending::Ended => Some(sketch::ENDED.to_owned()),
            Ending::Elsewhere => Some(sketch::SIGNAL.to_owned()),
        },
        _ => None,
    }
}

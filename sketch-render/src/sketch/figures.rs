//! What a predictor is and how sure it is, in a few words.

use diagnosis::sketch::{Predictor, PredictorKind};

use super::words;
use crate::text::plain_start;

/// `order WR`, `value`.
pub(super) fn kind(predictor: &Predictor) -> String {
    let kind = match predictor.kind {
        PredictorKind::Branch => "branch",
        PredictorKind::Value => "value",
        PredictorKind::Order => "order",
        PredictorKind::Atomicity => "atomicity",
    };
    match predictor.pattern.as_deref() {
        Some(words::DEADLOCK) => words::DEADLOCK.to_owned(),
        Some(pattern) => format!("{kind} {}", plain_start(pattern, 8)),
        None => kind.to_owned(),
    }
}

/// Counts, and how sure they make us.
pub(super) fn figures(predictor: &Predictor) -> String {
    format!(
        "{}; F {:.2}, precision {:.2} ({}), recall {:.2} ({})",
        words::counts(predictor),
        predictor.f,
        predictor.precision,
        interval(predictor.precision_interval),
        predictor.recall,
        interval(predictor.recall_interval)
    )
}

/// `0.82–1.00`.
pub(super) fn interval([low, high]: [f64; 2]) -> String {
    format!("{low:.2}–{high:.2}")
}

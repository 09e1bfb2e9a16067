//! The static sketch's JSON.

use diagnosis::sketch::Sketch;

use crate::model::StaticSketch;

/// A static sketch in the shape of every sketch: no run was watched, so there are no predictors, and every
/// step is inferred.
///
/// # Errors
/// Never, for values of these types; serialisation is fallible by its signature.
pub fn static_sketch(sketch: &StaticSketch) -> Result<String, serde_json::Error> {
    crate::sketch::json(&Sketch::from(sketch))
}

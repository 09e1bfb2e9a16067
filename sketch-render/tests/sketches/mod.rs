//! Sketches that were really made, and some by hand, after programs of the zoo: these have what hardly ever is in a sketch.

mod build;
mod large;
mod races;
mod recorded;

use diagnosis::sketch::Sketch;

pub use large::hostile;

/// Name and sketch.
pub fn all() -> Vec<(&'static str, Sketch)> {
    let by_hand = [
        ("order", races::order()),
        ("atomicity", races::atomicity()),
        ("hang", races::hang()),
        ("unknown-values", races::unknown_values()),
        ("gaps", races::gaps()),
        ("branch", races::branch()),
        ("missing-source", large::missing_source()),
        ("no-predictor", large::no_predictor()),
    ];
    by_hand.into_iter().chain(recorded::all()).collect()
}

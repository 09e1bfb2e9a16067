//! Sketches by hand, after programs of the zoo: between them they have everything that a sketch can have. And some that were
//! really made.

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
        ("six-threads", races::six_threads()),
        ("gaps", races::gaps()),
        ("branch", races::branch()),
        ("long-names", large::long_names()),
        ("missing-source", large::missing_source()),
        ("many-steps", large::many_steps()),
        ("no-predictor", large::no_predictor()),
    ];
    by_hand.into_iter().chain(recorded::all()).collect()
}

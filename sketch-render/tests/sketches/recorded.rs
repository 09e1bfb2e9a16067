//! Sketches that `failsketch run --json` made: of programs of the zoo, and of those in `tests/programs/sketches` that have what a
//! sketch may have much of (`record.py` makes the latter anew). Of frame-release no source was there to be read.

use diagnosis::sketch::Sketch;

macro_rules! recorded {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../golden/sketches/", $name, ".json")))),*]
    };
}

/// What a sketch says as JSON is what it was made from.
const RECORDED: [(&str, &str); 13] = recorded![
    "zoo-pbzip2-queue",
    "zoo-mysql-proc-info",
    "zoo-sqlite-lock-order",
    "zoo-memcached-incr",
    "zoo-apache-refcount",
    "zoo-curl-url-glob",
    "zoo-transmission-bandwidth",
    "zoo-frame-release",
    "six-threads",
    "partial-order",
    "many-steps",
    "template-names",
    "generic-names",
];

pub fn all() -> impl Iterator<Item = (&'static str, Sketch)> {
    RECORDED.into_iter().map(|(name, text)| {
        let sketch = serde_json::from_str(text);
        (name, sketch.expect("a recorded sketch can be read"))
    })
}

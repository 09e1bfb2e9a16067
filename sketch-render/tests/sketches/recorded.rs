//! Sketches that `failsketch run --json` made of programs of the zoo. Of frame-release no source was there to be read.

use diagnosis::sketch::Sketch;

macro_rules! recorded {
    ($($name:literal),* $(,)?) => {
        [$((concat!("zoo-", $name), include_str!(concat!("../golden/sketches/zoo-", $name, ".json")))),*]
    };
}

/// What a sketch says as JSON is what it was made from.
const RECORDED: [(&str, &str); 8] = recorded![
    "pbzip2-queue",
    "mysql-proc-info",
    "sqlite-lock-order",
    "memcached-incr",
    "apache-refcount",
    "curl-url-glob",
    "transmission-bandwidth",
    "frame-release",
];

pub fn all() -> impl Iterator<Item = (&'static str, Sketch)> {
    RECORDED.into_iter().map(|(name, text)| {
        let sketch = serde_json::from_str(text);
        (name, sketch.expect("a recorded sketch can be read"))
    })
}

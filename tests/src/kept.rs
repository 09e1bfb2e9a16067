//! Runs that `failsketch run --keep` left in a folder.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// The records, in the order of the runs.
///
/// # Panics
/// When they cannot be read.
#[must_use]
pub fn records<T: DeserializeOwned>(folder: &Path) -> Vec<T> {
    let entries = std::fs::read_dir(folder).expect("a folder of runs");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.file_name().is_some_and(|name| name != "series.json"))
        .collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let bytes = std::fs::read(path).expect("a run");
        serde_json::from_slice(&bytes).expect("the record of a run")
    };
    paths.iter().map(read).collect()
}

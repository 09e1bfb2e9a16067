//! Recorded runs in a folder, to be diagnosed again.
//!
//! `series.json` says what was run; `000001.json` and so on are the runs in the order in which they finished, which is
//! the order in which they were diagnosed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use diagnosis::record::RunRecord;
use serde::{Deserialize, Serialize};

/// The version of the format.
const VERSION: u32 = 1;
const SERIES: &str = "series.json";

/// What the runs of a folder have in common.
#[derive(Debug, Serialize, Deserialize)]
pub struct SeriesRecord {
    pub version: u32,
    /// The executable.
    pub executable: PathBuf,
    /// The number of statements that tracking began with.
    pub sigma: u32,
    /// The statement that failures are explained from, if somebody named one.
    pub at: Option<(String, u32)>,
    /// When to stop, if somebody said so.
    pub failures: Option<u64>,
    /// The run whose failure is looked into: the first that failed, or a later one.
    #[serde(default)]
    pub from: u64,
    /// Why no more runs were made.
    pub ended: Option<String>,
}

impl SeriesRecord {
    /// A series of this version.
    pub fn new(executable: PathBuf, sigma: u32, at: Option<(String, u32)>, failures: Option<u64>) -> Self {
        Self {
            version: VERSION,
            executable,
            sigma,
            at,
            failures,
            from: 0,
            ended: None,
        }
    }
}

/// A folder that is being filled.
pub struct Keeping {
    folder: PathBuf,
    series: SeriesRecord,
    kept: u64,
}

impl Keeping {
    /// Begins to fill a folder, which must have no series yet.
    pub fn begin(folder: &Path, series: SeriesRecord) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(SERIES);
        if path.exists() {
            bail!(
                "{} has recorded runs already: give another folder, or remove it",
                folder.display()
            );
        }
        write(&path, &serde_json::to_vec_pretty(&series)?)?;
        Ok(Self {
            folder: folder.to_owned(),
            series,
            kept: 0,
        })
    }

    /// Keeps a run.
    pub fn keep(&mut self, record: &RunRecord) -> Result<()> {
        self.kept += 1;
        let path = self.folder.join(format!("{:06}.json", self.kept));
        write(&path, &serde_json::to_vec(record)?)
    }

    /// Notes which program failed, where that is one that the command ran.
    pub fn program(&mut self, executable: &Path) -> Result<()> {
        self.series.executable = executable.to_owned();
        self.write_series()
    }

    /// Notes from which run on another failure than the first is looked into.
    pub fn from(&mut self, run: u64) -> Result<()> {
        self.series.from = run;
        self.write_series()
    }

    /// Notes why no more runs were made.
    pub fn end(&mut self, why: &str) -> Result<()> {
        self.series.ended = Some(why.to_owned());
        self.write_series()
    }

    fn write_series(&self) -> Result<()> {
        write(
            &self.folder.join(SERIES),
            &serde_json::to_vec_pretty(&self.series)?,
        )
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    // A reader sees a whole file or none.
    let partial = path.with_extension("partial");
    fs::write(&partial, bytes)
        .and_then(|()| fs::rename(&partial, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// What a folder has: its series, and its runs in order.
pub fn open(folder: &Path) -> Result<(SeriesRecord, impl Iterator<Item = Result<RunRecord>>)> {
    let path = folder.join(SERIES);
    let bytes = fs::read(&path).with_context(|| {
        format!(
            "{} has no recorded runs: `run --keep` makes such a folder",
            folder.display()
        )
    })?;
    let series: SeriesRecord =
        serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))?;
    if series.version != VERSION {
        bail!(
            "{} is of version {}, and this failsketch reads version {VERSION}",
            path.display(),
            series.version
        );
    }
    let mut names: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_stem().and_then(|name| name.to_str());
            let numbered = name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
            numbered && path.extension().is_some_and(|extension| extension == "json")
        })
        .collect();
    names.sort_unstable();
    let runs = names.into_iter().map(|path| {
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))
    });
    Ok((series, runs))
}

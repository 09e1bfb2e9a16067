//! A server with pages, runs to send it, and what every page has to be like.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use diagnosis::record::{RunEnd, RunRecord};
use diagnosis::sketch::Sketch;
use failsketch_tests::browser::Browser;
use failsketch_tests::folder::Folder;
use failsketch_tests::running::Running;
use failsketch_tests::{command, kept, process, zoo};
use failure::Kind;
use serde_json::Value;
use sketch_render::sketch::words;

use crate::service::{failsketch, replay};

/// A race between two threads, over one pointer.
pub const PROGRAM: &str = "pbzip2-queue";
/// The pointer.
pub const VARIABLE: &str = "q->mut";
/// Widths of a phone, a laptop and a large screen.
const WIDTHS: [u32; 3] = [390, 1280, 1920];
/// Recordings until one explains the race: on a busy machine the handful of runs that is made may be too much alike.
const RECORDINGS: usize = 8;

/// A server with an address of its own.
pub struct Server {
    _running: Running,
    pub url: String,
}

impl Server {
    /// One that asks nobody who he is, with its files in a folder.
    pub fn start(folder: &Folder) -> Self {
        let store = format!("sqlite:{}", folder.path().join("bugs.db").display());
        let mut serve = Command::new(command::binary());
        serve
            .args(["serve", "--store", &store, "--objects"])
            .arg(folder.path().join("objects"));
        Self::run(&mut serve, "http")
    }

    /// One that is told everything but where it listens, and where the sources are.
    pub fn run(serve: &mut Command, scheme: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let sources = zoo::folder().join(PROGRAM).display().to_string();
        serve
            .args(["--listen", &address])
            .args(["--source-map", &format!("{sources}={sources}")])
            .env("RUST_LOG", "warn");
        let running = Running::start(serve);
        running.stderr_line("failsketch: serving on").unwrap();
        Self {
            _running: running,
            url: format!("{scheme}://{address}"),
        }
    }

    /// Sends so many recorded runs, in the name of so many hosts.
    pub fn replay(&self, recorded: &Recorded, hosts: usize, runs: usize) {
        let sent = replay(&self.url, &recorded.folder, &hosts.to_string(), &runs.to_string());
        let done = sent.finish();
        assert!(done.status.success(), "{}", done.stderr);
    }

    /// An agent that runs the program again and again.
    pub fn agent(&self, folder: &Folder) -> Running {
        let mut agent = Command::new(command::binary());
        agent
            .args(["agent", "--server", &self.url, "--host-id"])
            .arg(folder.path().join("host-id"))
            .arg("--spool")
            .arg(folder.path().join("spool"))
            .arg("--")
            .arg(zoo::binary(PROGRAM, "O0"));
        Running::start(&mut agent)
    }
}

/// Runs of the program that were really made, and explain why it fails.
pub struct Recorded {
    /// Where they are.
    pub folder: String,
    /// How many of them were tracked.
    pub tracked: usize,
}

impl Recorded {
    /// Makes some.
    pub fn make(folder: &Folder) -> Self {
        let made = (0..RECORDINGS).find_map(|number| Self::once(folder, number));
        made.expect("runs that explain the race")
    }

    fn once(folder: &Folder, number: usize) -> Option<Self> {
        let kept = folder.path().join(format!("kept-{number}"));
        let kept = kept.to_str().unwrap().to_owned();
        let binary = zoo::binary(PROGRAM, "O0");
        let done = failsketch(&["run", "--json", "--keep", &kept, "--", binary.to_str().unwrap()]);
        assert!(done.status.success(), "{}: {}", done.how(), done.stderr);
        let sketch: Sketch = serde_json::from_str(&done.stdout).unwrap();
        let best = sketch.predictors.first()?;
        let is_explained = best.pattern.as_deref() == Some("WR")
            && best.variable.as_deref() == Some(VARIABLE)
            && words::convinces(best)
            && sketch.predictors.len() > 1;
        // On a busy machine a run may seem to hang, and then the sketch is not of the failure that is replayed.
        let tracked = tracked(&kept)?;
        let is_whole = tracked as u64 >= sketch.runs.failing + sketch.runs.successful;
        // Nor is a page then about one bug: it may really hang now and then.
        let is_one = !sketch
            .notes
            .iter()
            .any(|note| note.contains("in another failure"));
        (is_explained && is_whole && is_one).then_some(Self {
            folder: kept,
            tracked,
        })
    }
}

/// How many runs were tracked after the first failure, if that is a crash, and the one that was looked into.
fn tracked(kept: &str) -> Option<usize> {
    let series = std::fs::read(Path::new(kept).join("series.json")).unwrap();
    let series: Value = serde_json::from_slice(&series).unwrap();
    let is_first = series["from"].as_u64().unwrap_or_default() == 0;
    let records: Vec<RunRecord> = kept::records(Path::new(kept));
    let failed = |record: &RunRecord| matches!(record.end, RunEnd::Failed(_));
    let first = records.iter().position(failed)?;
    let RunEnd::Failed(report) = &records[first].end else {
        return None;
    };
    let is_sent = |record: &&RunRecord| record.sigma > 0 && record.end != RunEnd::Inconclusive;
    let sent = records[first + 1..].iter().filter(is_sent).count();
    (is_first && report.kind == Kind::Signal).then_some(sent)
}

/// Where pictures go: somebody should look at them.
fn pictures() -> PathBuf {
    let folder = match std::env::var_os("FAILSKETCH_PICTURES") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures"),
    };
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// axe-core, which judges how accessible a page is.
pub fn axe() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser/axe.py");
    let mut python = Command::new("python3");
    python.arg(script).arg(&folder);
    let _ = process::tool(&mut python, Path::new("/"));
    folder.join("axe.min.js")
}

/// A page in every size and light: nothing is out of sight, nothing keeps anybody out, and a picture is taken.
pub fn inspect(browser: &Browser, axe: &Path, name: &str) {
    browser.load(axe);
    for width in WIDTHS {
        for is_dark in [false, true] {
            browser.look(width, is_dark);
            let _ = browser.run("scrollTo(0, 0)");
            let too_wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
            assert!(
                too_wide.as_i64() <= Some(0),
                "{name} at {width} is {too_wide} too wide"
            );
            let light = if is_dark { "dark" } else { "light" };
            take_picture(browser, &format!("{name}-{width}-{light}"));
            // What a large screen shows differs from a laptop's by the space between.
            if width < 1920 {
                is_accessible(browser, &format!("{name} at {width}, {light}"));
            }
        }
    }
    browser.look(1280, false);
}

fn take_picture(browser: &Browser, name: &str) {
    let picture = pictures().join(format!("{name}.png"));
    let mut decode = Command::new("base64");
    decode.arg("-d").stdout(std::fs::File::create(picture).unwrap());
    decode.stdin(std::process::Stdio::piped());
    let mut child = decode.spawn().unwrap();
    let taken = browser.picture();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), taken.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

fn is_accessible(browser: &Browser, name: &str) {
    let found = browser.run(
        "return axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations \
         .filter((rule) => ['serious', 'critical'].includes(rule.impact)) \
         .map((rule) => `${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 160) + ' ' + node.any.map((any) => any.message)).join('; ')}`))",
    );
    let found = found.as_array().cloned().unwrap_or_default();
    let found: Vec<&str> = found.iter().filter_map(Value::as_str).collect();
    assert!(found.is_empty(), "{name}:\n{}", found.join("\n"));
}

/// Nothing went wrong, and nobody else was asked for anything.
pub fn is_quiet(browser: &Browser, server: &Server) {
    // A browser mentions by the way what it did not do, as not to take the focus away from somebody.
    let mut console = browser.console();
    console.retain(|line| !line.starts_with("INFO "));
    assert!(console.is_empty(), "{console:?}");
    let elsewhere: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|address| !address.starts_with(&format!("{}/", server.url)) && !address.starts_with("data:"))
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

//! Programs that come to a standstill: the threads that wait for one another are the first predictor, and the sketch shows where each
//! of them took what the next one wants.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use failsketch_tests::command;
use failsketch_tests::folder::Folder;
use failsketch_tests::target::Built;
use serde_json::Value;

/// A program that hangs now and then.
pub struct Stuck {
    pub built: Built,
    arguments: Vec<String>,
}

/// What is to be said of it.
pub struct Expected {
    /// Where what others want is taken, and where it is waited for, by the marks in the source.
    pub takes: &'static str,
    pub waits: &'static str,
    /// The threads that do either.
    pub takers: usize,
    pub waiters: usize,
}

pub fn stuck(source: &str, level: &str, arguments: &str) -> Stuck {
    let option = format!("-{level}");
    let built = match source.rsplit('.').next() {
        Some("rs") => {
            let level = format!("-Copt-level={}", level.trim_start_matches('O'));
            Built::with(&["rustc", &level], source)
        }
        Some("cc") => Built::with(&["g++", &option, "-std=c++17", "-pthread"], source),
        _ => Built::with(&["gcc", &option, "-pthread"], source),
    };
    Stuck {
        built,
        arguments: arguments.split_whitespace().map(str::to_owned).collect(),
    }
}

impl Stuck {
    fn command(&self, options: &[&str]) -> Vec<String> {
        let exe = self.built.exe.to_str().unwrap();
        let words = [&["run", "--json"], options, &["--", exe]].concat();
        let words = words.into_iter().map(str::to_owned);
        words.chain(self.arguments.iter().cloned()).collect()
    }

    fn lines(&self, mark: &str) -> BTreeSet<u64> {
        let marked = (1..).zip(self.built.text.lines()).filter(|(_, text)| {
            let mut words = text.split_whitespace();
            words.any(|word| word.strip_prefix('@') == Some(mark))
        });
        let lines: BTreeSet<u64> = marked.map(|(line, _)| line).collect();
        assert!(!lines.is_empty(), "nothing is marked @{mark}");
        lines
    }

    pub fn check(&self, sketch: &Value, expected: &Expected) {
        let best = &sketch["predictors"][0];
        assert_eq!(best["pattern"], "deadlock", "{sketch:#}");
        let (takes, waits) = (self.lines(expected.takes), self.lines(expected.waits));
        let statements = best["statements"].as_array().unwrap();
        let named: BTreeSet<u64> = statements.iter().filter_map(|at| at["line"].as_u64()).collect();
        assert_eq!(named, takes.union(&waits).copied().collect(), "{best:#}");
        let steps = sketch["steps"].as_array().unwrap();
        let threads_at = |lines: &BTreeSet<u64>| {
            let there = steps.iter().filter(|step| {
                let line = step["statement"]["line"].as_u64();
                line.is_some_and(|line| lines.contains(&line)) && step["predictor"] == 1
            });
            there
                .map(|step| step["thread"].as_u64())
                .collect::<BTreeSet<_>>()
                .len()
        };
        assert_eq!(threads_at(&takes), expected.takers, "who takes: {steps:#?}");
        assert_eq!(threads_at(&waits), expected.waiters, "who waits: {steps:#?}");
    }
}

fn explains(stuck: &Stuck, takes: &'static str, waits: &'static str, [takers, waiters]: [usize; 2]) -> Value {
    let sketch = command::json(stuck.command(&[])).unwrap_or_else(|why| panic!("{why}"));
    let expected = Expected {
        takes,
        waits,
        takers,
        waiters,
    };
    stuck.check(&sketch, &expected);
    sketch
}

#[test]
fn mutexes_of_all_kinds() {
    for (level, kind) in [
        ("O0", "normal"),
        ("O2", "recursive"),
        ("O0", "errorcheck"),
        ("O2", "inherit"),
    ] {
        let order = stuck("deadlocks/order.c", level, kind);
        let sketch = explains(&order, "takes", "waits", [2, 2]);
        assert_eq!(
            sketch["predictors"][0]["variable"], "store, front",
            "{level} {kind}"
        );
    }
}

#[test]
fn philosophers_who_all_wait_in_one_statement() {
    for (level, count) in [("O0", 2), ("O2", 3), ("O0", 5)] {
        let forks = stuck("deadlocks/forks.c", level, &count.to_string());
        explains(&forks, "takes", "waits", [count, count]);
    }
}

#[test]
fn locks_for_readers_and_writers() {
    explains(
        &stuck("deadlocks/rooms.c", "O2", "write"),
        "write-takes",
        "write-waits",
        [2, 2],
    );
    explains(
        &stuck("deadlocks/rooms.c", "O0", "read"),
        "read-takes",
        "read-waits",
        [2, 2],
    );
}

#[test]
fn locks_of_objects_by_guards() {
    for level in ["O0", "O2"] {
        explains(
            &stuck("deadlocks/nodes.cc", level, "array"),
            "array-takes",
            "array-waits",
            [2, 2],
        );
        explains(
            &stuck("deadlocks/nodes.cc", level, "heap"),
            "heap-takes",
            "heap-waits",
            [2, 2],
        );
    }
}

#[test]
fn locks_that_do_not_say_who_holds_them() {
    for (level, count) in [("O0", 3), ("O2", 2)] {
        let ring = stuck("deadlocks/parcels.rs", level, &format!("ring {count}"));
        explains(&ring, "ring-takes", "ring-waits", [count, count]);
    }
    let twice = stuck("deadlocks/parcels.rs", "O2", "twice");
    let sketch = explains(&twice, "twice-takes", "twice-waits", [1, 1]);
    assert_eq!(sketch["predictors"][0]["predicate"], "held by itself");
}

#[test]
fn locks_that_nobody_gives_back() {
    let twice = explains(&stuck("deadlocks/kept.c", "O0", "twice"), "put", "twice", [1, 1]);
    assert_eq!(twice["predictors"][0]["predicate"], "held by itself");
    let gone = explains(&stuck("deadlocks/kept.c", "O2", "gone"), "put", "take", [1, 1]);
    assert_eq!(
        gone["predictors"][0]["predicate"],
        "held by a thread that has ended"
    );
    explains(&stuck("deadlocks/kept.c", "O0", "join"), "put", "join", [1, 2]);
}

#[test]
fn runs_that_were_kept_say_the_same() {
    let forks = stuck("deadlocks/forks.c", "O2", "3");
    let folder = Folder::new("kept");
    let kept = folder.path().join("runs");
    let kept = kept.to_str().unwrap();
    let live = command::failsketch(forks.command(&["--keep", kept]));
    assert!(live.status.success(), "{}", live.stderr);
    let again = command::failsketch(["diagnose", kept, "--json"]);
    assert_eq!(live.stdout, again.stdout);
}

/// Who looked before the news came, and waits for them to come: no thread has what another one wants.
#[test]
fn news_that_came_before_somebody_waited_for_them() {
    for level in ["O0", "O2"] {
        let journal = stuck("deadlocks/unheard.c", level, "");
        // Whoever says how long a run may take does not wait for that where nobody can go on.
        let began = Instant::now();
        let sketch =
            command::json(journal.command(&["--timeout", "100"])).unwrap_or_else(|why| panic!("{why}"));
        assert!(
            began.elapsed() < Duration::from_secs(300),
            "it waited for the limit"
        );
        let best = &sketch["predictors"][0];
        assert_eq!(best["pattern"], "RW", "{best:#}");
        assert_eq!(best["variable"], "journal.dirty", "{best:#}");
        let statements = best["statements"].as_array().unwrap().iter();
        let lines: Vec<_> = statements.filter_map(|at| at["line"].as_u64()).collect();
        let marked = ["look", "news"].map(|mark| journal.lines(mark).first().copied().unwrap());
        assert_eq!(lines, marked, "{best:#}");
        let last = sketch["steps"].as_array().unwrap().last().unwrap();
        assert_eq!(
            last["statement"]["line"].as_u64(),
            journal.lines("wait").first().copied()
        );
    }
}

//! What another run costs a bug that has many behind it: taken in, and drawn.
//!
//! Prints a line of JSON for `bench.py`: microseconds of an update after so many runs.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::path::Path;
use std::time::{Duration, Instant};

use diagnosis::adapt::FIRST;
use diagnosis::inquiry::Inquiry;
use diagnosis::record::{RunEnd, RunRecord};
use failsketch_tests::kept;
use tracee::ProgramFiles;

/// After so many runs an update is looked at.
const STORED: [usize; 3] = [1_000, 10_000, 100_000];
/// Runs that the log is filled with, again and again.
const SHORT: usize = 4;
/// Updates that are looked at each time.
const LOOKS: usize = 64;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (Some(program), Some(runs)) = (arguments.next(), arguments.next()) else {
        // `cargo test` starts benches, too.
        return;
    };
    let records: Vec<RunRecord> = kept::records(Path::new(&runs));
    let first = records
        .iter()
        .position(|record| matches!(record.end, RunEnd::Failed(_)));
    let (first, tracked) = records.split_at(first.expect("a run that failed") + 1);
    let failing = first.last().expect("it is there");
    let RunEnd::Failed(report) = &failing.end else {
        return;
    };
    let files = ProgramFiles::default();
    let others = failing.modules.iter().filter(|module| !module.executable);
    let program = files
        .program_of_modules(Path::new(&program), others.map(|module| module.path.as_str()))
        .expect("the program");
    let mut inquiry = Inquiry::open(&program, report, None, FIRST, 2).expect("an inquiry");
    let mut endless = tracked.iter().cycle();
    // What fills the log is short; what is looked at is as it comes.
    let mut short: Vec<&RunRecord> = tracked.iter().collect();
    short.sort_by_key(|record| record.hits.len());
    short.truncate(SHORT);
    let mut filling = short.into_iter().cycle();
    let mut stored = 0;
    let mut updates = Vec::new();
    for most in STORED {
        while stored < most {
            inquiry.take(filling.next().expect("tracked runs"));
            stored += 1;
        }
        let mut looks: Vec<Duration> = (0..LOOKS)
            .map(|_| {
                let record = endless.next().expect("tracked runs");
                let started = Instant::now();
                inquiry.assignment(record.number);
                inquiry.take(record);
                let _drawn = std::hint::black_box(inquiry.sketch());
                started.elapsed()
            })
            .collect();
        stored += LOOKS;
        looks.sort_unstable();
        updates.push(looks[LOOKS / 2].as_secs_f64() * 1e6);
    }
    println!(
        "{}",
        serde_json::json!({ "stored": STORED, "microseconds": updates })
    );
}

//! Every access of four threads is reported, as what it was, in an order that its values allow.

use std::collections::BTreeMap;
use std::process::Command;

use failsketch_tests::running::Running;
use failsketch_tests::target::Built;
use failsketch_tests::watch::{Hit, Watch, Watched};

use crate::watching::{self, Way};

const THREADS: usize = 4;
const VARIABLES: [&str; 3] = ["row.cell.shared", "handler", "jumper"];

/// How often each thread makes each access of a line: by line, then by access.
type Counts = BTreeMap<(u32, String), Vec<u64>>;

/// What the comments `hits: …` of a source say that one execution of their line does, at a level.
fn comments(text: &str, level: &str) -> Vec<(u32, String)> {
    let mut found: Vec<(u32, String)> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        for comment in line.split("/*").skip(1) {
            let comment = comment.split("*/").next().unwrap_or_default().trim();
            let Some((at, accesses)) = comment.strip_prefix("hits").and_then(|rest| rest.split_once(':'))
            else {
                continue;
            };
            if !at.trim().is_empty() && at.trim() != level {
                continue;
            }
            for word in accesses.split_whitespace() {
                match (word, found.last_mut()) {
                    ("atomic", Some((_, access))) => access.push_str(" atomic"),
                    _ => found.push((number, word.to_owned())),
                }
            }
        }
    }
    found
}

fn expected(text: &str, level: &str, rounds: u64) -> Counts {
    let mut counts = Counts::new();
    for key in comments(text, level) {
        let each = counts.entry(key).or_insert_with(|| vec![0; THREADS]);
        each.iter_mut().for_each(|count| *count += rounds);
    }
    counts
}

/// What was reported of a source's lines, and of code elsewhere as line 0.
fn counted(hits: &[Hit], source: &str) -> Counts {
    let mut threads: Vec<u64> = hits.iter().map(|hit| hit.tid).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut counts = Counts::new();
    for hit in hits {
        let line = if hit.file.as_deref() == Some(source) {
            hit.line
        } else {
            0
        };
        let each = counts
            .entry((line, hit.access.clone()))
            .or_insert_with(|| vec![0; threads.len()]);
        let thread = threads.binary_search(&hit.tid).expect("it is among them");
        each[thread] += 1;
    }
    counts
}

/// Plays the accesses back: a read returns what was last written, an update starts from it. In exact mode that is so
/// whether the order is certain or not; only an update that is no single step may have been overtaken, and is marked then.
/// In the other modes nothing was claimed where the place of one of the two is marked as uncertain.
fn replay(what: &str, way: Way, hits: &[Hit]) {
    replay_unless(what, hits, |hit| {
        hit.unordered && (way.mode != "exact" || hit.access == "RW")
    });
}

/// Plays accesses back, except those that nothing is claimed of.
fn replay_unless(what: &str, hits: &[Hit], nothing_claimed: impl Fn(&Hit) -> bool) {
    let mut values: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (at, hit) in hits.iter().enumerate() {
        let variable = hit
            .variable
            .as_deref()
            .unwrap_or_else(|| panic!("{what}: {hit:?} has no variable"));
        let Some(value) = hit.value else {
            panic!("{what}: {hit:?} has no value")
        };
        let known = values.get(variable).copied();
        let read = match hit.access.as_str() {
            "R" | "R atomic" => Some(value),
            "RW" | "RW atomic" => hit.before,
            _ => None,
        };
        if let (Some(read), Some((known, doubtful))) = (read, known)
            && read != known
            && !nothing_claimed(hit)
            && !doubtful
        {
            wrong.push(at);
        }
        values.insert(variable, (value, nothing_claimed(hit)));
    }
    if let Some(&first) = wrong.first() {
        let around: Vec<String> = hits[first.saturating_sub(4)..hits.len().min(first + 3)]
            .iter()
            .map(|hit| format!("{hit:x?}"))
            .collect();
        panic!(
            "{what}: {} of {} accesses contradict the one before; the first is number {}:\n{}",
            wrong.len(),
            hits.len(),
            hits[first].seq,
            around.join("\n")
        );
    }
}

/// Whether everything was reported. What was lost must at least have been counted, and only observing loses.
fn is_complete(what: &str, way: Way, watched: &Watched, expected: u64) -> bool {
    assert_eq!(
        watched.count,
        watched.hits.len() as u64,
        "{what}: {}",
        watched.summary
    );
    let seqs: Vec<u64> = watched.hits.iter().map(|hit| hit.seq).collect();
    assert!(
        seqs.is_sorted_by(|one, next| one < next),
        "{what}: the numbers are not in order"
    );
    let times: Vec<u64> = watched.hits.iter().map(|hit| hit.time_ns).collect();
    assert!(
        times.iter().all(|time| *time > 0),
        "{what}: an access has no time"
    );
    assert_eq!(watched.summary["mode"], way.mode, "{what}");
    assert_eq!(
        watched.count + watched.lost,
        expected,
        "{what}: hits and lost ones are not what happened: {}\n{:?}",
        watched.summary,
        counted(&watched.hits, "")
    );
    assert!(
        watched.lost == 0 || way.mode == "observe",
        "{what}: {} were lost",
        watched.lost
    );
    watched.lost == 0
}

fn every_kind(way: Way, level: &str) {
    const ROUNDS: u64 = 25;
    let what = format!("{way} {level}");
    let built = Built::c("accesses.c", level);
    let watched = way.watch(&built, &[&ROUNDS.to_string()], &VARIABLES);
    let expected = expected(&built.text, level, ROUNDS);
    // An access before the start, seen only in a program that we started.
    if way.is_launched() {
        let line = watching::line_of(&built.text, "before the start");
        let first = watched.hits.first().expect("there are hits");
        assert_eq!(
            (first.line, first.access.as_str()),
            (line, "W"),
            "{what}: {first:?}"
        );
    }
    let early = usize::from(way.is_launched());
    let total: u64 = expected.values().flatten().sum::<u64>() + early as u64;
    if is_complete(&what, way, &watched, total) {
        assert_same(&what, &counted(&watched.hits[early..], "accesses.c"), &expected);
        replay(&what, way, &watched.hits);
        assert_ordered(&what, &watched.hits);
    }
}

fn contended(way: Way, level: &str) {
    const ROUNDS: u64 = 60;
    let what = format!("{way} {level}, contended");
    let built = Built::c("contended.c", level);
    let (watched, printed) = way.watch_and_print(&built, &[&ROUNDS.to_string()], &["shared"]);
    let failures = printed
        .lines()
        .find_map(|line| line.strip_suffix(" exchanges failed"));
    let failures: u64 = failures
        .and_then(|count| count.parse().ok())
        .expect("it prints them");
    let mut expected = expected(&built.text, level, ROUNDS);
    let exchange = watching::line_of(&built.text, "hits: exchange");
    let exchanged = expected.remove(&(exchange, "exchange".to_owned()));
    expected.insert(
        (exchange, "RW atomic".to_owned()),
        exchanged.expect("it is in the source"),
    );
    let total: u64 = expected.values().flatten().sum::<u64>() + failures;
    if is_complete(&what, way, &watched, total) {
        let mut counts = counted(&watched.hits, "contended.c");
        let failed = counts.remove(&(exchange, "R atomic".to_owned()));
        assert_eq!(
            failed.map_or(0, |each| each.iter().sum()),
            failures,
            "{what}: failed exchanges"
        );
        assert_same(&what, &counts, &expected);
        replay(&what, way, &watched.hits);
        assert_ordered(&what, &watched.hits);
    }
}

/// Most accesses have a place that is certain. An access happened at some time between the resumption of its thread
/// and its report: where that leaves two orders open and no value decides, it is said so.
fn assert_ordered(what: &str, hits: &[Hit]) {
    let doubtful = hits.iter().filter(|hit| hit.unordered).count();
    let count = hits.len();
    assert!(
        doubtful * 2 < count,
        "{what}: the order of {doubtful} of {count} accesses is not known"
    );
}

fn assert_same(what: &str, got: &Counts, expected: &Counts) {
    let mut differences = Vec::new();
    for key in got.keys().chain(expected.keys()) {
        let difference = format!(
            "line {} {}: {:?}, should be {:?}",
            key.0,
            key.1,
            got.get(key),
            expected.get(key)
        );
        if got.get(key) != expected.get(key) && !differences.contains(&difference) {
            differences.push(difference);
        }
    }
    assert!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
}

#[test]
fn of_every_kind_in_an_attached_program() {
    for way in Way::ATTACHED {
        for level in ["O0", "O2"] {
            every_kind(way, level);
        }
    }
}

#[test]
fn of_every_kind_in_a_launched_program() {
    for way in Way::LAUNCHED {
        for level in ["O0", "O2"] {
            every_kind(way, level);
        }
    }
}

#[test]
fn of_threads_that_contend_in_an_attached_program() {
    for way in Way::ATTACHED {
        for level in ["O0", "O2"] {
            contended(way, level);
        }
    }
}

#[test]
fn of_threads_that_contend_in_a_launched_program() {
    for way in Way::LAUNCHED {
        for level in ["O0", "O2"] {
            contended(way, level);
        }
    }
}

#[test]
fn of_threads_that_come_and_go() {
    const CREATED: u64 = 200;
    let built = Built::c("churn.c", "O2");
    let mark = |name| watching::line_of(&built.text, name);
    let half = CREATED / 2;
    for way in Way::ATTACHED.into_iter().chain(Way::LAUNCHED) {
        let what = format!("{way}");
        let (watched, printed) = way.watch_and_print(&built, &[&CREATED.to_string()], &["shared"]);
        assert_eq!(printed, format!("{}\n", half * 3), "{what}");
        if !is_complete(&what, way, &watched, half * 3 + 1) {
            continue;
        }
        let mut lines: BTreeMap<u32, u64> = BTreeMap::new();
        for hit in &watched.hits {
            *lines.entry(hit.line).or_default() += 1;
        }
        let expected = [
            (mark("@second"), half),
            (mark("@first */"), half),
            (mark("@first-again"), half),
            (mark("@print"), 1),
        ];
        assert_eq!(lines, BTreeMap::from(expected), "{what}");
        replay(&what, way, &watched.hits);
    }
}

/// Two hundred threads, fifty at a time: the more of them wait for a processor, the less the time of a stop says.
#[test]
fn of_crowds_that_come_and_go() {
    for level in ["O0", "O2"] {
        let built = Built::c("crowd.c", level);
        let mut expected: BTreeMap<(u32, String), u64> = BTreeMap::new();
        for (key, times) in comments(&built.text, level).into_iter().zip([5, 1, 1]) {
            expected.insert(key, times * CROWD);
        }
        expected.insert((watching::line_of(&built.text, "@print"), "R".to_owned()), 2);
        crowd(&built, level, &["total", "count"], &expected);
    }
}

/// The same where not all accesses are updates: what a read found and what a write left is known.
#[test]
fn of_crowds_that_write_and_read() {
    let built = Built::c("crowd.c", "O2");
    crowd(&built, "O2", &["mixed"], &mixed(&built));
}

/// The same at four variables, which takes all registers that there are.
#[test]
fn of_crowds_at_four_variables() {
    let built = Built::c("crowd.c", "O2");
    let mut expected = mixed(&built);
    for (key, times) in comments(&built.text, "O2").into_iter().zip([5, 1]) {
        expected.insert(key, times * CROWD);
    }
    let mark = |name| watching::line_of(&built.text, name);
    expected.insert((mark("@last"), "RW atomic".to_owned()), CROWD);
    expected.insert((mark("@print"), "R".to_owned()), 2);
    crowd(&built, "O2", &["total", "count", "mixed", "last"], &expected);
}

/// The accesses to `mixed` in `crowd.c`.
fn mixed(built: &Built) -> BTreeMap<(u32, String), u64> {
    let accesses = [
        ("@mixed-add", "RW atomic"),
        ("@mixed-write", "W"),
        ("@mixed-read", "R"),
    ];
    let accesses = accesses.map(|(mark, access)| {
        let line = watching::line_of(&built.text, mark);
        ((line, access.to_owned()), 5 * CROWD)
    });
    BTreeMap::from(accesses)
}

/// The threads of `crowd.c`.
const CROWD: u64 = 200;

fn crowd(built: &Built, level: &str, variables: &[&str], expected: &BTreeMap<(u32, String), u64>) {
    const ADDED: u64 = 5 * CROWD * (CROWD + 1) / 2;
    let ways = Way::ATTACHED.into_iter().chain(Way::LAUNCHED);
    for way in ways.filter(|way| way.mode != "compat") {
        let what = format!("{way} {level}, a crowd at {}", variables.join(" and "));
        let (watched, printed) = way.watch_and_print(built, &[], variables);
        assert_eq!(printed, format!("{ADDED} {CROWD}\n"), "{what}");
        if !is_complete(&what, way, &watched, expected.values().sum()) {
            continue;
        }
        let mut counts: BTreeMap<(u32, String), u64> = BTreeMap::new();
        for hit in &watched.hits {
            *counts.entry((hit.line, hit.access.clone())).or_default() += 1;
        }
        assert_eq!(&counts, expected, "{what}");
        replay(&what, way, &watched.hits);
        if way.mode == "exact" {
            assert_chained(&what, &watched.hits);
        }
    }
}

/// Checks that each access found what the one before it left, marked or not, of a program without an update that another
/// thread can have overtaken.
fn assert_chained(what: &str, hits: &[Hit]) {
    let mut left: BTreeMap<&str, u64> = BTreeMap::new();
    for hit in hits {
        let found = match hit.access.as_str() {
            "R" => hit.value,
            _ => hit.before,
        };
        let (variable, value) = hit.variable.as_deref().zip(hit.value).expect("replay saw to it");
        let there = left.insert(variable, value).unwrap_or(0);
        assert_eq!(found, Some(there), "{what}: {hit:?}");
    }
}

/// Each thread that is there already takes a file. With enough of them for the accesses alone, none is missing.
#[test]
fn of_more_threads_than_there_are_files_to_note_times() {
    const THREADS: usize = 60;
    const FILES: &str = "ulimit -n 90 && exec \"$0\" \"$@\"";
    let built = Built::c("assembled.c", "O2");
    let mut target = built.start_ready(&[]);
    let pid = target.pid().to_string();
    let watch = Watch::command(["--mode", "exact", "--var", "total", "--pid", &pid]);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", FILES])
        .arg(watch.get_program())
        .args(watch.get_args());
    let watch = Watch(Running::start(&mut limited));
    if let Err(instead) = watch.0.stderr_line("failsketch: watching ") {
        panic!("it does not watch: {instead}");
    }
    target.end_input();
    assert_eq!(target.finish().status.code(), Some(3));
    let watched = watch.finish();
    assert_eq!((watched.hits.len(), watched.lost), (THREADS, 0));
}

#[test]
fn a_watch_that_is_interrupted_leaves_the_program_alone() {
    let built = Built::c("churn.c", "O2");
    for way in Way::ATTACHED {
        let mut target = built.start_ready(&["400"]);
        let watch = Watch::attach(target.pid(), way.mode, &["shared"]);
        target.end_input();
        watch.0.signal("INT");
        let watched = watch.finish();
        let done = target.finish();
        assert_eq!(
            (done.stdout.as_str(), done.status.code()),
            ("ready\n600\n", Some(3)),
            "{way}: {}",
            done.how()
        );
        // What was on the way when the watch ended is not there, and what does not fit for want of it is marked, in every mode.
        replay_unless(&way.to_string(), &watched.hits, |hit| hit.unordered);
        assert_eq!(watched.count, watched.hits.len() as u64, "{way}");
    }
}

/// A program that runs itself again is watched in each of its lives, and what it did in the former ones is told by its
/// source when the next one runs already. (In observe mode nobody stops at an exec, and a life may be over before it is seen.)
#[test]
fn lives_one_after_the_other() {
    for way in [Way::ATTACHED[0], Way::LAUNCHED[0], Way::LAUNCHED[2]] {
        let built = Built::c("again.c", "O2");
        let watched = way.watch(&built, &[], &["stage"]);
        let line = watching::line_of(&built.text, "@write");
        let seen: Vec<_> = watched
            .hits
            .iter()
            .map(|hit| (hit.value, hit.line, hit.access.as_str()))
            .collect();
        let expected = [3, 2, 1].map(|stage| (Some(stage), line, "W"));
        assert_eq!(seen, expected, "{way}");
    }
}

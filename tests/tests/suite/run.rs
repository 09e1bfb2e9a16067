//! `failsketch run` and `diagnose`: from a command line to a sketch.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use failsketch_tests::folder::Folder;
use failsketch_tests::process::Finished;
use failsketch_tests::running::Running;
use failsketch_tests::target::Built;
use failsketch_tests::{command, process, skip, zoo};
use serde_json::Value;

/// Runs many times, on a machine that does other things too.
const LONGEST: Duration = Duration::from_secs(300);

fn failsketch(arguments: &[&str]) -> Finished {
    let mut command = std::process::Command::new(command::binary());
    command.args(arguments);
    process::run(&mut command, b"", LONGEST, |_| ())
}

fn endings() -> Built {
    Built::c("endings.c", "O0")
}

fn line_of(built: &Built, mark: &str) -> u64 {
    let lines = built.text.lines().position(|line| line.contains(mark));
    lines.map_or(0, |index| index as u64 + 1)
}

fn sketch(done: &Finished) -> Value {
    assert!(done.status.success(), "{}: {}", done.how(), done.stderr);
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {}", done.stdout))
}

#[test]
fn a_program_that_does_not_fail_is_status_3_and_what_was_tried() {
    let built = endings();
    let done = failsketch(&["run", "--runs", "5", "--", built.exe.to_str().unwrap()]);
    assert_eq!(done.how(), "exit status 3", "{}", done.stderr);
    assert!(done.stderr.contains("no failure in 5 runs"), "{}", done.stderr);
    assert!(done.stdout.is_empty(), "{}", done.stdout);
    let done = failsketch(&["run", "--runs", "3", "--", "/bin/false"]);
    assert_eq!(done.how(), "exit status 3", "{}", done.stderr);
    assert!(
        done.stderr.contains("3 ended with exit status 1"),
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains("--fail-on exit=1"), "{}", done.stderr);
}

#[test]
fn a_program_that_always_fails_gets_a_sketch_without_claims() {
    let built = endings();
    let exe = built.exe.to_str().unwrap();
    let done = failsketch(&["run", "--json", "--runs", "12", "--", exe, "crash"]);
    let sketch = sketch(&done);
    assert_eq!(sketch["failure"]["signal"], "SIGSEGV");
    assert_eq!(sketch["failure"]["statement"]["function"], "crash");
    assert_eq!(sketch["failure"]["statement"]["line"], line_of(&built, "@crash"));
    assert_eq!(sketch["runs"]["successful"], 0);
    assert_eq!(sketch["predictors"], serde_json::json!([]));
    let last = sketch["steps"].as_array().unwrap().last().unwrap();
    assert_eq!(last["failing"], true);
    assert_eq!(last["statement"]["line"], line_of(&built, "@crash"));
}

/// Damaged data is noticed now in the program's code and now in a library's, on a thread that has none of the program's left.
#[test]
fn a_failure_in_no_code_of_the_program_is_passed_over() {
    let built = Built::c("nowhere.c", "O0");
    let folder = built.folder.path().join("runs");
    let (exe, ran) = (built.exe.to_str().unwrap(), built.folder.path().join("ran"));
    let ran = ran.to_str().unwrap();
    let run =
        |more: &[&str]| failsketch(&[&["run", "--json", "--jobs", "1"], more, &["--", exe, ran]].concat());
    let done = run(&["--runs", "1"]);
    assert_eq!(done.how(), "exit status 1", "{}", done.stderr);
    assert!(done.stderr.contains("--at FILE:LINE"), "{}", done.stderr);
    fs::remove_file(ran).unwrap();
    let folder = folder.to_str().unwrap();
    let done = run(&["--runs", "12", "--keep", folder]);
    let said = "failed after 1 run in no code of the program's own";
    assert!(done.stderr.contains(said), "{}", done.stderr);
    assert_eq!(
        sketch(&done)["failure"]["statement"]["line"],
        line_of(&built, "@own")
    );
    let again = failsketch(&["diagnose", "--json", folder]);
    assert_eq!(again.stdout, done.stdout, "{}", again.stderr);
}

/// A run may be waited for longer than there is time in all.
#[test]
fn a_run_that_goes_on_when_the_time_is_up_is_ended() {
    let began = Instant::now();
    let done = failsketch(&[
        "run",
        "--time-limit",
        "2",
        "--timeout",
        "200",
        "--",
        "/bin/sleep",
        "200",
    ]);
    assert_eq!(done.how(), "exit status 3", "{}", done.stderr);
    assert!(done.stderr.contains("the time is up"), "{}", done.stderr);
    assert!(began.elapsed() < Duration::from_secs(100), "it took long to end");
}

#[test]
fn a_failure_that_does_not_recur_gets_the_static_sketch() {
    let built = endings();
    let exe = built.exe.to_str().unwrap();
    let done = failsketch(&["run", "--runs", "1", "--", exe, "crash"]);
    assert!(done.status.success(), "{}", done.stderr);
    assert!(done.stdout.contains("@crash"), "{}", done.stdout);
    assert!(
        done.stdout.contains("the limit of runs is reached"),
        "{}",
        done.stdout
    );
}

/// What is said above a sketch is what its last step shows, also where no run failed at the first place again.
#[test]
fn a_bug_that_shows_elsewhere_is_told_from_where_it_is_shown() {
    let built = Built::c("places.c", "O0");
    let count = built.folder.path().join("count");
    let sketch = sketch(&failsketch(&[
        "run",
        "--json",
        "--jobs",
        "1",
        "--",
        built.exe.to_str().unwrap(),
        count.to_str().unwrap(),
    ]));
    let later = line_of(&built, "@later");
    let failing = sketch["steps"].as_array().unwrap().last().unwrap();
    assert_eq!(failing["failing"], true);
    assert_eq!(failing["statement"]["line"], later);
    assert_eq!(sketch["failure"]["statement"]["line"], later);
    assert_eq!(sketch["failure"]["stacks"][0][0]["line"], later);
    let first = format!("use:{}", line_of(&built, "@first"));
    let notes = sketch["notes"].to_string();
    assert!(
        notes.contains("first seen elsewhere") && notes.contains(&first),
        "{notes}"
    );
    assert!(!notes.contains(&format!("use:{later}")), "{notes}");
}

#[test]
fn input_and_environment_reach_every_run() {
    let built = endings();
    let exe = built.exe.to_str().unwrap();
    let input = built.folder.path().join("input");
    fs::write(&input, "crash\n").unwrap();
    let input = input.to_str().unwrap();
    let crashed = |arguments: &[&str]| {
        let sketch = sketch(&failsketch(arguments));
        assert_eq!(
            sketch["failure"]["statement"]["function"], "crash",
            "{arguments:?}"
        );
        assert!(sketch["runs"]["failing"].as_u64() > Some(1), "{arguments:?}");
    };
    crashed(&[
        "run", "--json", "--runs", "4", "--stdin", input, "--", exe, "input",
    ]);
    crashed(&[
        "run",
        "--json",
        "--runs",
        "4",
        "--env",
        "CRASH=1",
        "--",
        exe,
        "environment",
    ]);
    // What comes through a pipe can be read once, and every run gets it.
    let mut piped = std::process::Command::new(command::binary());
    piped.args(["run", "--json", "--runs", "4", "--", exe, "input"]);
    let done = process::run(&mut piped, b"crash\n", LONGEST, |_| ());
    assert!(sketch(&done)["runs"]["failing"].as_u64() > Some(1));
}

#[test]
fn an_exit_status_is_explained_by_the_branch_that_led_there() {
    let built = endings();
    let exe = built.exe.to_str().unwrap();
    let done = failsketch(&["run", "--json", "--fail-on", "exit=3", "--", exe, "status"]);
    let sketch = sketch(&done);
    assert_eq!(sketch["failure"]["kind"], "exit-status");
    assert_eq!(sketch["failure"]["statement"]["line"], line_of(&built, "@status"));
    let best = &sketch["predictors"][0];
    assert_eq!(best["precision"], 1.0, "{best}");
    assert_eq!(best["recall"], 1.0, "{best}");
}

#[test]
fn what_cannot_be_run_is_one_line() {
    let built = endings();
    let script = built.folder.path().join("script");
    fs::write(&script, "#!/no/such/shell\nexit 1\n").unwrap();
    make_executable(&script);
    let text = built.folder.path().join("text");
    fs::write(&text, "nothing\n").unwrap();
    make_executable(&text);
    for (command, says) in [
        ("/no/such/program", "/no/such/program"),
        (script.to_str().unwrap(), "/no/such/shell"),
        (text.to_str().unwrap(), "text"),
    ] {
        let done = failsketch(&["run", "--", command]);
        assert_eq!(done.how(), "exit status 1", "{command}: {}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{command}: {}", done.stderr);
        assert!(done.stderr.contains(says), "{command}: {}", done.stderr);
    }
    let done = failsketch(&[
        "run",
        "--control-flow",
        "intel-pt",
        "--",
        built.exe.to_str().unwrap(),
        "crash",
    ]);
    if done.how() == "exit status 1" {
        assert_eq!(done.stderr.lines().count(), 1, "before any run: {}", done.stderr);
        assert!(done.stderr.contains("software-pt"), "{}", done.stderr);
    } else {
        skip::skipped("this machine has Intel PT: its absence cannot be tried");
    }
}

#[test]
fn a_race_is_explained_and_the_recorded_runs_say_the_same() {
    let kept = Folder::new("kept");
    let folder = kept.path().join("runs");
    let folder = folder.to_str().unwrap();
    let binary = zoo::binary("pbzip2-queue", "O2");
    let binary = binary.to_str().unwrap();
    let done = failsketch(&[
        "run",
        "--json",
        "--keep",
        folder,
        "--time-limit",
        "200",
        "--",
        binary,
    ]);
    let first = sketch(&done);
    let best = &first["predictors"][0];
    assert_eq!(best["kind"], "order", "{best}");
    assert_eq!(best["pattern"], "WR", "{best}");
    assert_eq!(best["statements"][0]["function"], "queue_delete", "{best}");
    assert_eq!(best["statements"][0]["thread_role"], "main", "{best}");
    assert_eq!(best["statements"][1]["function"], "queue_take", "{best}");
    assert_eq!(best["statements"][1]["thread_role"], "consumer", "{best}");
    let again = failsketch(&["diagnose", "--json", folder]);
    assert_eq!(again.stdout, done.stdout, "{}", again.stderr);
}

/// In observe mode hits and armings come by different ways, and nobody is stopped at a hit to tell what kind of thread he is.
#[test]
fn observe_mode_sees_what_comes_right_after_an_arming_and_knows_the_threads() {
    let kept = Folder::new("observed");
    let folder = kept.path().join("runs");
    let binary = zoo::binary("pbzip2-queue", "O2");
    let done = failsketch(&[
        "run",
        "--json",
        "--mode",
        "observe",
        "--failures",
        "1",
        "--keep",
        folder.to_str().unwrap(),
        "--time-limit",
        "200",
        "--",
        binary.to_str().unwrap(),
    ]);
    let sketch = sketch(&done);
    for predictor in sketch["predictors"].as_array().unwrap() {
        let roles = predictor["statements"].as_array().unwrap().iter();
        let mut unknown = roles.filter(|statement| statement["thread_role"] == "??");
        assert!(unknown.next().is_none(), "{predictor}");
    }
    let records = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let records = records.filter(|path| path.extension().is_some_and(|it| it == "json"));
    let records = records.map(|path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap());
    let observed: Vec<Value> = records
        .filter(|record| record["data_flow"] == "observe")
        .collect();
    assert!(!observed.is_empty(), "{}", done.stderr);
    for record in observed {
        // Ten blocks are put into the queue and taken out: its mutex is locked and unlocked twenty times.
        let hits = record["hits"].as_array().unwrap().len();
        assert!(hits >= 40, "run {}: {hits} accesses", record["number"]);
    }
}

#[test]
fn an_interrupt_prints_what_is_known() {
    let built = endings();
    let mut command = std::process::Command::new(command::binary());
    command.args(["run", "--runs", "1000000", "--failures", "1000000", "--"]);
    command.arg(&built.exe).arg("crash");
    let mut running = Running::start(&mut command);
    running.end_input();
    running.stderr_line("failed after").unwrap();
    running.signal("INT");
    let began = Instant::now();
    let done = running.finish();
    assert!(done.status.success(), "{}", done.stderr);
    assert!(began.elapsed() < Duration::from_secs(30), "it took long to end");
    assert!(done.stdout.contains("interrupted"), "{}", done.stdout);
}

/// A bug may show in several places: the one where it shows most is explained, not the one where it happened to show first.
#[test]
fn a_failure_that_is_much_more_frequent_is_looked_into_instead() {
    let built = endings();
    let exe = built.exe.to_str().unwrap();
    let kept = built.folder.path().join("runs");
    let count = built.folder.path().join("count");
    let done = failsketch(&[
        "run",
        "--json",
        "--runs",
        "40",
        "--keep",
        kept.to_str().unwrap(),
        "--",
        exe,
        "counted",
        count.to_str().unwrap(),
    ]);
    let sketch = sketch(&done);
    assert!(done.stderr.contains("more frequent by far"), "{}", done.stderr);
    assert_eq!(sketch["failure"]["statement"]["line"], line_of(&built, "@often"));
    assert!(sketch["runs"]["failing"].as_u64() > Some(2), "{}", sketch["runs"]);
    let again = failsketch(&["diagnose", "--json", kept.to_str().unwrap()]);
    assert_eq!(again.stdout, done.stdout, "{}", again.stderr);
}

/// A script has others do its work: what fails is one of the programs that it runs, and not the first of its kind. What it
/// ends itself did not fail.
#[test]
fn a_script_is_explained_by_the_program_that_it_runs() {
    let built = endings();
    let folder = built.folder.path();
    let binary = zoo::binary("pbzip2-queue", "O2");
    let script = folder.join("drive");
    let text = format!(
        "#!/bin/sh\nsleep 100 &\n{} well\n{}\nkill $!\nwait\nexit 0\n",
        built.exe.display(),
        binary.display()
    );
    fs::write(&script, text).unwrap();
    make_executable(&script);
    let kept = folder.join("runs");
    let done = failsketch(&[
        "run",
        "--json",
        "--keep",
        kept.to_str().unwrap(),
        "--time-limit",
        "250",
        "--",
        script.to_str().unwrap(),
    ]);
    let first = sketch(&done);
    let name = first["program"]["name"].as_str().unwrap();
    assert!(name.ends_with("/pbzip2-queue"), "{name}");
    assert_eq!(first["failure"]["signal"], "SIGSEGV");
    let best = &first["predictors"][0];
    assert_eq!(best["kind"], "order", "{best}");
    assert_eq!(best["statements"][0]["function"], "queue_delete", "{best}");
    assert_eq!(best["statements"][1]["thread_role"], "consumer", "{best}");
    let again = failsketch(&["diagnose", "--json", kept.to_str().unwrap()]);
    assert_eq!(again.stdout, done.stdout, "{}", again.stderr);
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

//! `failsketch run` on programs that are built, started or that end in other ways than most.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use failsketch_tests::folder::Folder;
use failsketch_tests::process::Finished;
use failsketch_tests::{command, process};
use serde_json::Value;

/// Runs many times, on a machine that does other things too.
const LONGEST: Duration = Duration::from_secs(300);

/// A program of `programs/strange` in a folder of its own.
struct Strange {
    folder: Folder,
    text: String,
}

impl Strange {
    fn of(source: &str) -> Self {
        let text = std::fs::read_to_string(path(source)).unwrap();
        Self {
            folder: Folder::new("strange"),
            text,
        }
    }

    /// Compiles sources of the folder into `output`; `compiler` is the command with its options.
    fn compile(&self, compiler: &[&str], sources: &[&str], output: &str) -> &Self {
        let mut command = Command::new(compiler[0]);
        command
            .args(sources.iter().map(|source| path(source)))
            .args(&compiler[1..])
            .args(["-o", output]);
        let _ = process::tool(&mut command, self.folder.path());
        self
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn line(&self, mark: &str) -> u64 {
        let lines = self.text.lines().position(|line| line.contains(mark));
        lines.unwrap_or_else(|| panic!("no line has {mark}")) as u64 + 1
    }
}

fn path(source: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs/strange")
        .join(source)
}

fn failsketch(arguments: &[&str]) -> Finished {
    let mut command = Command::new(command::binary());
    command.args(arguments);
    process::run(&mut command, b"", LONGEST, |_| ())
}

fn sketch(arguments: &[&str]) -> Value {
    let mut all = vec!["run", "--json", "--time-limit", "120"];
    all.extend(arguments);
    let done = failsketch(&all);
    assert!(done.status.success(), "{}: {}", done.how(), done.stderr);
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {}", done.stdout))
}

/// The same, again where hardly a run that succeeded could be compared: on a busy machine a race may be lost each time, and then
/// nothing can say what the difference is.
fn compared(arguments: &[&str]) -> Value {
    compared_with(3, arguments)
}

/// With so many. What happens in most successful runs, but not in all, needs several to be told from a cause.
fn compared_with(successes: u64, arguments: &[&str]) -> Value {
    const ATTEMPTS: usize = 12;
    let mut sketches = (0..ATTEMPTS).map(|_| sketch(arguments));
    let enough = |sketch: &Value| sketch["predictors"][0]["successful"].as_u64() >= Some(successes);
    sketches.find(enough).expect("runs that succeed")
}

fn failing_step(sketch: &Value) -> &Value {
    let steps = sketch["steps"].as_array().unwrap();
    let mut failing = steps.iter().filter(|step| step["failing"] == true);
    failing
        .next()
        .unwrap_or_else(|| panic!("no step fails: {sketch}"))
}

/// Whether the first predictor is about these accesses, the last ones of its pattern: the role of the thread, the line, the access.
fn assert_root(sketch: &Value, accesses: &[(&str, u64, &str)]) {
    let statements = sketch["predictors"][0]["statements"].as_array();
    let found: Vec<(&str, u64, &str)> = statements
        .into_iter()
        .flatten()
        .map(|at| {
            let role = at["thread_role"].as_str().unwrap_or_default();
            let access = at["access"].as_str().unwrap_or_default();
            (role, at["line"].as_u64().unwrap_or_default(), access)
        })
        .collect();
    assert!(found.ends_with(accesses), "{found:?}: {sketch}");
}

/// The read that crashed is the last thing that the thread did, and a probe stands on it in optimised code.
#[test]
fn one_of_sixteen_threads_of_three_roles() {
    let strange = Strange::of("roles.c");
    strange.compile(&["gcc", "-O2", "-g", "-pthread"], &["roles.c"], "roles");
    let sketch = compared(&["--", &strange.file("roles")]);
    assert_eq!(sketch["failure"]["statement"]["line"], strange.line("@use"));
    let failing = failing_step(&sketch);
    // Where the one that replaces it was quick to go on, the read stands before that, as a step of its own.
    let is_the_read = |step: &&Value| {
        let same = |what| step[what] == failing[what];
        same("thread") && same("statement") && !step["access"].is_null()
    };
    let steps = sketch["steps"].as_array().unwrap();
    let read = steps.iter().rfind(is_the_read);
    let read = read.unwrap_or_else(|| panic!("the read is missing: {sketch}"));
    assert_eq!(read["access"], "R", "{read}");
    assert_eq!(read["variable"], "current", "{read}");
    assert_eq!(read["value"], "NULL", "{read}");
    let (clear, used) = (strange.line("@clear"), strange.line("@use"));
    assert_root(&sketch, &[("replacer", clear, "W"), ("sender", used, "R")]);
}

#[test]
fn what_main_returned_is_explained_from_where_it_was_made() {
    let strange = Strange::of("odd.c");
    strange.compile(&["gcc", "-O2", "-g", "-pthread"], &["odd.c"], "odd");
    let sketch = sketch(&["--fail-on", "exit=4", "--", &strange.file("odd"), "counting"]);
    assert_eq!(sketch["failure"]["kind"], "exit-status");
    assert_eq!(sketch["failure"]["statement"]["function"], "main");
}

/// Output is written when the process ends; the statement that made it is known by its words.
#[test]
fn what_was_printed_is_explained_from_where_it_was_made() {
    for level in ["-O0", "-O2"] {
        for compiler in ["gcc", "clang"] {
            let strange = Strange::of("verdict.c");
            strange.compile(&[compiler, level, "-g"], &["verdict.c"], "verdict");
            let what = format!("{compiler} {level}");
            let printed = sketch(&["--fail-on", "stdout~wrong", "--", &strange.file("verdict")]);
            assert_eq!(printed["failure"]["kind"], "oracle", "{what}");
            assert_eq!(
                printed["failure"]["statement"]["line"],
                strange.line("@wrong"),
                "{what}"
            );
            let returned = sketch(&["--fail-on", "exit=7", "--", &strange.file("verdict"), "status"]);
            assert_eq!(returned["failure"]["kind"], "exit-status", "{what}");
            if level == "-O0" {
                assert_eq!(
                    returned["failure"]["statement"]["line"],
                    strange.line("@seven"),
                    "{what}"
                );
                assert_eq!(printed["predictors"][0]["kind"], "branch", "{what}: {printed}");
                assert_eq!(printed["predictors"][0]["f"], 1.0, "{what}: {printed}");
            }
        }
    }
}

/// What several statements can have made is put at one of them, and the sketch says that it is one of several.
#[test]
fn what_several_statements_can_have_made_says_so() {
    for compiler in ["gcc", "clang"] {
        let strange = Strange::of("several.c");
        strange.compile(&[compiler, "-O0", "-g"], &["several.c"], "several");
        let exe = strange.file("several");
        let line = |mark: &str| strange.line(mark);
        let several = |sketch: &Value| {
            let notes = sketch["notes"].as_array().unwrap().iter();
            let mut notes = notes.map(|note| note.as_str().unwrap().to_owned());
            notes.find(|note| note.contains("of which this is the first"))
        };
        let five = sketch(&["--fail-on", "exit=5", "--", &exe, "status"]);
        assert_eq!(five["failure"]["statement"]["line"], line("@first"), "{compiler}");
        let expected = format!(
            "the status 5 can have been made at 2 places, of which this is the first (several.c:{} as well): --at FILE:LINE \
             names another",
            line("@second")
        );
        assert_eq!(several(&five), Some(expected), "{compiler}");
        let six = sketch(&["--fail-on", "exit=6", "--", &exe, "status"]);
        assert_eq!(six["failure"]["statement"]["line"], line("@alone"), "{compiler}");
        assert_eq!(several(&six), None, "{compiler}");
        let printed = sketch(&["--fail-on", "stdout~much", "--", &exe]);
        assert_eq!(
            printed["failure"]["statement"]["line"],
            line("@odd"),
            "{compiler}"
        );
        let expected = format!(
            "the output can have been printed at 2 places, of which this is the first (several.c:{} as well): --at FILE:LINE \
             names another",
            line("@even")
        );
        assert_eq!(several(&printed), Some(expected), "{compiler}");
    }
}

/// Control went where there is no code, from a call that is probed: the stack tells the caller all the same. Which function of the
/// table is missed first may differ, and is one bug.
#[test]
fn a_call_through_a_table_that_is_not_filled_in_yet() {
    let strange = Strange::of("methods.c");
    for level in ["-O0", "-O2"] {
        strange.compile(&["gcc", level, "-g", "-pthread"], &["methods.c"], "methods");
        let sketch = compared(&["--", &strange.file("methods")]);
        assert_eq!(sketch["failure"]["statement"]["line"], strange.line("@call"));
        let variable = &sketch["predictors"][0]["variable"];
        assert_eq!(variable, "config.cache.create", "{level}: {sketch}");
        assert_eq!(sketch["predictors"][0]["kind"], "order", "{level}: {sketch}");
    }
}

/// The racing accesses and the failing statement are in a library, which the program is linked with or loads.
#[test]
fn a_race_in_a_shared_library() {
    let strange = Strange::of("pool.c");
    let library = strange.file("libpool.so");
    strange.compile(&["gcc", "-O2", "-g", "-fPIC", "-shared"], &["pool.c"], &library);
    let with = [
        "gcc",
        "-O2",
        "-g",
        "-pthread",
        "-DLINKED",
        "-L.",
        "-lpool",
        "-Wl,-rpath,$ORIGIN",
    ];
    strange.compile(&with, &["pool_user.c"], "linked");
    strange.compile(&["gcc", "-O2", "-g", "-pthread"], &["pool_user.c"], "loaded");
    in_the_pool(&strange, &[strange.file("linked")]);
    let loaded = compared(&["--", &strange.file("loaded"), &library]);
    assert_root(&loaded, &closed_too_early(&strange));
    assert_eq!(loaded["failure"]["statement"]["line"], strange.line("@use"));
    assert_eq!(loaded["failure"]["statement"]["function"], "pool_use");
}

/// What threads share is in the frame of the one that created them, which finds it wrong in the end.
#[test]
fn a_lost_update_to_what_is_in_mains_frame() {
    let strange = Strange::of("till.cc");
    for level in ["-O0", "-O2"] {
        strange.compile(&["g++", level, "-g", "-pthread"], &["till.cc"], "till");
        let sketch = compared(&["--", &strange.file("till")]);
        assert_eq!(sketch["failure"]["statement"]["line"], strange.line("@fail"));
        let best = &sketch["predictors"][0];
        assert_eq!(best["pattern"], "RWW", "{level}: {best}");
        let torn = ["@read", "@write", "@write"].map(|mark| strange.line(mark));
        let statements = best["statements"].as_array().unwrap().iter();
        assert!(
            statements.map(|statement| &statement["line"]).eq(&torn),
            "{level}: {best}"
        );
        let variable = best["variable"].as_str().unwrap();
        assert!(variable.ends_with("fees_"), "{level}: {best}");
    }
}

/// Two fields that belong together are changed one after the other. In successful runs each of them is read before and after each
/// of its changes: neither tells alone.
#[test]
fn half_of_a_change_to_two_fields() {
    let strange = Strange::of("screen.c");
    strange.compile(&["gcc", "-O0", "-g", "-pthread"], &["screen.c"], "screen");
    let sketch = compared_with(9, &["--", &strange.file("screen")]);
    assert_eq!(sketch["failure"]["statement"]["line"], strange.line("@fail"));
    let best = &sketch["predictors"][0];
    assert_eq!(best["pattern"], "WRR", "{best}");
    assert_eq!(best["variable"], "screen.width, screen.height", "{best}");
    let [changed, width, height] =
        ["@width-write", "@width-read", "@height-read"].map(|mark| strange.line(mark));
    let read = |line| ("recorder", line, "R");
    assert_root(&sketch, &[("resizer", changed, "W"), read(width), read(height)]);
}

/// Optimised code updates two fields with one access, of which threads race for the second.
#[test]
fn a_lost_update_of_one_of_two_fields_that_are_accessed_together() {
    let strange = Strange::of("books.c");
    strange.compile(&["gcc", "-O2", "-g", "-pthread"], &["books.c"], "books");
    let sketch = compared_with(6, &["--", &strange.file("books")]);
    assert_eq!(sketch["failure"]["statement"]["line"], strange.line("@fail"));
    let best = &sketch["predictors"][0];
    // Whose update is lost is the scheduler's choice: what both race for is not.
    let variable = best["variable"].as_str().unwrap_or_default();
    assert!(variable.ends_with("total"), "{best}");
    let statements = best["statements"].as_array().unwrap();
    let has = |role: &str| {
        statements
            .iter()
            .any(|statement| statement["thread_role"] == role)
    };
    assert!(has("cashier") && has("banker"), "{best}");
}

/// Everything that threads share is behind a lock, whose word they touch far more often.
#[test]
fn an_index_that_another_thread_invalidated_while_nobody_held_the_lock() {
    let strange = Strange::of("prices.rs");
    // Where nobody is stopped, what the hits themselves hold of the stacks tells for whom `Vec::index` read.
    for (level, mode) in [("0", "exact"), ("2", "exact"), ("0", "observe"), ("2", "observe")] {
        let level = format!("-Copt-level={level}");
        let with = ["rustc", &level, "-g", "--edition=2024", "-Cpanic=abort"];
        strange.compile(&with, &["prices.rs"], "prices");
        let sketch = compared(&["--mode", mode, "--", &strange.file("prices")]);
        assert_eq!(sketch["failure"]["statement"]["line"], strange.line("@fail"));
        let [truncate, index] = ["@truncate", "@fail"].map(|mark| strange.line(mark));
        let accesses = [
            ("prices::discontinue", truncate, "W"),
            ("prices::quote", index, "R"),
        ];
        assert_root(&sketch, &accesses);
    }
}

/// The object that two threads race for came to them through memory, from a function that allocates everything: what was done
/// to it before they had it is seen all the same.
#[test]
fn an_object_is_watched_from_its_allocation_on() {
    let strange = Strange::of("shelf.c");
    for level in ["-O0", "-O2"] {
        strange.compile(&["gcc", level, "-g", "-pthread"], &["shelf.c"], "shelf");
        let sketch = compared(&["--", &strange.file("shelf")]);
        assert_eq!(sketch["failure"]["statement"]["line"], strange.line("@fail"));
        let steps = sketch["steps"].as_array().unwrap().iter();
        let lines: Vec<u64> = steps
            .filter_map(|step| step["statement"]["line"].as_u64())
            .collect();
        let main = ["@count", "@create"].map(|mark| strange.line(mark));
        assert!(
            main.iter().all(|line| lines.contains(line)),
            "{level}: {lines:?}: {sketch}"
        );
    }
}

/// Threads that leave all signals to others are watched all the same.
#[test]
fn threads_that_block_all_signals() {
    let strange = Strange::of("pool.c");
    let with = ["gcc", "-O2", "-g", "-pthread", "-DLINKED", "-DMASKED"];
    strange.compile(&with, &["pool_user.c", "pool.c"], "masked");
    in_the_pool(&strange, &[strange.file("masked")]);
}

fn closed_too_early(strange: &Strange) -> [(&'static str, u64, &'static str); 2] {
    let (close, used) = (strange.line("@close"), strange.line("@use"));
    [("main", close, "W"), ("user", used, "R")]
}

fn in_the_pool(strange: &Strange, command: &[String]) {
    let mut arguments = vec!["--"];
    arguments.extend(command.iter().map(String::as_str));
    let sketch = compared(&arguments);
    assert_eq!(sketch["failure"]["statement"]["line"], strange.line("@use"));
    let failing = failing_step(&sketch);
    assert_eq!(failing["variable"], "pool->memory", "{sketch}");
    assert_eq!(failing["access"], "R", "{failing}");
    assert_root(&sketch, &closed_too_early(strange));
}

/// The failing statement is in a function that the compiler inlined.
#[test]
fn an_inlined_function_of_rust() {
    let strange = Strange::of("gauge.rs");
    let with = ["rustc", "-Copt-level=2", "-g", "--edition=2024"];
    strange.compile(&with, &["gauge.rs"], "gauge");
    let sketch = compared(&["--", &strange.file("gauge")]);
    assert_eq!(sketch["failure"]["statement"]["line"], strange.line("@use"));
    assert_eq!(sketch["failure"]["statement"]["function"], "gauge::share");
    let [check, clear, again] = ["@check", "@clear", "@again"].map(|mark| strange.line(mark));
    let watcher = |line| ("gauge::watcher", line, "R");
    assert_root(
        &sketch,
        &[watcher(check), ("gauge::changer", clear, "W"), watcher(again)],
    );
}

/// A panic unwinds its thread, others follow, and the process ends with a status: it failed where the first panic was.
#[test]
fn panics_that_end_in_a_status() {
    let strange = Strange::of("stage.rs");
    let with = ["rustc", "-Copt-level=2", "-g", "--edition=2024"];
    strange.compile(&with, &["stage.rs"], "stage");
    let sketch = sketch(&["--fail-on", "exit!=0", "--", &strange.file("stage")]);
    let failure = &sketch["failure"];
    assert_eq!(failure["kind"], "exit-status");
    assert_eq!(failure["statement"]["line"], strange.line("@take"), "{failure}");
    assert_eq!(failure["statement"]["function"], "stage::consume");
    assert_eq!(
        failure["message"],
        "exit status 101: called `Option::unwrap()` on a `None` value"
    );
    let _failing = failing_step(&sketch);
}

/// A panic that the program catches is its own affair.
#[test]
fn panics_that_are_caught() {
    let strange = Strange::of("stage.rs");
    let with = ["rustc", "-Copt-level=2", "-g", "--edition=2024"];
    strange.compile(&with, &["stage.rs"], "stage");
    let program = strange.file("stage");
    let done = failsketch(&[
        "run",
        "--runs",
        "3",
        "--fail-on",
        "exit!=0",
        "--",
        &program,
        "caught",
    ]);
    assert!(done.stderr.contains("no failure in 3 runs"), "{}", done.stderr);
}

#[test]
fn a_template_of_which_there_are_several() {
    let strange = Strange::of("cache.cc");
    strange.compile(&["g++", "-O2", "-g", "-pthread"], &["cache.cc"], "cache");
    let sketch = compared(&["--", &strange.file("cache")]);
    assert_eq!(sketch["failure"]["statement"]["line"], strange.line("@use"));
    let function = sketch["failure"]["statement"]["function"].as_str().unwrap();
    assert!(function.starts_with("Cache<long>::"), "{function}");
    // The compiler joins the read of the slot with the read behind it.
    let (clear, used) = (strange.line("@clear"), strange.line("@use"));
    assert_root(&sketch, &[("writer", clear, "W"), ("reader", used, "R")]);
}

/// Statements without text where the sources are not, and instructions where debug information is not.
#[test]
fn without_sources_and_without_debug_information() {
    let strange = Strange::of("odd.c");
    let copy = strange.file("gone.c");
    std::fs::copy(path("odd.c"), &copy).unwrap();
    strange.compile(&["gcc", "-O2", "-g", "-pthread", &copy], &[], "nowhere");
    std::fs::remove_file(&copy).unwrap();
    let sketch_of = |file: &str| sketch(&["--", &strange.file(file)]);
    let absent = compared(&["--", &strange.file("nowhere")]);
    let statement = &absent["failure"]["statement"];
    assert_eq!(statement["line"], strange.line("@ship"));
    assert_eq!(statement.get("text"), None, "{statement}");
    let (cancel, ship) = (strange.line("@cancel"), strange.line("@ship"));
    assert_root(&absent, &[("cancel", cancel, "W"), ("main", ship, "R")]);
    strange.compile(&["gcc", "-O2", "-pthread"], &["odd.c"], "bare");
    let bare = sketch_of("bare");
    assert_eq!(bare["failure"]["statement"]["function"], "ship");
    strange.compile(&["gcc", "-O2", "-pthread", "-s"], &["odd.c"], "stripped");
    let stripped = sketch_of("stripped");
    assert_eq!(stripped["failure"]["signal"], "SIGSEGV");
    let pc = &stripped["failure"]["statement"]["pc"];
    assert!(pc.as_str().unwrap().starts_with("0x"), "{pc}");
}

/// The object that matters is another one in every run, and was written before anybody could know which.
#[test]
fn a_write_to_one_of_many_objects() {
    let program = Strange::of("buffers.c");
    program.compile(&["gcc", "-g", "-O0"], &["buffers.c"], "buffers");
    let sketch = compared_with(3, &["--", &program.file("buffers")]);
    assert_root(&sketch, &[("main", program.line("/* set */"), "W")]);
    assert_eq!(sketch["predictors"][0]["kind"], "value", "{sketch}");
}

/// Without optimisation the accesses to a smart pointer are made by a chain of the library's functions.
#[test]
fn a_race_over_a_smart_pointer() {
    let program = Strange::of("owner.cc");
    program.compile(&["g++", "-g", "-O0", "-pthread"], &["owner.cc"], "owner");
    let sketch = compared_with(3, &["--", &program.file("owner")]);
    let (reset, read) = (program.line("// reset"), program.line("// read"));
    assert_root(&sketch, &[("main", reset, "W"), ("respond", read, "R")]);
}

/// While a thread ends, the C library blocks all signals for it: that is no reason not to stop the others.
#[test]
fn threads_that_are_about_to_end() {
    let program = Strange::of("leaving.c");
    program.compile(&["gcc", "-g", "-O1", "-pthread"], &["leaving.c"], "leaving");
    let done = failsketch(&["run", "--json", "--failures", "2", "--", &program.file("leaving")]);
    assert!(done.status.success(), "{}: {}", done.how(), done.stderr);
    assert!(!done.stderr.contains("block the signals"), "{}", done.stderr);
}

/// A thread that blocks all signals cannot be stopped where it touches what is watched.
#[test]
fn a_thread_that_blocks_all_signals() {
    let program = Strange::of("unstoppable.c");
    program.compile(
        &["gcc", "-g", "-O1", "-pthread"],
        &["unstoppable.c"],
        "unstoppable",
    );
    let sketch = compared_with(3, &["--", &program.file("unstoppable")]);
    let (given, used) = (program.line("/* give back */"), program.line("/* use */"));
    assert_root(&sketch, &[("worker", given, "W"), ("main", used, "R")]);
}

/// Whoever allocates gets a block from the same function as everybody else.
#[test]
fn an_object_is_not_every_block_that_malloc_gives() {
    for level in ["-O0", "-O2"] {
        let program = Strange::of("blocks.c");
        program.compile(&["gcc", "-g", level, "-pthread"], &["blocks.c"], "blocks");
        let (drop, used) = (program.line("@drop"), program.line("@use"));
        let sketch = compared(&["--", &program.file("blocks")]);
        assert_eq!(failing_step(&sketch)["statement"]["line"], used, "{level}");
        assert_root(&sketch, &[("clean", drop, "W"), ("main", used, "R")]);
        assert_eq!(sketch["predictors"][0]["variable"], "job->result", "{level}");
    }
}

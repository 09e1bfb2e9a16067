//! A program that looks for signs of being watched finds none.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use failsketch_tests::running::Running;
use failsketch_tests::skip;
use failsketch_tests::target::Built;
use failsketch_tests::watch::Watch;

use crate::watching::Way;

fn unaware() -> Built {
    Built::c("unaware.c", "O1")
}

/// What a program printed, without its process id.
fn facts(printed: &str) -> Vec<String> {
    let lines = printed.lines().filter(|line| !line.starts_with("pid "));
    lines.map(str::to_owned).collect()
}

fn assert_same(what: &str, got: &[String], expected: &[String]) {
    let lines = got.len().max(expected.len());
    for line in 0..lines {
        assert_eq!(
            got.get(line),
            expected.get(line),
            "{what}: the program saw something else (left: watched, right: untouched)"
        );
    }
}

/// The number in a program's line `pid N`.
fn pid_in(running: &Running) -> u32 {
    let line = running.stdout_line("pid ").unwrap();
    line["pid ".len()..].parse().unwrap()
}

#[test]
fn when_attached() {
    let built = unaware();
    let untouched = built.run(&["child"]);
    assert_eq!(untouched.status.code(), Some(6));
    let expected = facts(&untouched.stdout);
    assert!(
        expected.iter().any(|line| line == "ended with 500"),
        "{expected:#?}"
    );
    for way in Way::ATTACHED {
        let mut target = built.start(&["child"]);
        let watch = Watch::attach(pid_in(&target), way.mode, &["shared"]);
        target.end_input();
        let done = target.finish();
        assert_same(&way.to_string(), &facts(&done.stdout), &expected);
        assert_eq!(done.status.code(), Some(6), "{way}: {}", done.how());
        let watched = watch.finish();
        assert!(watched.count > 40, "{way}: {}", watched.summary);
    }
}

#[test]
fn when_attached_for_a_moment() {
    let built = unaware();
    let expected = facts(&built.run(&["child"]).stdout);
    for way in Way::ATTACHED {
        for milliseconds in [0, 10, 30, 60, 100, 120] {
            let mut target = built.start(&["child"]);
            let watch = Watch::attach(pid_in(&target), way.mode, &["shared"]);
            target.end_input();
            thread::sleep(Duration::from_millis(milliseconds));
            watch.0.signal("TERM");
            let _ = watch.finish();
            let done = target.finish();
            let what = format!("{way}, left after {milliseconds} ms");
            assert_same(&what, &facts(&done.stdout), &expected);
            assert_eq!(done.status.code(), Some(6), "{what}: {}", done.how());
        }
    }
}

/// A traced process is woken by signals that it ignores: the kernel asks the tracer first. Observing does not trace.
#[test]
fn when_observed_and_disturbed_by_signals_that_it_ignores() {
    let built = unaware();
    let expected = facts(&built.run(&["child", "disturbed"]).stdout);
    let mut target = built.start(&["child", "disturbed"]);
    let watch = Watch::attach(pid_in(&target), "observe", &["shared"]);
    target.end_input();
    let done = target.finish();
    assert_same("observe", &facts(&done.stdout), &expected);
    let _ = watch.finish();
}

/// Shells ignore some signals for what they start in the background, and so does `nohup`. We handle them.
#[test]
fn when_launched_with_signals_ignored() {
    let built = unaware();
    let ignoring = |command: &Command| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' INT QUIT HUP TERM; exec \"$0\" \"$@\""]);
        shell.arg(command.get_program()).args(command.get_args());
        shell
    };
    let mut untouched = Running::start(&mut ignoring(&built.command(&["alone"])));
    untouched.end_input();
    let expected = facts(&untouched.finish().stdout);
    let signals = |facts: &[String]| facts.iter().find(|fact| fact.starts_with("signals ")).cloned();
    assert!(
        signals(&expected).unwrap().starts_with("signals i"),
        "{expected:#?}"
    );
    for way in Way::LAUNCHED {
        let exe = built.exe.to_str().unwrap();
        let words = ["--mode", way.mode, "--var", "shared", "--", exe, "alone"];
        let mut watch = Watch(Running::start(&mut ignoring(&Watch::command(words))));
        watch.0.end_input();
        let watched = watch.finish();
        assert_eq!(signals(&facts(&watched.stderr)), signals(&expected), "{way}");
    }
}

#[test]
fn when_launched() {
    let built = unaware();
    let untouched = built.run(&["alone"]);
    assert_eq!(untouched.status.code(), Some(5));
    let expected = facts(&untouched.stdout);
    for way in Way::LAUNCHED {
        let watched = Watch::launch(&built.command(&["alone"]), way.mode, &["shared"]).finish();
        let printed: Vec<String> = facts(&watched.stderr)
            .into_iter()
            .filter(|line| !line.starts_with("failsketch: "))
            .collect();
        assert_same(&way.to_string(), &printed, &expected);
        let ended = watched.summary["ended"].as_str().unwrap_or_default();
        assert!(ended.contains("status 5"), "{way}: {}", watched.summary);
        assert!(watched.count > 40, "{way}: {}", watched.summary);
    }
}

#[test]
fn when_it_blocks_the_signal_that_a_hit_is_made_of() {
    let built = Built::c("blocked.c", "O1");
    let untouched = built.run(&[]);
    for mode in ["auto", "observe", "exact"] {
        let mut target = built.start(&[]);
        let _ = target.stdout_line("ready").unwrap();
        let pid = target.pid().to_string();
        let watch = Watch::start(["--pid", &pid, "--mode", mode, "--var", "shared"]);
        if let Err(refusal) = watch.0.stderr_line("failsketch: watching ") {
            assert_eq!(mode, "exact", "only exact mode may refuse: {refusal}");
            assert_eq!(refusal.lines().count(), 1, "{refusal}");
            assert!(refusal.contains("SIGTRAP"), "{refusal}");
        } else {
            target.write(b"x");
            let _ = target.stdout_line("halfway").unwrap();
            watch.0.signal("INT");
            let watched = watch.finish();
            // What is blocked is not queued: exact mode sees less than it should, and may say so.
            assert!(
                mode == "exact" || watched.count + watched.lost == 50,
                "{mode}: {}",
                watched.summary
            );
        }
        let done = target.finish();
        assert_eq!(done.stdout, untouched.stdout, "{mode}: {}", done.how());
        assert_eq!(
            done.status.code(),
            untouched.status.code(),
            "{mode}: {}",
            done.how()
        );
    }
}

#[test]
fn by_its_system_calls() {
    if !skip::is_installed("strace") {
        skip::skipped("strace is not installed");
        return;
    }
    let built = Built::c("calls.c", "O1");
    let trace = |name: &str, watched: bool| {
        let file = built.folder.path().join(name);
        let mut strace = Command::new("strace");
        strace.args(["-f", "-o"]).arg(&file).arg(&built.exe);
        let mut target = Running::start(&mut strace);
        let pid = pid_in(&target);
        let watch = watched.then(|| Watch::attach(pid, "observe", &["shared"]));
        target.end_input();
        let done = target.finish();
        assert_eq!(done.status.code(), Some(3), "{}", done.how());
        if let Some(watch) = watch {
            // The program's own accesses: a child's are its own.
            let watched = watch.finish();
            assert_eq!(watched.count + watched.lost, 100, "{}", watched.summary);
        }
        calls(&fs::read_to_string(file).unwrap())
    };
    let untouched = trace("untouched", false);
    assert!(untouched.len() > 150, "{untouched:?}");
    assert_same("strace", &trace("watched", true), &untouched);
}

/// The calls of a trace with their results, without what differs from run to run: addresses and process ids.
fn calls(trace: &str) -> Vec<String> {
    let first = trace.split_whitespace().next().unwrap_or_default();
    let mut found = Vec::new();
    for line in trace.lines() {
        let Some((pid, rest)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let rest = rest.trim_start();
        // A child runs beside its parent; in the program's own calls there is an order.
        if pid != first || rest.contains("SIGCHLD") {
            continue;
        }
        let name = rest.split(['(', ' ']).next().unwrap_or_default();
        let result = rest.rsplit_once(" = ").map_or("", |(_, result)| result);
        let result = result.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        let stable = match result.parse::<u64>() {
            Ok(number) => number < 1000,
            Err(_) => !result.starts_with("0x"),
        };
        let resumed = rest.starts_with("<...");
        if !resumed {
            found.push(format!("{name} {}", if stable { &result } else { "" }));
        }
    }
    found
}

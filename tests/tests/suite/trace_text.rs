//! The text of a stack trace, from every tool that prints one, leads to the statement that the core leads to.

use std::path::Path;
use std::process::Command;

use failsketch_tests::failing::{HangCore, fail};
use failsketch_tests::folder::Folder;
use failsketch_tests::sample::Sample;
use failsketch_tests::skip::skipped;
use failsketch_tests::{gdb, process, zoo};

use crate::answer::failing_statement;

/// Collects what is wrong with several texts, so that one wrong text does not hide the others.
#[derive(Default)]
struct Problems(String);

impl Problems {
    fn expect(&mut self, what: &str, text: &str, exe: &Path, expected: &str) {
        let folder = Folder::new("trace");
        for (how, text) in [("", text.to_owned()), (" in a journal", gdb::in_journal(text))] {
            let file = folder.write("trace.txt", &text);
            match failing_statement(&file, exe) {
                Ok(found) if found == expected => {}
                Ok(found) => self.0 += &format!("{what}{how}: {found}, not {expected}\n{text}\n"),
                Err(error) => self.0 += &format!("{what}{how}: {error}\n{text}\n"),
            }
        }
    }

    fn report(self) {
        assert!(self.0.is_empty(), "\n{}", self.0);
    }
}

fn check_zoo_program(name: &str) {
    let program = zoo::program(name);
    let mut problems = Problems::default();
    for level in zoo::LEVELS {
        let exe = zoo::binary(name, level);
        let failed = fail(&program, &exe, HangCore::Live).unwrap();
        let expected = failing_statement(&failed.core, &exe).unwrap();
        let mut check = |tool: &str, text: &str| {
            problems.expect(&format!("{name} {level} {tool}"), text, &exe, &expected);
        };
        for command in ["bt", "thread apply all bt", "thread apply all bt full"] {
            check(command, &gdb::ask(&exe, &failed.core, command));
        }
        let stacks = gdb::stacks(&exe, &failed.core);
        let signal = program
            .facts
            .failure
            .signal
            .as_deref()
            .map_or("6 (ABRT)", |_| "11 (SEGV)");
        check(
            "coredumpctl",
            &gdb::as_coredumpctl(&stacks, &exe, signal, &build_id(&exe)),
        );
        check("perf", &gdb::as_perf(&stacks));
    }
    problems.report();
}

#[test]
fn of_a_fault_in_c() {
    check_zoo_program("pbzip2-queue");
}

#[test]
fn of_a_double_free_in_c() {
    check_zoo_program("apache-refcount");
}

#[test]
fn of_a_fault_in_cpp() {
    check_zoo_program("session-reaper");
}

#[test]
fn of_a_panic_in_rust() {
    check_zoo_program("process-list");
}

#[test]
fn another_build_in_coredumpctl_is_said() {
    let program = zoo::program("pbzip2-queue");
    let exe = zoo::binary("pbzip2-queue", "O0");
    let failed = fail(&program, &exe, HangCore::Live).unwrap();
    let folder = Folder::new("other-build");
    let other = "0123456789abcdef0123456789abcdef01234567";
    let text = gdb::as_coredumpctl(&gdb::stacks(&exe, &failed.core), &exe, "11 (SEGV)", other);
    let error = failing_statement(&folder.write("info.txt", text), &exe).unwrap_err();
    assert!(error.starts_with("exit status 1: "), "{error}");
    assert!(
        error.contains(other) && error.contains(&build_id(&exe)),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn of_address_sanitizer() {
    let mut problems = Problems::default();
    for compiler in ["gcc", "clang"] {
        for level in ["-O0", "-O2"] {
            let sample = Sample::build("freed.c", &[compiler, level, "-fsanitize=address"]);
            let text = sample.stderr(("ASAN_OPTIONS", "symbolize=1"));
            problems.expect(
                &format!("{compiler} {level}"),
                &text,
                &sample.exe,
                &format!("length_of {}", sample.fails_at),
            );
        }
    }
    problems.report();
}

#[test]
fn of_thread_sanitizer() {
    let mut problems = Problems::default();
    for compiler in ["gcc", "clang"] {
        let sample = Sample::build("race.c", &[compiler, "-O1", "-fsanitize=thread"]);
        let text = sample.stderr(("TSAN_OPTIONS", "symbolize=1"));
        if text.contains("unexpected memory mapping") {
            skipped("ThreadSanitizer does not run on this kernel");
            return;
        }
        problems.expect(
            compiler,
            &text,
            &sample.exe,
            &format!("count {}", sample.fails_at),
        );
    }
    problems.report();
}

#[test]
fn of_a_rust_backtrace() {
    let mut problems = Problems::default();
    for level in ["opt-level=0", "opt-level=2"] {
        let sample = Sample::build("panics.rs", &["rustc", "-C", level]);
        for amount in ["1", "full"] {
            let text = sample.stderr(("RUST_BACKTRACE", amount));
            problems.expect(
                &format!("{level} {amount}"),
                &text,
                &sample.exe,
                &format!("panics::Board::score {}", sample.fails_at),
            );
        }
    }
    problems.report();
}

/// What the kernel says about a fault, as older and as newer versions do: from the process that gdb stopped there.
fn kernel_lines(sample: &Sample, core: &Path) -> [String; 4] {
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let told = gdb::ask(&sample.exe, core, "p/x $pc");
    let ip = number(told.lines().find_map(|line| line.strip_prefix("$1 = ")).unwrap());
    let mappings = gdb::ask(&sample.exe, core, "info proc mappings");
    let exe = sample.exe.to_str().unwrap();
    let mapping = mappings
        .lines()
        .filter(|line| line.ends_with(exe))
        .find_map(|line| {
            let words: Vec<u64> = line.split_whitespace().take(4).map(number).collect();
            let [start, end, length, offset] = words[..] else {
                panic!("{line}")
            };
            (start..end).contains(&ip).then_some((start, length, offset))
        });
    let (start, length, offset) = mapping.unwrap_or_else(|| panic!("{ip:#x} is not in {mappings}"));
    let older = format!("program[{start:x}+{length:x}]");
    let newer = format!("program[{:x},{start:x}+{length:x}]", ip - start + offset);
    let fault = |place: &str| {
        format!(
            "[ 24601.983103] program[77]: segfault at 0 ip {ip:016x} sp 00007fff7ec81370 error 4 in {place}\n"
        )
    };
    let trap = |place: &str| {
        let what = "general protection fault";
        format!("[ 24601.983103] traps: program[77] {what} ip:{ip:x} sp:7fff7ec81370 error:0 in {place}\n")
    };
    [fault(&older), fault(&newer), trap(&older), trap(&newer)]
}

#[test]
fn of_the_kernel() {
    let mut problems = Problems::default();
    for options in [["-O0", "-no-pie"], ["-O0", "-pie"], ["-O2", "-pie"]] {
        let sample = Sample::build("tail.c", &["gcc", options[0], options[1]]);
        for text in kernel_lines(&sample, &sample.core()) {
            let expected = format!("finish {}", sample.fails_at);
            // Of the faults of a day the first is taken.
            let others = text
                .replace("program[77]", "program[78]")
                .replace("at 0 ", "at 40 ");
            problems.expect(&options.join(" "), &text, &sample.exe, &expected);
            problems.expect(&options.join(" "), &(text + &others), &sample.exe, &expected);
        }
    }
    problems.report();
}

#[test]
fn of_inlined_functions() {
    let mut problems = Problems::default();
    for compiler in ["g++", "clang++"] {
        for level in ["-O0", "-O2"] {
            let sample = Sample::build("inlined.cc", &[compiler, level, "-pthread"]);
            let core = sample.core();
            let expected = failing_statement(&core, &sample.exe).unwrap();
            for command in ["bt", "thread apply all bt"] {
                let text = gdb::ask(&sample.exe, &core, command);
                // gdb runs programs at a place of its own; most programs run elsewhere.
                for place in ["0x000055555555", "0x00005634c0de"] {
                    problems.expect(
                        &format!("{compiler} {level} {command} at {place}"),
                        &text.replace("0x000055555555", place),
                        &sample.exe,
                        &expected,
                    );
                }
            }
        }
    }
    for level in ["opt-level=0", "opt-level=3"] {
        let sample = Sample::build("inlined.rs", &["rustc", "-C", level]);
        for amount in ["0", "1", "full"] {
            let text = sample.stderr(("RUST_BACKTRACE", amount));
            problems.expect(
                &format!("{level} {amount}"),
                &text,
                &sample.exe,
                &format!("inlined::pick {}", sample.fails_at),
            );
        }
    }
    problems.report();
}

#[test]
fn of_a_library_that_inlines() {
    let sample = Sample::build("list.c", &["gcc", "-O0"]);
    let place = &sample.fails_at;
    let text = format!(
        "Program received signal SIGSEGV, Segmentation fault.\n\
         #0  __find_specmb (format=0x555555556004 \"%d\") at ./stdio-common/printf-parse.h:82\n\
         #1  __vfprintf_internal (s=0x7ffe7fb5c550, mode_flags=0) at ./stdio-common/vfprintf-internal.c:759\n\
         #2  0x00007f2ec671c758 in __vsnprintf_internal (maxlen=8) at ./libio/vsnprintf.c:114\n\
         #3  0x00005634c0de0001 in apply (item=0x4141) at {place}\n"
    );
    let mut problems = Problems::default();
    problems.expect("gdb", &text, &sample.exe, &format!("apply {place}"));
    problems.report();
}

#[test]
fn of_glibc_backtrace() {
    let mut problems = Problems::default();
    for options in [
        ["-O0", "-no-pie"],
        ["-O2", "-no-pie"],
        ["-O0", "-pie"],
        ["-O2", "-pie"],
    ] {
        let sample = Sample::build("handler.c", &["gcc", options[0], options[1], "-rdynamic"]);
        let text = sample.stderr(("LC_ALL", "C"));
        problems.expect(
            &options.join(" "),
            &text,
            &sample.exe,
            &format!("release {}", sample.fails_at),
        );
    }
    problems.report();
}

fn build_id(exe: &Path) -> String {
    let notes = process::tool(Command::new("readelf").arg("-n").arg(exe), Path::new("/"));
    let line = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    line.unwrap().to_owned()
}

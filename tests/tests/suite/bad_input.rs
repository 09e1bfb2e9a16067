//! What is not a program, a core or a trace: one clear line, exit status 1 or 2, and soon.

use std::fs;
use std::path::Path;
use std::process::Command;

use failsketch_tests::failing::{HangCore, fail};
use failsketch_tests::process::Finished;
use failsketch_tests::sample::Sample;
use failsketch_tests::{command, process, zoo};

/// Collects what is wrong with several commands.
#[derive(Default)]
struct Refusals(String);

impl Refusals {
    /// Expects one line on standard error that contains `says`, and exit status 1.
    fn refuses(&mut self, arguments: &[&str], says: &str) {
        let done = command::failsketch(arguments);
        let line = done.stderr.trim_end();
        if done.how() != "exit status 1" || line.lines().count() != 1 || !line.contains(says) {
            self.wrong(
                arguments,
                &done,
                &format!("not one line with {says:?} and status 1"),
            );
        }
    }

    /// Expects an explanation of the usage, and exit status 2.
    fn explains(&mut self, arguments: &[&str]) {
        let done = command::failsketch(arguments);
        if done.how() != "exit status 2" || done.stderr.contains("panicked") || done.stderr.is_empty() {
            self.wrong(arguments, &done, "not an explanation and status 2");
        }
    }

    fn wrong(&mut self, arguments: &[&str], done: &Finished, expected: &str) {
        let said = done.stderr.chars().take(500).collect::<String>();
        self.0 += &format!(
            "failsketch {}\n  {}: {said:?}\n  {expected}\n",
            arguments.join(" "),
            done.how()
        );
    }

    fn report(self) {
        assert!(self.0.is_empty(), "\n{}", self.0);
    }
}

fn list() -> Sample {
    Sample::build("list.c", &["gcc", "-O2"])
}

fn utf8(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn programs() {
    let sample = list();
    let folder = &sample.folder;
    let elf = fs::read(&sample.exe).unwrap();
    let patched = |name: &str, at: usize, value: &[u8]| {
        let mut bytes = elf.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        folder.write(name, bytes)
    };
    let object = folder.path().join("list.o");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/list.c");
    let mut gcc = Command::new("gcc");
    let _ = process::tool(gcc.arg("-c").arg(source).arg("-o").arg(&object), folder.path());
    let pipe = folder.path().join("pipe");
    let _ = process::tool(Command::new("mkfifo").arg(&pipe), folder.path());
    let core = sample.core();
    let cases = [
        (folder.write("text", "not a program\n"), "not an ELF file"),
        (folder.write("empty", ""), "not an ELF file"),
        (folder.write("magic", "\x7fELF"), "damaged"),
        (folder.path().to_owned(), "not a regular file"),
        (folder.path().join("nothing"), "No such file"),
        (pipe, "not a regular file"),
        ("/dev/null".into(), "not a regular file"),
        (core, "this is a core"),
        (object, "object file"),
        (patched("aarch64", 18, &183_u16.to_le_bytes()), "not for x86-64"),
        (patched("32-bit", 4, &[1]), "not for x86-64"),
        (patched("big-endian", 5, &[2]), "not for x86-64"),
        (patched("type", 16, &77_u16.to_le_bytes()), "unknown type 77"),
        (folder.write("header", &elf[..64]), "damaged"),
    ];
    let trace = folder.write("trace", "#0  0x0000000000001139 in sum (most=100) at list.c:34\n");
    let mut refusals = Refusals::default();
    for (exe, says) in &cases {
        let exe = utf8(exe);
        refusals.refuses(&["slice", "--exe", exe, "--pc", "0x1139"], says);
        refusals.refuses(&["slice", "--exe", exe, "--at", "list.c:34"], says);
        refusals.refuses(&["triage", utf8(&trace), "--exe", exe], says);
    }
    refusals.report();
}

#[test]
fn places() {
    let sample = list();
    let exe = utf8(&sample.exe);
    let mut refusals = Refusals::default();
    let mut by = |option: &str, value: &str, says: &str| {
        refusals.refuses(&["slice", "--exe", exe, option, value], says);
    };
    by("--at", "list.c:1", "has no code");
    by("--at", "list.c:4000000000", "list.c");
    by("--at", "lost.c:10", "lost.c");
    by("--at", "\x1b[31m.c:10", "[31m.c");
    by("--pc", "0x0", "0x0 ");
    by("--pc", "0x10", "not code");
    by("--pc", "0xffffffffffffffff", "0xffffffffffffffff");
    // Where Linux loads position-independent programs, with and without randomisation.
    by("--pc", "0x555555555189", "run-time address");
    by("--pc", "0x5634eff6d6b9", "run-time address");
    for at in [
        "list.c",
        "list.c:",
        ":34",
        "list.c:0",
        "list.c:-1",
        "list.c:x",
        "list.c:99999999999",
        "",
    ] {
        refusals.explains(&["slice", "--exe", exe, "--at", at]);
    }
    for pc in ["main", "0x", "", "0x1139 ", "0x11223344556677889900"] {
        refusals.explains(&["slice", "--exe", exe, "--pc", pc]);
    }
    refusals.explains(&["slice", "--exe", exe]);
    refusals.explains(&["slice", "--exe", exe, "--pc", "0x1139", "--at", "list.c:34"]);
    refusals.explains(&["slice", "--pc", "0x1139"]);
    refusals.explains(&["slice", "--exe", exe, "--pc", "0x1139", "--max", "many"]);
    refusals.explains(&["triage", "--exe", exe]);
    refusals.explains(&["sketch"]);
    refusals.explains(&[]);
    refusals.report();
}

#[test]
fn failures() {
    let sample = list();
    let folder = &sample.folder;
    let exe = utf8(&sample.exe);
    let core = fs::read(sample.core()).unwrap();
    let long = "x".repeat(10 << 20);
    let cases = [
        (folder.path().join("nothing"), "No such file"),
        (folder.path().to_owned(), "not a regular file"),
        (folder.write("empty", ""), "empty"),
        (folder.write("blank", "\n\n  \n"), "no stack frames"),
        (
            folder.write("prose", "It crashed again.\nPlease help.\n"),
            "no stack frames",
        ),
        (
            folder.write("bytes", [0xff, 0, 0x80, 0x1b].repeat(1000)),
            "no stack frames",
        ),
        (folder.write("long", &long), "no stack frames"),
        (
            folder.write("foreign", "#0  0x00007f12 in lost () from /opt/other.so\n"),
            "is it the right binary",
        ),
        (
            folder.write(
                "stripped",
                format!("Core was generated by `{exe}'.\n#0  0x00005634c0de1139 in ?? ()\n"),
            ),
            "give the core",
        ),
        (
            folder.write(
                "python",
                "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n",
            ),
            "Python",
        ),
        (sample.exe.clone(), "core"),
        (folder.write("header", &core[..64]), "core"),
        (folder.write("cut", &core[..200]), "core"),
    ];
    let mut refusals = Refusals::default();
    for (file, says) in &cases {
        refusals.refuses(&["triage", utf8(file), "--exe", exe], says);
        let option = if says == &"core" { "--core" } else { "--trace" };
        refusals.refuses(&["slice", option, utf8(file), "--exe", exe], says);
    }
    refusals.refuses(&["slice", "--core", utf8(&cases[4].0), "--exe", exe], "not");
    refusals.report();
}

/// A log line without end beside a good trace does not hide it.
#[test]
fn a_long_line_beside_a_trace() {
    let sample = list();
    let Sample {
        folder,
        exe,
        fails_at,
        ..
    } = &sample;
    let frame = format!("#0  apply (item=0x0) at {fails_at}");
    let long = "#0 0x12 in (".repeat(1 << 20);
    let trace = folder.write("trace", format!("{long}\n\n{frame}\n{long}\n"));
    let done = command::failsketch(["triage", utf8(&trace), "--exe", utf8(exe)]);
    assert!(done.status.success(), "{}: {}", done.how(), done.stderr);
    assert!(done.stdout.contains(&fails_at.to_string()), "{}", done.stdout);
}

#[test]
fn a_core_of_another_build() {
    let program = zoo::program("pbzip2-queue");
    let [built, other] = zoo::LEVELS.map(|level| zoo::binary("pbzip2-queue", level));
    let failed = fail(&program, &built, HangCore::Live).unwrap();
    let [core, other] = [&failed.core, &other].map(|path| utf8(path));
    let mut refusals = Refusals::default();
    refusals.refuses(&["triage", core, "--exe", other], "give the binary that failed");
    refusals.refuses(
        &["slice", "--core", core, "--exe", other],
        "give the binary that failed",
    );
    refusals.refuses(&["triage", core, "--exe", "/bin/true"], "/bin/true");
    refusals.report();
}

#[test]
fn a_stripped_program_is_sliced_by_instruction() {
    let sample = list();
    let core = sample.core();
    let exe = utf8(&sample.exe);
    let whole = command::json(["slice", "--exe", exe, "--core", utf8(&core), "--json"]).unwrap();
    let pc = whole["criterion"]["pc"].as_str().unwrap();
    let _ = process::tool(Command::new("strip").arg(exe), sample.folder.path());
    for from in [["--pc", pc], ["--core", utf8(&core)]] {
        let slice = command::json(["slice", "--exe", exe, from[0], from[1], "--json"]).unwrap();
        let statements = slice["statements"].as_array().unwrap();
        assert!(statements.len() > 3, "{slice:#}");
        let is_instruction = |statement: &serde_json::Value| {
            statement["pc"].is_string() && statement["line"].is_null() && statement["file"].is_null()
        };
        assert!(
            statements.iter().all(|item| is_instruction(&item["statement"])),
            "{slice:#}"
        );
        assert_eq!(slice["criterion"]["pc"], pc);
        let notes = slice["notes"].to_string();
        assert!(notes.contains("no debug information"), "{notes}");
    }
    let mut refusals = Refusals::default();
    refusals.refuses(&["slice", "--exe", exe, "--at", "list.c:34"], "debug information");
    refusals.report();
}

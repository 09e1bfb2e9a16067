//! Real programs that really crash, and gdb's word on the cores they leave.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use failure::image::ModuleFiles;
use program::BuildId;

/// A folder that goes away with its owner.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "failure-cores-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Says that a test does not test. Written past the capture of the test harness, which hides what a passing
/// test prints.
fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
}

/// Builds `tests/programs/crashes.c`.
pub fn build(folder: &Folder, compiler: &str, options: &[&str]) -> PathBuf {
    build_from("crashes.c", folder, compiler, options)
}

/// Builds a program of `tests/programs`.
pub fn build_from(source: &str, folder: &Folder, compiler: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    let program = folder.path().join("program");
    let usual: &[&str] = if compiler == "rustc" {
        &["-g", "--edition=2024"]
    } else {
        &["-g", "-pthread", "-w"]
    };
    let status = Command::new(compiler)
        .args(usual)
        .args(options)
        .arg("-o")
        .arg(&program)
        .arg(source)
        .status()
        .unwrap_or_else(|error| panic!("{compiler} does not start ({error}): install it"));
    assert!(status.success(), "{compiler} {options:?} fails");
    program
}

/// Runs a program to its end and returns the core it left: the kernel's, or gdb's where the kernel hands
/// cores to somebody else. `None`, and a line on the test's output, when neither can be had.
pub fn crash(program: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    crash_after(":", program, arguments)
}

/// As [`crash`], after a command of the shell that starts the program. Only the kernel minds it.
pub fn crash_after(setup: &str, program: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let runs = Folder::new();
    if pattern.starts_with(['|', '/']) {
        let status = Command::new("gdb")
            .args([
                "-nx",
                "-batch",
                "-ex",
                "run",
                "-ex",
                "generate-core-file core",
                "--args",
            ])
            .arg(program)
            .args(arguments)
            .current_dir(runs.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !status.is_ok_and(|status| status.success()) {
            skipped(&format!(
                "cores go to {} here, and gdb is not there to write one",
                pattern.trim()
            ));
            return None;
        }
    } else {
        let limited = format!("ulimit -c unlimited && {setup} && exec \"$0\" \"$@\"");
        let status = Command::new("sh")
            .args(["-c", &limited])
            .arg(program)
            .args(arguments)
            .current_dir(runs.path())
            .stderr(Stdio::null())
            .status();
        assert!(!status.unwrap().success(), "{arguments:?} does not fail");
    }
    let core = fs::read_dir(runs.path()).unwrap().flatten().next();
    if core.is_none() {
        skipped("no core was written (is the hard limit on cores 0?)");
    }
    core.map(|core| fs::read(core.path()).unwrap())
}

/// Starts a program, waits for its first line, and takes a core of it with `gcore`.
pub fn live_core(program: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let folder = Folder::new();
    let mut process = Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    // The line comes before the call that blocks.
    std::thread::sleep(Duration::from_millis(200));
    let prefix = folder.path().join("core");
    let taken = Command::new("gcore")
        .arg("-o")
        .arg(&prefix)
        .arg(process.id().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    process.kill().unwrap();
    process.wait().unwrap();
    if !taken.is_ok_and(|status| status.success()) {
        skipped("gcore is not there or may not trace");
        return None;
    }
    let core = fs::read_dir(folder.path()).unwrap().flatten().next();
    Some(fs::read(core.unwrap().path()).unwrap())
}

/// Files from this machine's disk.
#[derive(Default)]
pub struct Disk {
    read: RefCell<HashMap<String, Option<&'static [u8]>>>,
}

impl ModuleFiles for Disk {
    fn module(&self, path: &str, _: Option<&BuildId>) -> Option<&[u8]> {
        let mut read = self.read.borrow_mut();
        let entry = read.entry(path.to_owned());
        *entry.or_insert_with(|| fs::read(path).ok().map(|bytes| &*bytes.leak()))
    }
}

/// No files at all.
pub struct NoFiles;

impl ModuleFiles for NoFiles {
    fn module(&self, _: &str, _: Option<&BuildId>) -> Option<&[u8]> {
        None
    }
}

/// The frames' addresses as gdb finds them, by thread id, each thread's innermost first, up to `limit`.
pub fn gdb_stacks(program: &Path, core: &[u8], limit: usize) -> Option<HashMap<u64, Vec<u64>>> {
    let folder = Folder::new();
    let file = folder.path().join("core");
    fs::write(&file, core).unwrap();
    let script = format!(
        "python\n\
         for t in gdb.selected_inferior().threads():\n\
         \x20 t.switch()\n\
         \x20 f = gdb.newest_frame()\n\
         \x20 n = 0\n\
         \x20 while f is not None and n < {limit}:\n\
         \x20   if f.type() in (gdb.NORMAL_FRAME, gdb.SIGTRAMP_FRAME):\n\
         \x20     print('FRAME', t.ptid[1] or t.ptid[0], f.pc())\n\
         \x20     n += 1\n\
         \x20   f = f.older()\n\
         end\n"
    );
    let script_file = folder.path().join("walk.gdb");
    fs::write(&script_file, script).unwrap();
    let output = Command::new("gdb")
        .args([
            "-nx",
            "-batch",
            "-ex",
            "set backtrace past-main on",
            "-ex",
            "set backtrace past-entry on",
        ])
        .arg("-x")
        .arg(&script_file)
        .arg(program)
        .arg(&file)
        .env("DEBUGINFOD_URLS", "")
        .output();
    let Ok(output) = output else {
        skipped("no gdb to compare with");
        return None;
    };
    let mut stacks: HashMap<u64, Vec<u64>> = HashMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("FRAME") {
            let mut number = || words.next().unwrap().parse().unwrap();
            let tid = number();
            stacks.entry(tid).or_default().push(number());
        }
    }
    assert!(
        !stacks.is_empty(),
        "gdb found no frames: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(stacks)
}

//! What cannot be watched: one clear line that says what to do, and exit status 1.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use failsketch_tests::folder::Folder;
use failsketch_tests::process::{self, Finished};
use failsketch_tests::running::Running;
use failsketch_tests::skip;
use failsketch_tests::target::Built;
use failsketch_tests::watch::Watch;
use program::RunAddr;
use tracee::Tid;
use tracee::perf::{Breakpoint, DEBUG_REGISTERS, Delivery, Follow, Range, Start, Trigger};

use crate::watching::{as_nobody, is_clean, is_root, public_copy};

/// One line that has all of `says`, nothing on standard output, exit status 1.
fn assert_refused(what: &str, done: &Finished, says: &[&str]) {
    let line = done.stderr.trim_end();
    let lower = line.to_lowercase();
    assert!(
        done.how() == "exit status 1"
            && line.lines().count() == 1
            && line.starts_with("failsketch: ")
            && says.iter().all(|part| lower.contains(&part.to_lowercase()))
            && done.stdout.is_empty(),
        "{what}: not one line with {says:?} and status 1 but {}:\n{}{}",
        done.how(),
        done.stdout,
        done.stderr
    );
}

fn refused(what: &str, arguments: &[&str], says: &[&str]) {
    let done = Watch::start(arguments).0.finish();
    assert_refused(what, &done, says);
}

fn refused_pid(what: &str, pid: u32, mode: &str, says: &[&str]) {
    let pid = pid.to_string();
    refused(what, &["--pid", &pid, "--mode", mode, "--var", "shared"], says);
}

/// A program that waits for us to let it go on, which it does unharmed.
struct Bystander(Running);

impl Bystander {
    fn of(built: &Built) -> Self {
        Self(built.start_ready(&["2"]))
    }

    fn end_unharmed(self) {
        is_clean(self.0.pid()).unwrap();
        let done = self.0.finish();
        assert_eq!(done.status.code(), Some(3), "{}", done.how());
    }
}

#[test]
fn another_debugger_is_attached() {
    if !skip::is_installed("strace") {
        skip::skipped("strace is not installed");
        return;
    }
    let built = Built::c("contended.c", "O2");
    let target = Bystander::of(&built);
    let pid = target.0.pid();
    let mut strace = Command::new("strace");
    let mut holder = Running::start(strace.args(["-p", &pid.to_string()]));
    holder.stderr_line("strace: Process").unwrap();
    refused_pid("traced", pid, "exact", &[&holder.pid().to_string(), "strace"]);
    holder.signal("INT");
    while holder.runs() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    target.end_unharmed();
}

#[test]
fn all_debug_registers_are_taken() {
    let built = Built::c("contended.c", "O2");
    let target = Bystander::of(&built);
    let anywhere = Trigger::Write(Range::new(RunAddr(0x1000), 8).unwrap());
    let hold = |_| {
        let thread = Tid(target.0.pid());
        Breakpoint::open(
            thread,
            anywhere,
            Delivery::Silent,
            Follow::Nobody,
            Start::Disabled,
        )
        .unwrap()
    };
    let held: Vec<Breakpoint> = (0..DEBUG_REGISTERS).map(hold).collect();
    for mode in ["observe", "exact", "auto"] {
        refused_pid("no register", target.0.pid(), mode, &["debug register"]);
    }
    drop(held);
    target.end_unharmed();
}

#[test]
fn somebody_else_s_process_and_missing_capabilities() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("nobody");
    let copy = public_copy(&folder);
    let built = Built::c("contended.c", "O2");
    let target = Bystander::of(&built);
    let pid = target.0.pid().to_string();
    for mode in ["observe", "exact", "auto"] {
        let words = [
            "watch", "--json", "--pid", &pid, "--mode", mode, "--var", "shared",
        ];
        let done = Running::start(as_nobody(&copy).args(words)).finish();
        assert_refused("nobody", &done, &[&pid, "as root"]);
        // Root of a container without capabilities, and a process of somebody else.
        let mut other = as_nobody(Path::new("sleep"));
        let mut other = other.arg("100").stdout(Stdio::null()).spawn().unwrap();
        let mut powerless = Command::new("setpriv");
        powerless
            .args(["--bounding-set=-all", "--inh-caps=-all"])
            .arg(&copy);
        let other_pid = other.id().to_string();
        let words = [
            "watch", "--json", "--pid", &other_pid, "--mode", mode, "--addr", "0x1000:4",
        ];
        let done = Running::start(powerless.args(words)).finish();
        other.kill().unwrap();
        other.wait().unwrap();
        assert_refused("without capabilities", &done, &["CAP_"]);
    }
    target.end_unharmed();
}

/// Root, but only of a user namespace of its own: to run as root is no advice there.
#[test]
fn a_process_outside_of_our_user_namespace() {
    let inside = ["--user", "--map-root-user"];
    let possible = Command::new("unshare").args(inside).arg("true").status();
    if !possible.is_ok_and(|status| status.success()) {
        return skip::skipped("user namespaces cannot be made");
    }
    let folder = Folder::new("namespace");
    let copy = public_copy(&folder);
    let built = Built::c("contended.c", "O2");
    let target = Bystander::of(&built);
    let pid = target.0.pid().to_string();
    for mode in ["observe", "exact", "auto"] {
        let mut command = Command::new("unshare");
        command.args(inside).arg(&copy);
        command.args([
            "watch", "--json", "--pid", &pid, "--mode", mode, "--var", "shared",
        ]);
        let done = Running::start(&mut command).finish();
        assert_refused("in a namespace", &done, &[&pid, "user namespace"]);
    }
    target.end_unharmed();
}

#[test]
fn a_32_bit_program() {
    let folder = Folder::new("narrow");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/narrow.s");
    let mut assembler = Command::new("as");
    let _ = process::tool(
        assembler.args(["--32", "-g", "-o", "narrow.o"]).arg(source),
        folder.path(),
    );
    let mut linker = Command::new("ld");
    let _ = process::tool(
        linker.args(["-m", "elf_i386", "narrow.o", "-o", "narrow"]),
        folder.path(),
    );
    let exe = folder.path().join("narrow");
    let exe_text = exe.to_str().unwrap();
    refused("launched", &["--var", "counter", "--", exe_text], &["x86-64"]);
    let target = Command::new(&exe)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut target) = target else {
        skip::skipped("this kernel does not run 32-bit programs");
        return;
    };
    let pid = target.id().to_string();
    for mode in ["observe", "exact"] {
        let words = ["--pid", &pid, "--mode", mode, "--var", "counter"];
        refused("attached", &words, &["32-bit"]);
        let words = ["--pid", &pid, "--mode", mode, "--addr", "0x1000:4"];
        refused("attached", &words, &["32-bit"]);
    }
    drop(target.stdin.take());
    assert_eq!(target.wait().unwrap().code(), Some(3));
}

#[test]
fn what_is_no_process_any_more_or_never_was_one() {
    let mut ended = Command::new("true").spawn().unwrap();
    let pid = ended.id();
    let exited = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| stat.contains(") Z "))
    };
    while !exited() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    for mode in ["observe", "exact", "auto"] {
        refused_pid("zombie", pid, mode, &[&pid.to_string()]);
    }
    ended.wait().unwrap();
    for mode in ["observe", "exact", "auto"] {
        refused_pid("no process", pid, mode, &["no process"]);
        refused_pid("no process", 4_194_303, mode, &["no process"]);
    }
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        refused_pid("kernel thread", 2, "auto", &["thread of the kernel"]);
    }
}

/// Whatever a program does while we come, the command ends: with what it saw, or with one line.
#[test]
fn a_program_that_ends_meanwhile() {
    let built = Built::c("names.c", "O2");
    for number in 0..60_u64 {
        let mut target = built.start_ready(&[]);
        let mode = ["observe", "exact"][number as usize % 2];
        let pid = target.pid().to_string();
        let watch = Watch::start(["--pid", &pid, "--mode", mode, "--var", "plain_global"]);
        std::thread::sleep(std::time::Duration::from_micros(number * 700));
        target.end_input();
        let done = target.finish();
        assert_eq!(done.status.code(), Some(3), "{mode}: {}", done.how());
        let done = watch.0.finish();
        if done.status.success() {
            assert!(
                done.stdout
                    .lines()
                    .last()
                    .is_some_and(|line| line.starts_with("{\"summary\""))
            );
        } else {
            assert_refused(mode, &done, &[&pid]);
        }
    }
}

#[test]
fn variables_that_are_not_there_or_do_not_fit() {
    let built = Built::c("names.c", "O0");
    let exe = built.exe.to_str().unwrap();
    let cases: [(&[&str], &[&str]); 8] = [
        (&["plain_globel"], &["plain_globel", "plain_global"]),
        (&["outer.inner.depe"], &["depe", "deep"]),
        (&["elsewhere.c:own"], &["elsewhere.c"]),
        (&["of_a_thread"], &["thread"]),
        (&["wide"], &["72", "32"]),
        (&["plain_global.x"], &["plain_global"]),
        (&["*plain_global"], &["plain_global", "pointer"]),
        (
            &["plain_global", "own", "state", "outer.inner.deep", "outer.share"],
            &["debug registers"],
        ),
    ];
    for (names, says) in cases {
        let named: Vec<&str> = names.iter().flat_map(|name| ["--var", name]).collect();
        let launched = [&named[..], &["--", exe]].concat();
        refused(&format!("launched {names:?}"), &launched, says);
        let target = built.start_ready(&[]);
        let pid = target.pid().to_string();
        let attached = [&["--pid", &pid], &named[..]].concat();
        refused(&format!("attached {names:?}"), &attached, says);
        assert_eq!(target.finish().status.code(), Some(3));
    }
}

#[test]
fn programs_that_cannot_be_started() {
    let folder = Folder::new("unstartable");
    let text = folder.write("text", "not a program");
    let script = folder.write("script", "#!/no/such/interpreter\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let cases = [
        ("/no/such/program", "/no/such/program"),
        ("no-such-program-in-the-path", "no-such-program-in-the-path"),
        (text.to_str().unwrap(), "text"),
        (script.to_str().unwrap(), "script"),
        (folder.path().to_str().unwrap(), "unstartable"),
    ];
    for (program, says) in cases {
        refused("launched", &["--var", "shared", "--", program], &[says]);
        refused("launched", &["--addr", "0x1000:4", "--", program], &[says]);
    }
}

#[test]
fn wrong_usage_is_explained() {
    let cases: [&[&str]; 8] = [
        &[],
        &["--pid", "1"],
        &["--var", "x"],
        &["--pid", "1", "--var", "x", "--", "true"],
        &["--pid", "x", "--var", "x"],
        &["--pid", "1", "--var", "x", "--mode", "quick"],
        &["--pid", "1", "--addr", "there"],
        &["--pid", "1", "--addr", "0x1000:many"],
    ];
    for arguments in cases {
        let done = Watch::start(arguments).0.finish();
        assert_eq!(done.how(), "exit status 2", "{arguments:?}: {}", done.stderr);
        assert!(
            done.stdout.is_empty() && done.stderr.contains("--help"),
            "{arguments:?}: {}",
            done.stderr
        );
    }
}

/// Debug registers that outlive their owner would kill the program.
#[test]
fn compat_mode_for_a_program_that_runs_already() {
    let built = Built::c("contended.c", "O2");
    let target = Bystander::of(&built);
    refused_pid("compat", target.0.pid(), "compat", &["compat"]);
    target.end_unharmed();
}

//! Processes that cannot be traced, each with its own reason.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod traced;

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;

use failsketch_tests::folder::Folder;
use failsketch_tests::process::tool;
use failsketch_tests::skip::skipped;
use traced::until;
use tracee::process::Process;
use tracee::ptrace::{AttachError, TraceError, Tracer, on_own_thread};
use tracee::{Pid, Tid};

fn attach(pid: Pid) -> Result<(), AttachError> {
    match on_own_thread(|| Tracer::attach(pid, false).map(|_| ())) {
        Ok(()) => Ok(()),
        Err(TraceError::Attach(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid(self.0.id())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn processes_that_are_not_there() {
    let mut sleeper = Sleeper::new();
    sleeper.0.kill().unwrap();
    let process = Process::new(sleeper.pid());
    until("it is over", || process.is_zombie().unwrap());
    assert!(matches!(attach(sleeper.pid()), Err(AttachError::Zombie(_))));
    sleeper.0.wait().unwrap();
    assert!(matches!(attach(sleeper.pid()), Err(AttachError::NoProcess(_))));
    assert!(matches!(attach(Pid(u32::MAX)), Err(AttachError::NoProcess(_))));
    assert!(matches!(attach(Pid(0)), Err(AttachError::NoProcess(_))));
}

#[test]
fn ourselves_and_single_threads() {
    assert!(matches!(attach(Pid::this()), Err(AttachError::Itself(_))));
    let thread = thread::spawn(|| {
        let this = Pid(Tid::this().0);
        attach(this)
    });
    let refused = thread.join().unwrap();
    assert!(matches!(refused, Err(AttachError::NotFirst { process, .. }) if process == Pid::this()));
}

#[test]
fn threads_of_the_kernel() {
    let all = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut kernel = all.map(Pid).filter(|&pid| {
        Process::new(pid)
            .status()
            .is_ok_and(|status| status.kernel_thread)
    });
    let Some(pid) = kernel.next() else {
        return skipped("the kernel's threads are not to be seen in this container");
    };
    assert!(matches!(attach(pid), Err(AttachError::KernelThread { .. })));
}

#[test]
fn a_process_that_has_a_tracer() {
    let sleeper = Sleeper::new();
    on_own_thread(|| {
        let _first = Tracer::attach(sleeper.pid(), false).unwrap();
        let error = attach(sleeper.pid()).unwrap_err();
        let AttachError::Traced {
            tracer, ref command, ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!(tracer, Tid::this());
        assert!(command.contains("refused"), "{command}");
    });
    attach(sleeper.pid()).unwrap();
}

#[test]
fn a_process_of_another_user() {
    const INNER: &str = "FAILSKETCH_TEST_FOREIGN";
    const NOBODY: u32 = 65534;
    if let Ok(pid) = env::var(INNER) {
        let error = attach(Pid(pid.parse().unwrap())).unwrap_err();
        assert!(matches!(error, AttachError::OtherUser { user: 0, .. }), "{error}");
        return;
    }
    if Process::new(Pid::this()).status().unwrap().user != 0 {
        return skipped("only root can become somebody else");
    }
    // Where everybody can execute it.
    let folder = Folder::new("refused");
    let program = folder.path().join("refused");
    // By another process: a file that this one has open for writing cannot be executed, and a fork in another
    // test would keep it open.
    let _ = tool(
        Command::new("cp").arg(env::current_exe().unwrap()).arg(&program),
        folder.path(),
    );
    for path in [folder.path(), &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let sleeper = Sleeper::new();
    let done = Command::new(&program)
        .args(["--exact", "a_process_of_another_user"])
        .env(INNER, sleeper.pid().to_string())
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

/// Whatever the moment, the answer is one of four, and no tracee is left behind.
#[test]
fn processes_that_end_meanwhile() {
    for round in 0..60 {
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        thread::sleep(std::time::Duration::from_micros(60 * round));
        // The parent must be another thread than the tracer's; it is.
        match attach(Pid(child.id())) {
            Ok(())
            | Err(AttachError::Zombie(_) | AttachError::EndedMeanwhile(_) | AttachError::NoProcess(_)) => (),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
}

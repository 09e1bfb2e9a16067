//! A process that an agent is attached to comes to a standstill: that is seen and explained, and the process does not notice.

use std::process::Command;

use failsketch_tests::command;
use failsketch_tests::folder::Folder;
use failsketch_tests::running::Running;
use serde_json::Value;

use crate::deadlocks::{Expected, Stuck, stuck};
use crate::service::{Server, failsketch};

/// Hangs of one program until it is explained. Each of them comes after some windows in which it went well.
const MOST_HANGS: usize = 12;

/// An agent that follows a program, in short windows. What it may cost is another question: an agent that was not optimised, on a busy
/// machine, takes long.
fn agent(server: &str, folder: &Folder, more: &[&str]) -> Running {
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (host, spool) = (file("host-id"), file("spool"));
    let mut command = Command::new(command::binary());
    command.args(["agent", "--server", server, "--window", "2", "--ceiling", "25"]);
    command.args(["--host-id", &host, "--spool", &spool]).args(more);
    Running::start(&mut command)
}

struct Service {
    _folder: Folder,
    server: Server,
}

impl Service {
    fn start(folder: Folder) -> Self {
        let store = format!("sqlite:{}", folder.path().join("bugs.db").display());
        let server = Server::start(&folder, &store);
        Self {
            _folder: folder,
            server,
        }
    }

    /// The sketch of the only bug, if there is one.
    fn sketch(&self) -> Option<Value> {
        let url = self.server.url();
        let bugs = failsketch(&["bugs", "--server", &url]).stdout;
        let is_id = |word: &&str| word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut ids = bugs.split_whitespace().filter(is_id);
        let bug = ids.next()?;
        assert_eq!(ids.next(), None, "one bug is two: {bugs}");
        let shown = failsketch(&["show", "--server", &url, "--format", "json", bug]);
        serde_json::from_str(&shown.stdout).ok()
    }
}

/// Runs the service until it hangs: its agent says so.
fn hang(program: &Stuck, service: &Service, folder: &Folder) {
    let mut process = Running::start(&mut Command::new(&program.built.exe));
    process.stdout_line("ready").unwrap();
    let pid = process.pid().to_string();
    let watching = agent(&service.server.url(), folder, &["--pid", &pid]);
    // The agent leaves a process that hangs, and so has nothing left to do.
    let done = watching.finish();
    assert!(done.status.success(), "{}", done.stderr);
    assert!(done.stderr.contains("it hangs"), "{}", done.stderr);
    process.write(b"are you there?\n");
    process.stdout_line("answer to are you there?").unwrap();
    let ended = process.finish();
    assert_eq!(ended.status.code(), Some(7), "{}", ended.stdout);
}

#[test]
fn a_service_of_which_two_threads_wait_for_one_another_is_explained_and_goes_on() {
    let program = stuck("deadlocks/warehouse.c", "O2", "");
    let folder = Folder::new("standstill");
    let service = Service::start(Folder::new("standstill-server"));
    let expected = Expected {
        takes: "takes",
        waits: "waits",
        takers: 2,
        waiters: 2,
    };
    let mut last = None;
    for _ in 0..MOST_HANGS {
        hang(&program, &service, &folder);
        let Some(sketch) = service.sketch() else { continue };
        assert_eq!(sketch["failure"]["kind"], "hang", "{sketch:#}");
        let stacks = sketch["failure"]["stacks"].as_array().unwrap().len();
        assert_eq!(stacks, 2, "only those that hang were looked at: {sketch:#}");
        let best = &sketch["predictors"][0];
        if best["pattern"] == "deadlock" && best["successful"].as_u64() >= Some(1) {
            return program.check(&sketch, &expected);
        }
        last = Some(sketch);
    }
    panic!("not explained by {MOST_HANGS} hangs: {last:#?}");
}

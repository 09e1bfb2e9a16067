//! What hosts have: debug information apart from the program, and commands that have others do their work.

use std::path::{Path, PathBuf};
use std::process::Command;

use failsketch_tests::folder::Folder;
use failsketch_tests::{command, process, zoo};
use serde_json::Value;

use crate::service::{LONGEST, Server, failsketch};

const PROGRAM: &str = "mysql-proc-info";
/// Of which some fail.
const RUNS: &str = "40";

/// A server, and hosts that run programs.
struct Service {
    folder: Folder,
    server: Server,
}

impl Service {
    fn start() -> Self {
        let folder = Folder::new("hosts");
        let store = format!("sqlite:{}", folder.path().join("bugs.db").display());
        let server = Server::start(&folder, &store);
        Self { folder, server }
    }

    /// Has an agent run a command in a folder, and gives what it said.
    fn run(&self, within: &Path, words: &[&str], change: impl FnOnce(&mut Command)) -> process::Finished {
        let file = |name: &str| self.folder.path().join(name);
        let mut agent = Command::new(command::binary());
        agent.args(["agent", "--server", &self.server.url(), "--runs", RUNS]);
        agent.arg("--host-id").arg(file("host-id"));
        agent.arg("--spool").arg(file("spool"));
        agent.arg("--").args(words).current_dir(within);
        change(&mut agent);
        process::run(&mut agent, b"", LONGEST, |_| ())
    }

    /// The sketch of the only bug.
    fn sketch(&self) -> Value {
        let url = self.server.url();
        let bugs = failsketch(&["bugs", "--server", &url]).stdout;
        let is_id = |word: &&str| word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let ids: Vec<&str> = bugs.split_whitespace().filter(is_id).collect();
        assert_eq!(ids.len(), 1, "{bugs}");
        let shown = failsketch(&["show", "--server", &url, "--format", "json", ids[0]]);
        serde_json::from_str(&shown.stdout).unwrap_or_else(|error| panic!("{error}: {}", shown.stderr))
    }
}

/// Whether the failing statement has its name, file and line.
fn assert_is_known(sketch: &Value, name: &str) {
    let zoo = zoo::program(PROGRAM);
    let statement = &sketch["failure"]["statement"];
    let place = zoo.place(&zoo.facts.failure.at);
    assert_eq!(statement["line"], place.line, "{sketch:#}");
    assert_eq!(statement["function"], zoo.facts.failure.function.as_str());
    let program = sketch["program"]["name"].as_str().unwrap();
    assert_eq!(Path::new(program).file_name().unwrap(), name, "{program}");
    assert!(program.starts_with('/'), "{program}");
}

fn tool(words: &[&str], folder: &Path) -> String {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    process::tool(&mut command, folder)
}

/// A program without debug information, which is in `app.debug`.
fn stripped(folder: &Path) -> PathBuf {
    let app = folder.join("app");
    std::fs::copy(zoo::binary(PROGRAM, "O2"), &app).unwrap();
    tool(&["objcopy", "--only-keep-debug", "app", "app.debug"], folder);
    tool(&["strip", "--strip-all", "app"], folder);
    app
}

#[test]
fn a_debug_file_beside_the_program_goes_to_the_server() {
    let (service, folder) = (Service::start(), Folder::new("stripped"));
    stripped(folder.path());
    tool(
        &["objcopy", "--add-gnu-debuglink=app.debug", "app"],
        folder.path(),
    );
    let done = service.run(folder.path(), &["./app"], |_| ());
    assert!(done.status.success(), "{}", done.stderr);
    assert_is_known(&service.sketch(), "app");
}

#[test]
fn so_does_one_that_is_found_by_its_build_and_what_it_shares_with_others() {
    let (service, folder) = (Service::start(), Folder::new("build-id"));
    stripped(folder.path());
    // What this program and another one have in common goes to a third file, as distributions have it.
    std::fs::copy(
        zoo::binary("mysql-redo-pending", "O2"),
        folder.path().join("other.debug"),
    )
    .unwrap();
    tool(
        &["dwz", "-m", "common.debug", "app.debug", "other.debug"],
        folder.path(),
    );
    assert!(folder.path().join("common.debug").exists());
    let notes = tool(&["readelf", "-n", "app"], folder.path());
    let id = notes
        .split("Build ID: ")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap();
    let known = folder.path().join("cache").join(id);
    std::fs::create_dir_all(&known).unwrap();
    std::fs::rename(folder.path().join("app.debug"), known.join("debuginfo")).unwrap();
    // It is named relative to the file that needs it, and searched beside the program.
    let done = service.run(folder.path(), &["./app"], |agent| {
        agent.env("DEBUGINFOD_CACHE_PATH", folder.path().join("cache"));
    });
    assert!(done.status.success(), "{}", done.stderr);
    assert!(done.stderr.contains("common.debug"), "{}", done.stderr);
    assert_is_known(&service.sketch(), "app");
}

#[test]
fn what_a_command_runs_is_tracked_however_it_is_named() {
    let folder = Folder::new("commands");
    std::fs::copy(zoo::binary(PROGRAM, "O2"), folder.path().join("app")).unwrap();
    let script = folder.write("start", "#!/bin/sh\ntrue\n./app\nexit $?\n");
    tool(&["chmod", "+x", script.to_str().unwrap()], folder.path());
    let path = std::env::var("PATH").unwrap();
    let path = format!("{path}:{}", folder.path().display());
    for words in [
        &["./start"][..],
        &["sh", "-c", "./app; true"],
        &["timeout", "20", "./app"],
        &["env", "./app"],
        &["app"],
        &["./app"],
    ] {
        let service = Service::start();
        let done = service.run(folder.path(), words, |agent| {
            agent.env("PATH", &path);
        });
        assert!(done.status.success(), "{words:?}: {}", done.stderr);
        let sketch = service.sketch();
        assert_is_known(&sketch, "app");
        let tracked = &sketch["runs"];
        let runs = tracked["failing"].as_u64().unwrap() + tracked["successful"].as_u64().unwrap();
        assert!(runs > 3, "{words:?}: {sketch:#}");
    }
}

#[test]
fn what_is_not_there_is_said_in_one_line() {
    let (service, folder) = (Service::start(), Folder::new("nothing"));
    let script = folder.write("start", "#!/not/there\n");
    tool(&["chmod", "+x", script.to_str().unwrap()], folder.path());
    for (words, said) in [
        (&["./nothing"][..], "cannot read ./nothing"),
        (&["nothing-of-the-kind"], "nothing-of-the-kind"),
        (&["./start"], "/not/there, which cannot be read"),
    ] {
        let done = service.run(folder.path(), words, |_| ());
        assert_eq!(done.status.code(), Some(1), "{words:?}: {}", done.stderr);
        let told: Vec<&str> = done
            .stderr
            .lines()
            .filter(|line| line.starts_with("failsketch:"))
            .collect();
        assert!(
            told.len() == 1 && told[0].contains(said),
            "{words:?}: {}",
            done.stderr
        );
        assert!(!done.stderr.contains("ERROR"), "{}", done.stderr);
    }
}

//! A server, and fleets that report to it.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use failsketch_tests::folder::Folder;
use failsketch_tests::process::Finished;
use failsketch_tests::running::Running;
use failsketch_tests::{command, process, zoo};

/// Many runs, on a machine that does other things too.
pub const LONGEST: Duration = Duration::from_secs(240);

pub fn failsketch(arguments: &[&str]) -> Finished {
    let mut command = Command::new(command::binary());
    command.args(arguments);
    process::run(&mut command, b"", LONGEST, |_| ())
}

/// A port that nobody listens on just now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A server that can be killed and started again at the same address.
pub struct Server {
    port: u16,
    store: String,
    folder: PathBuf,
    pub running: Running,
}

impl Server {
    pub fn start(folder: &Folder, store: &str) -> Self {
        let port = free_port();
        let folder = folder.path().to_owned();
        Self {
            running: Self::run(port, store, &folder),
            port,
            store: store.to_owned(),
            folder,
        }
    }

    fn run(port: u16, store: &str, folder: &std::path::Path) -> Running {
        let mut command = Command::new(command::binary());
        command
            .args([
                "serve",
                "--listen",
                &format!("127.0.0.1:{port}"),
                "--store",
                store,
                "--objects",
            ])
            .arg(folder.join("objects"))
            .env("RUST_LOG", "warn");
        let running = Running::start(&mut command);
        running.stderr_line("failsketch: serving on").unwrap();
        running
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends it as an upgrade does.
    pub fn end(&mut self) {
        self.running.signal("TERM");
        while self.running.runs() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn start_again(&mut self) {
        self.running = Self::run(self.port, &self.store, &self.folder);
    }

    pub fn kill_and_start_again(&mut self) {
        self.running.kill();
        self.running = Self::run(self.port, &self.store, &self.folder);
    }
}

/// Runs of a program that are recorded, to be replayed.
pub fn recorded(folder: &Folder) -> String {
    let kept = folder.path().join("kept").to_str().unwrap().to_owned();
    let binary = zoo::binary("mysql-proc-info", "O0");
    let done = failsketch(&["run", "--json", "--keep", &kept, "--", binary.to_str().unwrap()]);
    assert!(done.status.success(), "{}: {}", done.how(), done.stderr);
    kept
}

pub fn replay(server: &str, kept: &str, agents: &str, runs: &str) -> Running {
    let mut command = Command::new(command::binary());
    command.args([
        "fleet", "--server", server, "--replay", kept, "--agents", agents, "--runs", runs,
    ]);
    Running::start(&mut command)
}

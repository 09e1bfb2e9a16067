//! A PostgreSQL server of a test's own.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::folder::Folder;
use crate::process;

/// How long a server may take to start on a busy machine, or after it was killed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with a fresh cluster, as durable as PostgreSQL is by default. It ends with its owner, and with the thread that started
/// it: a test that is killed leaves none behind.
#[derive(Debug)]
pub struct Postgres {
    folder: Folder,
    tools: PathBuf,
    port: u16,
    server: Option<Child>,
}

impl Postgres {
    /// Makes a cluster and starts its server.
    ///
    /// # Panics
    /// When PostgreSQL is not installed (`make setup` does that) or does not start.
    #[must_use]
    pub fn start() -> Self {
        let folder = Folder::new("postgres");
        // The server runs as somebody else, who has to get here.
        let everybody = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.path(), everybody).expect("our own folder's rights can be set");
        let tools = tools();
        let mut initdb = unprivileged(&tools.join("initdb"));
        initdb.args([
            "--no-sync",
            "--no-instructions",
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
        ]);
        let _ = process::tool(initdb.args(["--locale", "C", "-D", "cluster"]), folder.path());
        let mut postgres = Self {
            folder,
            tools,
            port: 0,
            server: None,
        };
        postgres.port = free_port();
        postgres.start_again();
        postgres
    }

    /// For whoever wants to connect.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Starts the server after [`Self::kill`], at the same place.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        let start = Instant::now();
        // What a killed server leaves takes a moment to go, and a new one does not start before.
        while !self.started() {
            assert!(
                start.elapsed() < PATIENCE,
                "PostgreSQL does not start:\n{}",
                self.log()
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends the server without a chance to put anything in order.
    ///
    /// # Panics
    /// When it was killed before.
    pub fn kill(&mut self) {
        let mut server = self.server.take().expect("the server runs");
        let _ = server.kill();
        let _ = server.wait();
    }

    /// What it told about itself.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Starts it, and waits until it takes connections or ends.
    fn started(&mut self) -> bool {
        let log = fs::File::create(self.folder.path().join("log")).expect("a log can be written");
        let mut command = unprivileged(&self.tools.join("postgres"));
        command.args(["-D", "cluster", "-p", &self.port.to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "shared_buffers=64MB",
        ] {
            command.args(["-c", setting]);
        }
        let again = log.try_clone().expect("a file can be written by two");
        command.stdin(Stdio::null()).stdout(again).stderr(log);
        let mut server = command
            .current_dir(self.folder.path())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if server.try_wait().expect("a child can be waited for").is_some() {
                return false;
            }
            // It listens before it takes connections, so its word counts.
            let ready = self.log().contains("ready to accept connections");
            if ready && TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                self.server = Some(server);
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = server.kill();
        let _ = server.wait();
        false
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An immediate shutdown: nothing in it is wanted any more, but its shared memory is to go.
        if let Some(mut server) = self.server.take() {
            let _ = Command::new("kill")
                .args(["-QUIT", &server.id().to_string()])
                .status();
            let _ = server.wait();
        }
    }
}

/// Where Debian has the server's tools: not in the path, since several versions may be installed.
fn tools() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let newest = versions
        .map(|version| version.path())
        .filter(|version| version.join("bin/postgres").exists())
        .max_by_key(|version| {
            version
                .file_name()
                .and_then(|name| name.to_str()?.parse::<u32>().ok())
        });
    newest.expect("PostgreSQL is installed: make setup").join("bin")
}

/// A command that ends with the thread that started it, and is not run by root, which PostgreSQL refuses.
fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    let root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if root {
        command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
    }
    command.arg(program);
    command
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    listener.local_addr().expect("a listener has an address").port()
}

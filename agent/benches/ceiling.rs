//! What an agent costs a program whose tracked variable is touched a hundred thousand times a second: by how much its work
//! takes longer while it is watched with a ceiling of 1 %. Processor time of one process's work, with and without, in turns.
//!
//! `cargo bench -p agent --bench ceiling [-- SECONDS]`

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark stops at what it does not expect"
)]

#[path = "../tests/suite/server.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod server;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use agent::config::{Config, Settings};
use agent::daemon;
use diagnosis::record::{RunRecord, WatchedRecord};
use diagnosis::tracking::{Assignment, ModuleName};
use program::LinkAddr;
use proto::v1::Plan;
use server::{Memory, TestServer};
use tracee::ProgramFiles;
use tracee::run::Cancel;
use watchpoint::{Address, Trigger, WatchSpec};

const ROUNDS: usize = 5;
const AGENT: &str = "FAILSKETCH_BENCH_AGENT";

fn main() {
    if let Ok(settings) = std::env::var(AGENT) {
        let asked = Cancel::new();
        signal_hook::flag::register(signal_hook::consts::SIGTERM, asked.switch()).unwrap();
        let settings = Settings::read(Path::new(&settings)).unwrap();
        return daemon::run(Config::try_from(settings).unwrap(), &asked).unwrap();
    }
    let seconds = std::env::args()
        .find_map(|text| text.parse().ok())
        .unwrap_or(20.0);
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path());
    let server = TestServer::start();
    let plan = plan(&program);
    server.memory.lock().plan = Some(Box::new(move |_| plan.clone()));
    let mut ratios = Vec::new();
    let mut hot = Hot::start(&program);
    hot.work(1.0);
    for round in 0..ROUNDS {
        let before = hot.work(seconds);
        let agent = start_agent(folder.path(), &server, &hot);
        let watched = hot.work(seconds);
        end_agent(agent);
        let alone = (before + hot.work(seconds)) / 2.0;
        println!("round {round}: {alone:.3} us a touch alone, {watched:.3} us watched");
        ratios.push(watched / alone);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!(
        "overhead at a ceiling of 1 %: {:.2} % (median of {ROUNDS}; must be at most 1.5 %)",
        (median - 1.0) * 100.0
    );
    println!("{}", said(&server.memory));
}

fn build(folder: &Path) -> PathBuf {
    let path = folder.join("hot");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/hot.c");
    let mut gcc = Command::new("gcc");
    gcc.args(["-g", "-O2", "-Wl,--build-id", "-o"])
        .arg(&path)
        .arg(source);
    assert!(gcc.status().unwrap().success());
    path
}

/// A plan to watch the variable and nothing else.
fn plan(program: &Path) -> Plan {
    let symbols = Command::new("nm").arg(program).output().unwrap().stdout;
    let symbols = String::from_utf8(symbols).unwrap();
    let line = symbols.lines().find(|line| line.ends_with(" counter")).unwrap();
    let addr = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let files = ProgramFiles::default();
    let build_id = files.module(program).unwrap().elf().build_id();
    let watched = WatchedRecord {
        module: None,
        access: LinkAddr(addr),
        passed: None,
        width: 8,
        within: 0,
        always_at: Some(LinkAddr(addr)),
        fixed: None,
        late: false,
        given_up: false,
        stores: false,
        result: false,
        found: 0,
    };
    let spec = WatchSpec {
        address: Address::Static {
            module: None,
            addr: LinkAddr(addr),
        },
        len: 8,
        trigger: Trigger::ReadWrite,
        places: 1,
    };
    let assignment = Assignment {
        sigma: 1,
        locations: vec![(watched, spec)],
        modules: vec![ModuleName {
            path: program.display().to_string(),
            build_id,
        }],
        ..Assignment::default()
    };
    Plan {
        bug: "hot".to_owned(),
        number: 1,
        sigma: 1,
        assignment: serde_json::to_vec(&assignment).unwrap().into(),
        ..Plan::default()
    }
}

/// The program, ready to work.
struct Hot {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Hot {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut String::new()).unwrap();
        Self { child, stdin, stdout }
    }

    /// Works for about so long; says how many microseconds a touch took.
    fn work(&mut self, seconds: f64) -> f64 {
        self.stdin.write_all(format!("{seconds}\n").as_bytes()).unwrap();
        let mut said = String::new();
        self.stdout.read_line(&mut said).unwrap();
        said.trim().parse().unwrap()
    }
}

impl Drop for Hot {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _taken = self.child.wait();
    }
}

/// An agent that watches the program.
fn start_agent(folder: &Path, server: &TestServer, hot: &Hot) -> Child {
    let settings = folder.join("agent.toml");
    let text = format!(
        "server = '{}'\nhost_id = '{folder}/host-id'\nwindow_seconds = 10\nspool = {{ path = '{folder}/spool' }}\n[attach]\npid = {}\n",
        server.url(),
        hot.child.id(),
        folder = folder.display(),
    );
    std::fs::write(&settings, text).unwrap();
    let questions = server.memory.lock().questions.len();
    let mut agent = Command::new(std::env::current_exe().unwrap());
    let agent = agent.env(AGENT, &settings).spawn().unwrap();
    server
        .memory
        .until("it is watched", |state| state.questions.len() > questions);
    // The plan is on its way, and the watch is set.
    std::thread::sleep(Duration::from_millis(500));
    agent
}

fn end_agent(mut agent: Child) {
    let asked = Command::new("kill").arg(agent.id().to_string()).status();
    assert!(asked.unwrap().success() && agent.wait().unwrap().success());
}

/// What the records say about it.
fn said(memory: &Memory) -> String {
    let state = memory.lock();
    let records = state
        .runs
        .iter()
        .map(|run| serde_json::from_slice(&run.record).unwrap());
    let records: Vec<RunRecord> = records.collect();
    let cut = records.iter().filter(|record| record.cut_short.is_some()).count();
    let hits: usize = records.iter().map(|record| record.hits.len()).sum();
    let last = records.iter().rev().find_map(|record| record.cut_short.clone());
    format!(
        "{} windows, {hits} accesses, {cut} windows cut short: {}",
        records.len(),
        last.unwrap_or_default()
    )
}

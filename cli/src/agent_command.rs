//! `failsketch agent`: watches programs on this host as a server says.

use std::io;
use std::path::PathBuf;

use agent::config::{AttachSettings, Config, FollowSettings, LaunchSettings, Settings, SpoolSettings};
use agent::daemon;
use anyhow::{Context as _, Result};
use tracee::run::Cancel;
use tracing_subscriber::EnvFilter;

/// Where the configuration is if nobody says so.
const USUAL: &str = "/etc/failsketch/agent.toml";

/// Watch programs on this host as a server says, and report to it what they do
///
/// It runs or watches programs, tells the server when one fails, watches in the next runs what the server asks for, and reports
/// what it saw. What to do is said in a file (--config), by flags, or by both; flags win. One of these: a command that is run
/// again and again (after --), a process (--pid), or all processes that run a file (--executable) or belong to a systemd
/// unit (--unit) or a control group (--cgroup), those that come later included.
///
/// A program that goes on for ever is observed in windows of time (60 s): one without a failure counts as a run that
/// succeeded. Nobody in a program that runs already is interrupted, and it goes on as if nobody had looked when the agent
/// ends, however that ends. Threads that wait for one another are a hang: it is reported, and the process left as it is. Tracking such a program costs at most 1 % of its time: what would cost more is turned off. A
/// command that the agent runs itself is run to be watched, and has no such limit.
///
/// When the server is away, programs go on untracked and what is to be sent waits on disk. SIGTERM ends the agent; a
/// command that it runs is asked to end first.
#[derive(clap::Args)]
#[command(after_help = "\
The file, with what is assumed where nothing is said:
  server = \"https://HOST:PORT\"       # http:// only on the same machine, or with insecure = true
  token = \"/etc/failsketch/token\"    # a file with one line; and/or:
  ca = \"ca.pem\"                      # who signed the server's certificate; the system's authorities otherwise
  certificate = \"agent.pem\"
  key = \"agent.key\"
  host_id = \"/var/lib/failsketch/host-id\"
  window_seconds = 60
  ceiling_percent = 1.0              # no server can raise it
  privacy = \"full\"                   # or \"scalars\": numbers, neither text nor addresses; or \"none\"
  registers = 4
  control_flow = \"auto\"              # of launched programs: intel-pt, software-pt or none
  fail_on = \"signal,hang\"            # as in `failsketch run`
  timeout_seconds = 10.0             # a launched program that takes longer hangs; so does one that is watched if a
                                     # thread waits longer for a lock. Without it, threads that wait for one another hang
  spool = { path = \"/var/lib/failsketch/spool\", megabytes = 256 }
  [launch]                           # one of these three
  command = [\"/usr/bin/app\", \"--once\"]
  runs = 1000
  mode = \"exact\"                     # or \"observe\"
  [attach]
  pid = 4711
  [follow]
  executable = \"/usr/sbin/app\"       # or unit = \"app.service\", or cgroup = \"system.slice/app.service\"

Log lines go to standard error; FAILSKETCH_LOG=debug shows more.")]
pub struct AgentArgs {
    /// The configuration [default: /etc/failsketch/agent.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The server: https://HOST:PORT, or http:// on the same machine
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// A file with the token that this host shows to the server
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,

    /// The certificate of who signed the server's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// The certificate that this host shows to the server
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,

    /// Its key
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,

    /// Talk to another machine without encryption
    #[arg(long)]
    insecure: bool,

    /// The file with this host's name, made if it is not there
    #[arg(long, value_name = "FILE")]
    host_id: Option<PathBuf>,

    /// How long one observation of a process that goes on is
    #[arg(long, value_name = "SECS")]
    window: Option<u64>,

    /// What tracking may cost of a program's time
    #[arg(long, value_name = "PERCENT")]
    ceiling: Option<f64>,

    /// Which values leave this host: full, scalars or none
    #[arg(long, value_name = "LEVEL")]
    privacy: Option<String>,

    /// Debug registers that may be used
    #[arg(long, value_name = "N")]
    registers: Option<u32>,

    /// How control flow of launched programs is recorded: auto, intel-pt, software-pt or none
    #[arg(long, value_name = "HOW")]
    control_flow: Option<String>,

    /// What counts as a failure, as in `failsketch run`
    #[arg(long, value_name = "EXPR")]
    fail_on: Option<String>,

    /// A launched program that takes longer hangs; a watched one, if a thread waits longer for a lock
    #[arg(long, value_name = "SECS")]
    timeout: Option<f64>,

    /// The folder where things wait to be sent
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,

    /// How much of it may be used
    #[arg(long, value_name = "MB")]
    spool_megabytes: Option<u64>,

    /// Watch this process
    #[arg(long, value_name = "PID", group = "job")]
    pid: Option<u32>,

    /// Watch the processes that run this file
    #[arg(long, value_name = "FILE", group = "job")]
    executable: Option<PathBuf>,

    /// Watch the processes of this systemd unit
    #[arg(long, value_name = "NAME", group = "job")]
    unit: Option<String>,

    /// Watch the processes of this control group
    #[arg(long, value_name = "PATH", group = "job")]
    cgroup: Option<String>,

    /// Run the command so often and end
    #[arg(long, value_name = "N", requires = "command")]
    runs: Option<u64>,

    /// Watch the command's memory without stopping its threads
    #[arg(long, requires = "command")]
    observe: bool,

    /// The command to run again and again
    #[arg(last = true, value_name = "CMD", group = "job")]
    command: Vec<String>,
}

impl AgentArgs {
    fn settings(&self) -> Settings {
        let follows = self.executable.is_some() || self.unit.is_some() || self.cgroup.is_some();
        Settings {
            server: self.server.clone(),
            token: self.token.clone(),
            ca: self.ca.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            insecure: self.insecure.then_some(true),
            host_id: self.host_id.clone(),
            window_seconds: self.window,
            ceiling_percent: self.ceiling,
            privacy: self.privacy.clone(),
            registers: self.registers,
            control_flow: self.control_flow.clone(),
            fail_on: self.fail_on.clone(),
            timeout_seconds: self.timeout,
            spool: Some(SpoolSettings {
                path: self.spool.clone(),
                megabytes: self.spool_megabytes,
            }),
            launch: (!self.command.is_empty()).then(|| LaunchSettings {
                command: Some(self.command.clone()),
                runs: self.runs,
                mode: self.observe.then(|| "observe".to_owned()),
            }),
            attach: self.pid.map(|pid| AttachSettings { pid: Some(pid) }),
            follow: follows.then(|| FollowSettings {
                executable: self.executable.clone(),
                unit: self.unit.clone(),
                cgroup: self.cgroup.clone(),
            }),
        }
    }
}

/// Runs the command. It says nothing on standard output, which belongs to the program that it may run.
pub fn run(args: &AgentArgs) -> Result<String> {
    let filter = EnvFilter::try_from_env("FAILSKETCH_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_target(false)
        .init();
    let usual = PathBuf::from(USUAL);
    let file = args.config.clone().or_else(|| usual.exists().then_some(usual));
    let settings = match file {
        Some(path) => args.settings().over(Settings::read(&path)?),
        None => args.settings(),
    };
    let config = Config::try_from(settings)?;
    let asked = Cancel::new();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, asked.switch()).context("cannot handle signals")?;
    }
    daemon::run(config, &asked)?;
    Ok(String::new())
}

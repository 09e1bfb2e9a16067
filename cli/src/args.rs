//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Parser, Subcommand};
use failure::FailOn;
use pt_driver_client::recorder::ControlFlow;

use crate::agent_command::AgentArgs;
use crate::decode::args::DecodeArgs;
pub use crate::service_args::{BugsArgs, FleetArgs, ServeArgs, ServerArgs, SteerArgs};

/// Finds out why a native program failed.
#[derive(Parser)]
#[command(name = "failsketch", version, about, max_term_width = 100)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Run a program until it fails, find out why, and print the sketch
    Run(RunArgs),

    /// Make the sketch again from runs that `run --keep` kept
    Diagnose(DiagnoseArgs),

    /// Show a sketch in any form: one that was kept as JSON, or that of a bug that a server knows
    Show(ShowArgs),

    /// Serve a sketch as a page on this machine, or say where a server has the page of a bug
    Open(OpenArgs),

    /// List the bugs that a server knows
    Bugs(BugsArgs),

    /// Have a server treat a bug differently
    Steer(SteerArgs),

    /// Serve a fleet: gather what agents report, say what they are to watch, keep the sketches
    Serve(ServeArgs),

    /// Simulate a fleet on this machine, with real processes or recorded runs
    Fleet(FleetArgs),

    /// Show which statements a statement depends on, nearest first
    Slice(SliceArgs),

    /// Show what a core dump or a stack trace says: the failure, every thread's frames, the nearest causes
    Triage(TriageArgs),

    /// Show who reads and writes a variable, as it happens
    Watch(WatchArgs),

    /// Keep an attached process for `watch`, which starts this itself
    #[command(name = crate::watch::KEEPER, hide = true)]
    Keep,

    Agent(AgentArgs),

    /// Decode a raw Intel PT trace: how many instructions ran, from where to where, and what is missing
    Decode(DecodeArgs),

    /// Show what this machine lets failsketch do, by trying it, and what would enable the rest
    Doctor(DoctorArgs),
}

/// Where the program is.
#[derive(clap::Args)]
pub struct ProgramArgs {
    /// The program: an executable or shared object, as it ran
    #[arg(long, value_name = "BIN")]
    pub exe: PathBuf,

    /// A folder with debug files, searched before the usual ones (may be given several times)
    #[arg(long = "debug-dir", value_name = "DIR")]
    pub debug_dirs: Vec<PathBuf>,

    /// Where sources are now: paths that start with OLD are read at NEW (may be given several times)
    #[arg(long = "source-map", value_name = "OLD=NEW", value_parser = source_mapping)]
    pub source_map: Vec<(String, String)>,
}

/// Options of `slice`.
#[derive(clap::Args)]
#[command(group(ArgGroup::new("criterion").required(true).args(["at", "pc", "core", "trace"])))]
pub struct SliceArgs {
    #[command(flatten)]
    pub program: ProgramArgs,

    /// Start from a source line
    #[arg(long, value_name = "FILE:LINE", value_parser = file_and_line)]
    pub at: Option<(String, u32)>,

    /// Start from an instruction, by its address in the file (what addr2line takes)
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub pc: Option<u64>,

    /// Start from where a core dump says that the program failed
    #[arg(long, value_name = "CORE")]
    pub core: Option<PathBuf>,

    /// Start from where the text of a stack trace says that the program failed (- for standard input)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// How many statements to show
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub max: usize,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `triage`.
#[derive(clap::Args)]
pub struct TriageArgs {
    /// A core dump, or a file with the text of a stack trace (- for standard input)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    #[command(flatten)]
    pub program: ProgramArgs,

    /// How many statements to show
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub max: usize,

    /// Print the sketch as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `watch`.
#[derive(clap::Args)]
#[command(group(ArgGroup::new("target").required(true).args(["pid", "command"])))]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["var", "addr"])))]
pub struct WatchArgs {
    /// A process that runs already
    #[arg(long, value_name = "PID")]
    pub pid: Option<i32>,

    /// A variable: NAME, NAME.FIELD, *NAME, NAME[2], FILE.c:NAME, LIBRARY.so:NAME (may be given several times)
    #[arg(long, value_name = "NAME")]
    pub var: Vec<String>,

    /// An address of the process, with the number of bytes (may be given several times)
    #[arg(long, value_name = "ADDR[:LEN]", value_parser = address_and_length)]
    pub addr: Vec<(u64, u32)>,

    /// Report only accesses that write
    #[arg(long)]
    pub writes: bool,

    /// How to watch: observe never stops a thread, exact stops it at every access and misses none
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    pub mode: Mode,

    /// End after so many accesses
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,

    /// End after so many seconds
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub seconds: Option<Duration>,

    /// Print JSON, one object a line; what a started program prints then goes to standard error
    #[arg(long)]
    pub json: bool,

    /// A folder with debug files, searched before the usual ones (may be given several times)
    #[arg(long = "debug-dir", value_name = "DIR")]
    pub debug_dirs: Vec<PathBuf>,

    /// Where sources are now: paths that start with OLD are read at NEW (may be given several times)
    #[arg(long = "source-map", value_name = "OLD=NEW", value_parser = source_mapping)]
    pub source_map: Vec<(String, String)>,

    /// A program to start, with its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Options of `run`.
#[derive(clap::Args)]
pub struct RunArgs {
    /// Give up after so many runs
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub runs: u64,

    /// Stop after so many recurrences of the failure
    #[arg(long, value_name = "K")]
    pub failures: Option<u64>,

    /// So many runs at once
    #[arg(long, value_name = "J", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,

    /// A run that takes longer hangs; one in which nobody can go on is not waited for [default: 10, or 20 times the longest successful run, at least 2]
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub timeout: Option<Duration>,

    /// Stop after so much time in all, and print what is known then
    #[arg(long = "time-limit", value_name = "SECS", default_value = "600", value_parser = seconds)]
    pub time_limit: Duration,

    /// What counts as a failure: signal, signal=SEGV, abort, hang, exit!=0, stdout~REGEX, stderr~REGEX, joined by `,`
    #[arg(long = "fail-on", value_name = "EXPR")]
    pub fail_on: Option<FailOn>,

    /// Explain failures from this statement, where only an oracle sees them
    #[arg(long, value_name = "FILE:LINE", value_parser = file_and_line)]
    pub at: Option<(String, u32)>,

    /// Begin with so many statements of the slice
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub sigma: u32,

    /// How to watch memory: observe never stops a thread, exact stops it at every access and misses none
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    pub mode: Mode,

    /// How to record which way branches went: auto, intel-pt, software-pt or none
    #[arg(long = "control-flow", value_name = "HOW", default_value_t = ControlFlow::Auto)]
    pub control_flow: ControlFlow,

    /// Standard input of every run
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,

    /// A variable of the program's environment (may be given several times)
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,

    /// The program's working folder
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,

    /// Let the program's output through
    #[arg(long = "show-output")]
    pub show_output: bool,

    /// Keep the recorded runs in this folder, for `diagnose`
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,

    /// Write the sketch into this folder, in every form
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// The sketch's form
    #[arg(long, value_enum, default_value_t = Format::Term)]
    pub format: Format,

    /// The same as --format json
    #[arg(long)]
    pub json: bool,

    /// A folder with debug files, searched before the usual ones (may be given several times)
    #[arg(long = "debug-dir", value_name = "DIR")]
    pub debug_dirs: Vec<PathBuf>,

    /// Where sources are now: paths that start with OLD are read at NEW (may be given several times)
    #[arg(long = "source-map", value_name = "OLD=NEW", value_parser = source_mapping)]
    pub source_map: Vec<(String, String)>,

    /// The program, with its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Options of `diagnose`.
#[derive(clap::Args)]
pub struct DiagnoseArgs {
    /// The folder that `run --keep` filled
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// The sketch's form
    #[arg(long, value_enum, default_value_t = Format::Term)]
    pub format: Format,

    /// The same as --format json
    #[arg(long)]
    pub json: bool,

    /// Leave out what the runs showed of this, to see what it is worth (may be given several times)
    #[arg(long, value_name = "WHAT", value_enum)]
    pub ignore: Vec<Ignored>,

    /// A folder with debug files, searched before the usual ones (may be given several times)
    #[arg(long = "debug-dir", value_name = "DIR")]
    pub debug_dirs: Vec<PathBuf>,

    /// Where sources are now: paths that start with OLD are read at NEW (may be given several times)
    #[arg(long = "source-map", value_name = "OLD=NEW", value_parser = source_mapping)]
    pub source_map: Vec<(String, String)>,
}

/// What recorded runs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Ignored {
    /// Which way branches went, and which statements ran
    ControlFlow,
    /// Who touched watched memory, and with which values
    DataFlow,
}

/// A form of the sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For a terminal
    Term,
    /// One page for a browser
    Html,
    /// For an issue tracker
    Md,
    /// For programs
    Json,
    /// For editors and code scanning
    Sarif,
    /// Annotations of GitHub Actions
    Github,
}

/// Options of `show`.
#[derive(clap::Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub server: ServerArgs,

    /// A sketch as JSON (- for standard input), or with --server the id of a bug
    #[arg(value_name = "FILE|BUG")]
    pub file: PathBuf,

    /// The form [default: as the name after --out says, else term]
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Write it to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Of a server's bug: where sources are now, paths that start with OLD are read at NEW (may be given several times)
    #[arg(long = "source-map", value_name = "OLD=NEW", value_parser = source_mapping)]
    pub source_map: Vec<(String, String)>,
}

/// Options of `open`.
#[derive(clap::Args)]
pub struct OpenArgs {
    #[command(flatten)]
    pub server: ServerArgs,

    /// A sketch as JSON (- for standard input), or with --server the id of a bug
    #[arg(value_name = "FILE|BUG")]
    pub file: PathBuf,

    /// The port on this machine [default: any that is free]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// How to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Exact for what is started, observe for what runs already, else what works here
    Auto,
    /// Never stop a thread
    Observe,
    /// Stop the thread at every access
    Exact,
    /// Without the kernel's events; for started programs
    Compat,
}

/// Options of `doctor`.
#[derive(clap::Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Without a length: what a register watches at such an address.
fn address_and_length(text: &str) -> Result<(u64, u32), String> {
    let (addr, len) = match text.split_once(':') {
        Some((addr, len)) => {
            let len = len
                .parse()
                .ok()
                .filter(|&len| len > 0)
                .ok_or("the length must be a number of bytes from 1")?;
            (address(addr)?, Some(len))
        }
        None => (address(text)?, None),
    };
    let natural = 1 << addr.trailing_zeros().min(3);
    Ok((addr, len.unwrap_or(natural)))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number of seconds")?;
    Duration::try_from_secs_f64(number).map_err(|_| "expected a number of seconds from 0".to_owned())
}

fn file_and_line(text: &str) -> Result<(String, u32), String> {
    let (file, line) = text
        .rsplit_once(':')
        .ok_or("expected FILE:LINE, such as queue.c:88")?;
    let line = line
        .parse()
        .ok()
        .filter(|&line| line > 0)
        .ok_or("the line must be a number from 1")?;
    if file.is_empty() {
        Err("the file's name is missing".to_owned())
    } else {
        Ok((file.to_owned(), line))
    }
}

fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let parsed = match digits {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => u64::from_str_radix(text, 16),
    };
    parsed.map_err(|_| "expected a hexadecimal address, such as 0x11d9".to_owned())
}

/// `OLD=NEW`.
pub fn source_mapping(text: &str) -> Result<(String, String), String> {
    let (old, new) = text
        .split_once('=')
        .ok_or("expected OLD=NEW, such as /build/app=.")?;
    Ok((old.to_owned(), new.to_owned()))
}

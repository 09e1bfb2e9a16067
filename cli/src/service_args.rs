//! Options of the commands around the service.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use server::config::ObjectsAt;

use crate::args::Format;

/// Which server, and how to show who one is.
#[derive(clap::Args)]
pub struct ServerArgs {
    /// The server: https://HOST:PORT, or http://127.0.0.1:PORT on the same machine
    #[arg(long, value_name = "URL", env = "FAILSKETCH_SERVER")]
    pub server: Option<String>,

    /// Who must have signed the server's certificate
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// A file with a token
    #[arg(long, value_name = "FILE", env = "FAILSKETCH_TOKEN_FILE")]
    pub token: Option<PathBuf>,

    /// Talk to another machine without encryption
    #[arg(long)]
    pub insecure: bool,
}

/// Options of `serve`.
#[derive(clap::Args)]
pub struct ServeArgs {
    /// Create a certificate authority, certificates, tokens and a configuration that work, in a new folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "listen", "store", "objects"])]
    pub init: Option<PathBuf>,

    /// With --init: a name or address that agents will know the server by (may be given several times)
    #[arg(long = "name", value_name = "HOST", requires = "init")]
    pub names: Vec<String>,

    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Have a host be whose credential speaks for it next, and end: for one that was given another name of a certificate or token;
    /// `*` stands for any characters (may be given several times)
    #[arg(long = "release-host", value_name = "HOST", conflicts_with = "init")]
    pub release_host: Vec<String>,

    /// Where to listen [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,

    /// The database: sqlite:FILE or postgres://… [default: sqlite:failsketch.db]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,

    /// Where sources are on this machine: paths of programs that start with OLD are read at NEW, and nothing else is (may be
    /// given several times)
    #[arg(long = "source-map", value_name = "OLD=NEW", value_parser = crate::args::source_mapping)]
    pub source_map: Vec<(String, String)>,

    /// Where uploaded programs and large runs are kept: a folder, or s3://BUCKET/PREFIX with AWS_… in the environment [default:
    /// objects]
    #[arg(long, value_name = "DIR|URL")]
    pub objects: Option<ObjectsAt>,
}

/// Options of `bugs`.
#[derive(clap::Args)]
pub struct BugsArgs {
    #[command(flatten)]
    pub server: ServerArgs,

    /// Only the bugs of this program
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,

    /// How many, the last seen first
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,

    /// Who steered bugs and how, instead of the bugs themselves
    #[arg(long)]
    pub audit: bool,
}

/// Options of `steer`.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["stop", "resume", "widen", "fixed_in"])))]
pub struct SteerArgs {
    #[command(flatten)]
    pub server: ServerArgs,

    /// The bug
    #[arg(value_name = "BUG")]
    pub bug: String,

    /// Track it no more
    #[arg(long)]
    pub stop: bool,

    /// Track it again
    #[arg(long)]
    pub resume: bool,

    /// Track twice as many statements, whatever is known
    #[arg(long)]
    pub widen: bool,

    /// It is fixed in this build; if it fails there, or in a build that is seen later, it has come back
    #[arg(long, value_name = "BUILD-ID")]
    pub fixed_in: Option<String>,
}

/// Options of `fleet`.
#[derive(clap::Args)]
pub struct FleetArgs {
    /// [default: a server of its own, for as long as the fleet is there]
    #[command(flatten)]
    pub server: ServerArgs,

    /// How many agents
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub agents: u16,

    /// Debug registers that each agent may use: with fewer than 4 no host sees everything
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub registers: u8,

    /// Send the runs that `run --keep` left in this folder again, instead of running anything
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub replay: Option<PathBuf>,

    /// With --replay: how many runs all agents send together [default: 10 each]
    #[arg(long, value_name = "N", requires = "replay")]
    pub runs: Option<u64>,

    /// With --replay: runs a second, all agents together [default: as many as are acknowledged]
    #[arg(long, value_name = "R", requires = "replay")]
    pub rate: Option<f64>,

    /// Stop after so many seconds
    #[arg(long, value_name = "SECS", default_value_t = 300)]
    pub time_limit: u64,

    /// The form of the sketch
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Show what the agents say
    #[arg(long)]
    pub verbose: bool,

    /// The program that every agent runs, with its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

//! The program that is run, again and again, as it would be without us.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Seek as _, Write as _};
use std::path::PathBuf;

use agent::TrackError;
use anyhow::{Context as _, Result, bail};
use tracee::ptrace::{Launch, Stream};

use crate::args::RunArgs;

/// Larger standard inputs are not kept for the next run.
const LARGEST_INPUT: u64 = 1 << 30;

/// A command line and its surroundings.
pub struct CommandLine {
    command: Vec<OsString>,
    env: Vec<(String, String)>,
    cwd: Option<PathBuf>,
    stdin: Input,
    own_group: bool,
    follow: bool,
}

/// Where each run's standard input comes from.
enum Input {
    /// Where ours does: a terminal.
    Terminal,
    /// From the start of this file.
    File(PathBuf),
    /// What came through our standard input, which can be read only once.
    Kept(tempfile::NamedTempFile),
}

impl CommandLine {
    /// What the user asked for.
    pub fn new(args: &RunArgs) -> Result<Self> {
        let stdin = match &args.stdin {
            Some(path) => {
                File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
                Input::File(path.clone())
            }
            None if io::stdin().is_terminal() => Input::Terminal,
            None => keep_input()?,
        };
        Ok(Self {
            command: args.command.clone(),
            env: args.env.clone(),
            cwd: args.cwd.clone(),
            // A program that reads the terminal must stay in its foreground group.
            own_group: !matches!(stdin, Input::Terminal),
            stdin,
            follow: false,
        })
    }

    /// One run.
    pub fn launch(&self) -> Result<Launch, TrackError> {
        let stdin = match &self.stdin {
            Input::Terminal => Stream::Inherit,
            Input::File(path) => File::open(path).map_or(Stream::Null, Stream::File),
            Input::Kept(file) => File::open(file.path()).map_or(Stream::Null, Stream::File),
        };
        Ok(self.without_input().stdin(stdin))
    }

    fn without_input(&self) -> Launch {
        let (program, arguments) = self.command.split_first().map_or_else(
            || (OsString::new(), &[][..]),
            |(program, arguments)| (program.clone(), arguments),
        );
        let mut launch = Launch::new(program).args(arguments.iter().cloned());
        for (name, value) in &self.env {
            launch = launch.env(name, value);
        }
        if let Some(folder) = &self.cwd {
            launch = launch.folder(folder);
        }
        if self.own_group {
            launch = launch.own_group();
        }
        if self.follow {
            launch = launch.follow_forks();
        }
        launch
    }

    /// The file that is executed: the program, or the interpreter of a script.
    pub fn executable(&self) -> Result<PathBuf> {
        Ok(tracee::files::script::executable(&self.without_input().path()?)?)
    }

    /// From now on the processes that the program starts are followed too.
    pub fn follow(&mut self) {
        self.follow = true;
    }

    /// Whether they are.
    pub fn follows(&self) -> bool {
        self.follow
    }
}

/// Keeps what comes through our standard input, so that every run gets it.
fn keep_input() -> Result<Input> {
    let mut file =
        tempfile::NamedTempFile::new().context("cannot keep standard input in a temporary file")?;
    let mut input = io::stdin().lock().take(LARGEST_INPUT + 1);
    let length = io::copy(&mut input, &mut file).context("cannot read standard input")?;
    if length > LARGEST_INPUT {
        bail!("standard input is too long to be given to every run: use --stdin FILE");
    }
    file.flush()
        .and_then(|()| file.rewind())
        .context("cannot keep standard input")?;
    Ok(Input::Kept(file))
}

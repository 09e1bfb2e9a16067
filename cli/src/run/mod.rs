//! `failsketch run`: runs a program until it fails, and finds out why.
//!
//! - `command`: the program and its surroundings, the same for every run
//! - `series`: runs, one after the other or several at once
//! - `load`: keeps processors busy, which makes some failures recur
//! - `search`: until the first failure; `inquire`: from there to the sketch
//! - `keep`: recorded runs in a folder, and `diagnose`, which reads them again
//! - `progress`: how far it is

mod command;
mod deliver;
mod diagnose;
mod inquire;
pub mod keep;
mod limits;
mod load;
mod progress;
mod search;
mod series;

use std::path::Path;
use std::sync::{Mutex, OnceLock};

use anyhow::{Context as _, Result};
use diagnosis::inquiry::InquiryError;
use pt_driver_client::recorder::choose;
use tracee::run::{Cancel, Output};
use tracee::{HostModules, ProgramFiles};

use crate::args::{Mode, RunArgs};
use crate::source_text;
use command::CommandLine;
use inquire::Explained;
use keep::{Keeping, SeriesRecord};
use limits::{Limits, Patience};
use progress::Progress;
use search::Searched;
use series::{Common, Series};

pub use diagnose::run as diagnose;
pub use inquire::MUCH_MORE_OFTEN;

/// No failure occurred.
const NO_FAILURE: u8 = 3;

/// How often another failure may turn out to be the one to look into.
const MOST_CHANGES: u32 = 2;

/// How many failures in no code of the program's own are passed over. Data that is damaged is noticed now by the program and now by a library,
/// in a thread that is about to end.
const MOST_NOWHERE: u32 = 8;

/// What to print, and the exit status.
pub struct Ended {
    /// For standard output.
    pub text: String,
    /// The exit status.
    pub status: u8,
}

/// Runs the command.
pub fn run(args: &RunArgs) -> Result<Ended> {
    let mut command = CommandLine::new(args)?;
    let executable = command.executable()?;
    let files = ProgramFiles::with_debug_folders(args.debug_dirs.clone());
    if has_others_do_its_work(&files, &executable)? {
        command.follow();
    }
    // A recorder that this host does not have is told now, not after runs until the first failure.
    choose(args.control_flow)?;
    let cancel = Cancel::new();
    on_signals(&cancel)?;
    let common = Common {
        command,
        fail_on: args.fail_on.clone().unwrap_or_default(),
        patience: Patience::new(args.timeout),
        output: if args.show_output {
            Output::Inherit
        } else {
            Output::Discard
        },
        cancel: cancel.clone(),
        modules: HostModules::of_this_host(),
        subject: OnceLock::new(),
    };
    let series = SeriesRecord::new(executable.clone(), args.sigma, args.at.clone(), args.failures);
    let mut keeping = match &args.keep {
        Some(folder) => Some(Keeping::begin(folder, series)?),
        None => None,
    };
    let sources = source_text::of_program(&args.source_map, &executable)?;
    let limits = Limits::new(args.runs, args.time_limit, cancel);
    let waiting = Mutex::new(None);
    std::thread::scope(|scope| {
        let _enforced = limits.enforce(scope);
        let series = Series::start(scope, &common, &waiting, usize::from(args.jobs));
        let mut progress = Progress::new();
        let searched =
            search::until_failure(&series, &limits, args.jobs, None, keeping.as_mut(), &mut progress)?;
        let found = match searched {
            Searched::Found(found) => found,
            Searched::Nothing(tried) => {
                drop(progress);
                eprintln!("failsketch: {tried}");
                return Ok(Ended {
                    text: String::new(),
                    status: NO_FAILURE,
                });
            }
        };
        let executable = match &found.subject {
            Some(subject) => {
                // Set once: there is one search.
                let _set = common.subject.set(subject.clone());
                if let Some(keeping) = &mut keeping {
                    keeping.program(&subject.executable)?;
                }
                &subject.executable
            }
            None => &executable,
        };
        // A script is older than what it runs.
        let sources = sources.of_program(executable);
        let others = found.record.modules.iter().filter(|module| !module.executable);
        let program = files.program_of_modules(executable, others.map(|module| module.path.as_str()))?;
        let mut found = found;
        let (mut changes, mut nowhere) = (0, 0);
        let sketch = loop {
            let inquiry = inquire::Inquire {
                args,
                series: &series,
                limits: &limits,
                keeping: keeping.as_mut(),
                progress: &mut progress,
            };
            match inquiry.into_sketch(&program, &found, &sources, changes < MOST_CHANGES) {
                Ok(Explained::Sketch(sketch)) => break sketch,
                Ok(Explained::Rather(other)) => {
                    changes += 1;
                    found = other;
                }
                Err(error) if is_nowhere(&error) && nowhere < MOST_NOWHERE => {
                    nowhere += 1;
                    progress.say(&format!(
                        "failed after {} in no code of the program's own; waiting for a failure that is",
                        found.after()
                    ));
                    let (keeping, last) = (keeping.as_mut(), Some(&*found));
                    match search::until_failure(&series, &limits, args.jobs, last, keeping, &mut progress)? {
                        Searched::Found(next) => found = next,
                        Searched::Nothing(_) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
            if let Some(keeping) = &mut keeping {
                keeping.from(found.record.number)?;
            }
        };
        drop(progress);
        let text = deliver::deliver(&sketch, args.format, args.json, args.out.as_deref())?;
        Ok(Ended { text, status: 0 })
    })
}

/// Whether what fails is likely to be a program that the command runs: scripts, and tools of the system such as `env`
/// and `timeout`, have no debug information. One that fails itself is looked into all the same.
fn has_others_do_its_work(files: &ProgramFiles, executable: &Path) -> Result<bool> {
    // A command that is no program is told now, not after the first failure.
    let program = files.program(executable)?;
    let is_described = program
        .modules()
        .any(|(_, module)| module.has_debug_information());
    Ok(!is_described)
}

/// Whether an inquiry has nothing to start from.
fn is_nowhere(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(InquiryError::NoStatement))
}

/// Ctrl-C ends the runs; what is known by then is printed. A second one ends us.
fn on_signals(cancel: &Cancel) -> Result<()> {
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        let switch = cancel.switch();
        signal_hook::flag::register_conditional_default(signal, std::sync::Arc::clone(&switch))
            .and_then(|_| signal_hook::flag::register(signal, switch))
            .context("cannot handle signals")?;
    }
    Ok(())
}

/// How a run's memory is watched when the user leaves it open.
fn first_mode(mode: Mode) -> watchpoint::Mode {
    match mode {
        Mode::Auto | Mode::Exact => watchpoint::Mode::Exact,
        Mode::Observe => watchpoint::Mode::Observe,
        Mode::Compat => watchpoint::Mode::Compat,
    }
}

//! `failsketch watch`: who reads and writes this variable?
//!
//! - `wanted`: what the user named, as places in the process
//! - `modules`: the process's modules, opened when an access leads there
//! - `show`: accesses as lines

mod modules;
mod show;
mod wanted;

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use sketch_render::term::Terminal;
use sketch_render::watch as render;
use tracee::process::ModuleMap;
use tracee::ptrace::{End, Launch, Stream, check_target};
use tracee::{Pid, ProgramFiles};
use watchpoint::code::CodeFiles;
use watchpoint::session::{Keeper, Request, Session};
use watchpoint::{Address, Hit, Mode as HowTo, ModeRequest, Pointed, Target, Trigger, WatchSpec};

use crate::args::{Mode, WatchArgs};
use crate::{present, source_text};
use modules::ProcessModules;
use sources::SourceText;
use wanted::{At, Wanted};

/// The hidden command that keeps an attached process while it is watched exactly.
pub const KEEPER: &str = "__keep";

/// How long to wait for an access before looking at the clock and at signals.
const TICK: Duration = Duration::from_millis(50);

/// Runs the command. Accesses are printed as they come; what is returned is the summary.
pub fn run(args: &WatchArgs) -> Result<String> {
    let stop = signals()?;
    let files = ProgramFiles::with_debug_folders(args.debug_dirs.clone());
    let (target, wanted) = match args.pid {
        Some(pid) => running(args, pid, &files)?,
        None => started(args, &files)?,
    };
    let request = Request {
        target,
        locations: locations(&wanted, args),
        mode: mode(args.mode),
        keeper: Some(Keeper {
            program: std::env::current_exe().context("cannot find failsketch's own file")?,
            arguments: vec![KEEPER.into()],
        }),
    };
    let code = CodeFiles::default();
    let (mut session, _pipes) = Session::start(request, &code)?;
    announce(&session, &wanted);
    let modules = ProcessModules::new(&files);
    let mut printer = Printer {
        out: BufWriter::new(io::stdout().lock()),
        wanted: &wanted,
        modules: &modules,
        sources: source_text::of_process(&args.source_map)?,
        json: args.json,
        terminal: terminal(),
        start: None,
        limit: args.count.unwrap_or(u64::MAX),
        shown: 0,
    };
    let started = Instant::now();
    let over =
        || stop.load(Ordering::Relaxed) || args.seconds.is_some_and(|limit| started.elapsed() >= limit);
    let mut ended = None;
    let mut broken = None;
    while ended.is_none() && !over() && printer.shown < printer.limit && broken.is_none() {
        let progress = session.next(TICK)?;
        broken = printer.print(&progress.hits, &session).err();
        ended = progress.ended;
    }
    if ended.is_none() {
        let rest = session.stop()?;
        if broken.is_none() {
            broken = printer.print(&rest, &session).err();
        }
    }
    match broken {
        Some(error) => Err(error.into()),
        None => Ok(summary(&session, ended, &printer, args.json)?),
    }
}

/// Nobody's window breaks lines that go to a file.
fn terminal() -> Terminal {
    const FILE_WIDTH: usize = 160;
    let terminal = present::terminal();
    Terminal {
        width: if io::stdout().is_terminal() {
            terminal.width
        } else {
            FILE_WIDTH
        },
        ..terminal
    }
}

/// Set when somebody asks us to end: the target must be left as it was found first.
fn signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot handle signals")?;
    }
    Ok(stop)
}

fn running(args: &WatchArgs, pid: i32, files: &ProgramFiles) -> Result<(Target, Vec<Wanted>)> {
    let pid = Pid(u32::try_from(pid).unwrap_or(0));
    check_target(pid)?;
    let modules = ProcessModules::new(files);
    if !args.var.is_empty() {
        modules.set(ModuleMap::of(pid)?);
    }
    Ok((
        Target::Process(pid),
        wanted::in_process(args, pid, &modules, files)?,
    ))
}

fn started(args: &WatchArgs, files: &ProgramFiles) -> Result<(Target, Vec<Wanted>)> {
    let (program, arguments) = args.command.split_first().context("no command was given")?;
    let mut launch = Launch::new(program).args(arguments);
    if args.json {
        // Standard output is for JSON alone.
        launch = launch.stdout(Stream::File(standard_error()?));
    }
    let command = launch.path()?;
    let executable = tracee::files::script::executable(&command)?;
    let mut wanted = wanted::in_program(args, &executable, files);
    if executable != command {
        wanted = wanted.with_context(|| format!("{} is run by {}", command.display(), executable.display()));
    }
    let wanted = wanted?;
    Ok((Target::Launch(launch), wanted))
}

fn standard_error() -> Result<std::fs::File> {
    use std::os::fd::AsFd as _;
    let copy = io::stderr().as_fd().try_clone_to_owned();
    Ok(copy.context("cannot use standard error")?.into())
}

fn locations(wanted: &[Wanted], args: &WatchArgs) -> Vec<WatchSpec> {
    let trigger = if args.writes {
        Trigger::Write
    } else {
        Trigger::ReadWrite
    };
    wanted
        .iter()
        .map(|wanted| {
            let address = match &wanted.at {
                At::Run(addr) => Address::Run(*addr),
                At::Module(module, place) if place.follows.is_empty() => Address::Static {
                    module: module.clone(),
                    addr: place.base.offset(place.offset.cast_signed()),
                },
                At::Module(module, place) => Address::Pointed(Pointed {
                    module: module.clone(),
                    addr: place.base,
                    follows: place.follows.clone(),
                    offset: place.offset,
                }),
            };
            WatchSpec {
                address,
                len: wanted.len,
                trigger,
                places: 1,
            }
        })
        .collect()
}

fn mode(mode: Mode) -> ModeRequest {
    match mode {
        Mode::Auto => ModeRequest::Auto,
        Mode::Observe => ModeRequest::Only(HowTo::Observe),
        Mode::Exact => ModeRequest::Only(HowTo::Exact),
        Mode::Compat => ModeRequest::Only(HowTo::Compat),
    }
}

/// Says that everything is armed: scripts wait for this line. It is written at once, as a program that we started may write
/// to the same place.
fn announce(session: &Session<'_>, wanted: &[Wanted]) {
    let names: Vec<String> = wanted.iter().map(Wanted::label).collect();
    let names = sketch_render::text::plain(&names.join(", "));
    let line = format!(
        "failsketch: watching {names} in process {} ({} mode)\n",
        session.pid(),
        session.mode()
    );
    // Nobody listens, and nobody needs to.
    let _unheard = io::stderr().write_all(line.as_bytes());
}

struct Printer<'p, 'o> {
    out: BufWriter<io::StdoutLock<'static>>,
    wanted: &'p [Wanted],
    modules: &'p ProcessModules<'o>,
    sources: SourceText,
    json: bool,
    terminal: Terminal,
    /// When the first access was: times for people count from there.
    start: Option<u64>,
    /// How many accesses to show.
    limit: u64,
    /// How many were shown.
    shown: u64,
}

impl Printer<'_, '_> {
    fn print(&mut self, hits: &[Hit], session: &Session<'_>) -> io::Result<()> {
        if !hits.is_empty()
            && let Some(map) = session.code().modules()
        {
            self.modules.set(map);
            self.modules.set_former(session.code().former_modules());
        }
        for hit in hits {
            if self.shown >= self.limit {
                break;
            }
            self.shown += 1;
            let start = *self.start.get_or_insert(hit.time_ns);
            let shown = show::hit(hit, self.wanted, self.modules, &self.sources);
            let line = if self.json {
                render::json_hit(&shown)?
            } else {
                render::hit(&shown, start, self.terminal)
            };
            writeln!(self.out, "{line}")?;
        }
        self.out.flush()
    }
}

fn summary(
    session: &Session<'_>,
    ended: Option<End>,
    printer: &Printer<'_, '_>,
    json: bool,
) -> Result<String> {
    let counted = session.summary();
    let mut notes = printer.sources.notes();
    notes.extend(vforked(counted.vforks));
    let summary = render::Summary {
        hits: printer.shown,
        lost: counted.lost,
        late_armed: counted.late_armed,
        mode: counted.mode.to_string(),
        reason: counted.reason,
        ended: ended.map(how),
        notes,
    };
    if json {
        Ok(render::json_summary(&summary)? + "\n")
    } else {
        Ok(render::summary(&summary) + "\n")
    }
}

/// What a child of vfork does is done to the memory that is watched, by a process that is not.
fn vforked(count: u64) -> Option<String> {
    let (children, were) = match count {
        0 => return None,
        1 => ("a child".to_owned(), "was"),
        more => (format!("{more} children"), "were"),
    };
    Some(format!(
        "{children} of vfork (posix_spawn and system use it) had the program's memory for a while and {were} not watched"
    ))
}

fn how(end: End) -> String {
    match end {
        End::Exited(status) => format!("the program exited with status {status}"),
        End::Killed { signal, .. } => format!("the program was ended by {signal}"),
        End::Unknown => "the program ended".to_owned(),
    }
}

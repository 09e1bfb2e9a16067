//! Agents that run a program each, as processes of their own.

use std::process::Stdio;
use std::time::{Duration, Instant};

use agent::link::Access;
use anyhow::{Context as _, Result, bail};
use proto::v1::bug::State;
use proto::v1::{Bug, GetSketchRequest, ListBugsRequest};
use tokio::process::{Child, Command};
use tracee::Pid;
use tracee::process::ExitWatch;

use crate::args::{FleetArgs, Format};
use crate::form;
use crate::people::{self, People};
use crate::run::MUCH_MORE_OFTEN;

/// How often the server is asked how far it is.
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);
/// How long agents get to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Lets agents run a program until its bug is explained; gives the sketch.
pub async fn run(args: &FleetArgs, access: &Access) -> Result<String> {
    if args.command.is_empty() {
        bail!("nothing to run: give a command after --, or recorded runs with --replay DIR");
    }
    let folder = tempfile::tempdir().context("cannot make a folder for the agents")?;
    let mut agents = Vec::new();
    for number in 0..args.agents.max(1) {
        agents.push(start(args, access, folder.path(), number)?);
    }
    let mut people = people::connect(access)?;
    let until = Instant::now() + Duration::from_secs(args.time_limit);
    let bug = wait(&mut people, until, &mut agents).await;
    end(agents).await;
    let Some(bug) = bug? else {
        bail!("no failure in {} s: give --time-limit", args.time_limit);
    };
    let request = GetSketchRequest {
        bug: bug.id.clone(),
        ..GetSketchRequest::default()
    };
    let sketch = people.get_sketch(request).await.map_err(people::said)?;
    let sketch = people::with_sources(&sketch.into_inner().sketch, &[])?;
    form::printed(&sketch, args.format.unwrap_or(Format::Term))
}

fn start(args: &FleetArgs, access: &Access, folder: &std::path::Path, number: u16) -> Result<Child> {
    let own = folder.join(number.to_string());
    std::fs::create_dir_all(&own).context("cannot make a folder for an agent")?;
    let mut command = Command::new(std::env::current_exe().context("cannot find failsketch itself")?);
    command
        .arg("agent")
        .args(["--server", &access.server])
        .arg("--host-id")
        .arg(own.join("host-id"))
        .arg("--spool")
        .arg(own.join("spool"))
        .args(["--registers", &args.registers.to_string()]);
    if let Some(ca) = &access.ca {
        command.arg("--ca").arg(ca);
    }
    if let Some(token) = &access.token {
        command.arg("--token").arg(token);
    }
    command
        .arg("--")
        .args(&args.command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(if args.verbose {
            Stdio::inherit()
        } else {
            Stdio::null()
        })
        .kill_on_drop(true);
    command.spawn().context("cannot start an agent")
}

/// The bug that is waited for: the first that was seen, unless another is seen so much more often that one machine would look into that.
fn foremost(mut bugs: Vec<Bug>) -> Option<Bug> {
    bugs.sort_by_key(|bug| bug.first_seen);
    let often = MUCH_MORE_OFTEN * bugs.first()?.failures;
    let rather = bugs.iter().position(|bug| bug.failures >= often).unwrap_or(0);
    Some(bugs.swap_remove(rather))
}

/// Waits until that bug is explained; gives it, or what there is of it when the time is over.
async fn wait(people: &mut People, until: Instant, agents: &mut [Child]) -> Result<Option<Bug>> {
    let mut shown = None;
    loop {
        let listed = people
            .list_bugs(ListBugsRequest::default())
            .await
            .map_err(people::said)?;
        let bug = foremost(listed.into_inner().bugs);
        if let Some(bug) = &bug {
            if shown.as_ref() != Some(bug) {
                eprintln!(
                    "{}: {} runs, {} failed, tracking {} statements{}",
                    bug.signature,
                    bug.runs,
                    bug.recurrences,
                    bug.sigma,
                    match bug.best.as_str() {
                        "" => String::new(),
                        best => format!(", best so far: {best}"),
                    }
                );
                shown = Some(bug.clone());
            }
            if bug.state() == State::Stable {
                return Ok(Some(bug.clone()));
            }
        }
        if Instant::now() >= until {
            return Ok(bug);
        }
        let mut ended = 0;
        for agent in agents.iter_mut() {
            ended += usize::from(agent.try_wait().context("cannot look after an agent")?.is_some());
        }
        if ended == agents.len() {
            return Ok(bug);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// Has all agents end, with their programs.
async fn end(agents: Vec<Child>) {
    for agent in &agents {
        if let Some(pid) = agent.id() {
            // One that has ended already is what is wanted.
            let _gone = ExitWatch::of(Pid(pid)).and_then(|agent| agent.ask_to_end());
        }
    }
    for mut agent in agents {
        if tokio::time::timeout(PATIENCE, agent.wait()).await.is_err() {
            // It is ended when it is dropped.
            eprintln!("failsketch: an agent does not end");
        }
    }
}

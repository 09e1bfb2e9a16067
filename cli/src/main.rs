//! `failsketch`: why did this program fail?

mod accesses;
mod agent_command;
mod args;
mod decode;
mod doctor;
mod fleet;
mod form;
mod input;
mod open;
mod people;
mod present;
mod run;
mod serve;
mod service_args;
mod show;
mod slice;
mod source_text;
mod triage;
mod watch;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

/// The exit status for anything that went wrong and was said; clap exits with 2 for wrong usage.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.command {
        Command::Run(options) => run::run(options).map(|ended| (ended.text, ended.status)),
        Command::Diagnose(options) => run::diagnose(options).map(done),
        Command::Show(options) => show::run(options).map(done),
        Command::Open(options) => open::run(options).map(done),
        Command::Bugs(options) => people::bugs(options).map(done),
        Command::Steer(options) => people::steer(options).map(done),
        Command::Serve(options) => serve::run(options).map(done),
        Command::Fleet(options) => fleet::run(options).map(done),
        Command::Slice(options) => slice::run(options).map(done),
        Command::Triage(options) => triage::run(options).map(done),
        Command::Watch(options) => watch::run(options).map(done),
        // It must end as soon as it has served: with that the kept process is free.
        Command::Keep => return watchpoint::keeper::serve(),
        Command::Agent(options) => agent_command::run(options).map(done),
        Command::Decode(options) => decode::run(options).map(done),
        Command::Doctor(options) => doctor::run(options).map(done),
    };
    let outcome = outcome.and_then(|(text, status)| {
        io::stdout().write_all(text.as_bytes())?;
        Ok(status)
    });
    match outcome {
        Ok(status) => ExitCode::from(status),
        // Whoever reads our output has read enough (`failsketch … | head`).
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let line = format!("{error:#}").replace('\n', " ");
            eprintln!("failsketch: {}", sketch_render::text::plain(&line));
            ExitCode::from(FAILED)
        }
    }
}

/// Text to print, and success.
fn done(text: String) -> (String, u8) {
    (text, 0)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

//! `failsketch serve`: the service for a fleet.

use anyhow::{Context as _, Result};
use server::access::init::Initialised;
use server::config::{Config, SourceMap};

use crate::args::ServeArgs;

/// Runs the command; gives what to print.
pub fn run(args: &ServeArgs) -> Result<String> {
    if let Some(folder) = &args.init {
        let made = server::access::init(folder, &args.names)?;
        return Ok(said(&made));
    }
    let mut config = match &args.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    if let Some(store) = &args.store {
        config.store.clone_from(store);
    }
    if let Some(objects) = &args.objects {
        config.objects.clone_from(objects);
    }
    let map = args.source_map.iter().map(|(from, to)| SourceMap {
        from: from.clone(),
        to: to.clone(),
    });
    config.sources.map.extend(map);
    if config.sources.debuginfod.is_empty() {
        let urls = std::env::var(sources::debuginfod::VARIABLE).unwrap_or_default();
        config.sources.debuginfod = urls.split_whitespace().map(str::to_owned).collect();
    }
    config.check()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    if !args.release_host.is_empty() {
        let released = runtime.block_on(server::serve::release(&config, &args.release_host))?;
        return Ok(now_free(&released));
    }
    log(&config);
    runtime.block_on(async {
        let running = server::serve::start(config, told_to_end()).await?;
        // Whoever started it with port 0 waits for this line.
        eprintln!("failsketch: serving on {}", running.address);
        running.ended().await?;
        Ok(String::new())
    })
}

/// Which hosts are nobody's now.
fn now_free(hosts: &[String]) -> String {
    match hosts {
        [] => "no host of that name belongs to a credential\n".to_owned(),
        hosts => format!(
            "the next credential that speaks for it gets it (servers at work learn it within a minute): {}\n",
            hosts.join(", ")
        ),
    }
}

/// What was made, and what to do with it.
fn said(made: &Initialised) -> String {
    let (certificate, key) = &made.agent;
    let tokens: Vec<String> = made
        .tokens
        .iter()
        .map(|path| format!("  {}", path.display()))
        .collect();
    format!(
        "made a configuration and everything that it names. Start the server with\n  failsketch serve --config {}\n\
         Agents and people need the authority's certificate\n  {}\n\
         Agents show a certificate and its key, or a token\n  {}\n  {}\n\
         Tokens, for agents, for readers and for those who steer\n{}\n",
        made.config.display(),
        made.ca.display(),
        certificate.display(),
        key.display(),
        tokens.join("\n"),
    )
}

/// Ends when somebody asks the process to end.
pub async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

fn log(config: &Config) {
    use server::config::LogFormat;
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let said = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(filter);
    match config.log.format {
        LogFormat::Json => said.json().init(),
        LogFormat::Text => said.init(),
    }
}

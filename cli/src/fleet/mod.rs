//! `failsketch fleet`: many agents on one machine, for tests, demonstrations and sizing.
//!
//! - `live`: agents that run a program each, as processes of their own
//! - `replay`: recorded runs sent again, in the name of as many hosts as one likes

mod live;
mod replay;

use anyhow::{Context as _, Result};
use server::config::Config;
use tokio::sync::oneshot;

use crate::args::FleetArgs;
use crate::people;

/// Runs the command; gives what to print.
pub fn run(args: &FleetArgs) -> Result<String> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(async {
        let own = match &args.server.server {
            Some(_) => None,
            None => Some(OwnServer::start().await?),
        };
        let access = match &own {
            Some(own) => agent::link::Access {
                server: own.url.clone(),
                ..agent::link::Access::default()
            },
            None => people::access(&args.server)?,
        };
        let told = match &args.replay {
            Some(folder) => replay::run(args, folder, &access).await,
            None => live::run(args, &access).await,
        };
        if let Some(own) = own {
            own.end().await;
        }
        told
    })
}

/// A server for as long as the fleet is there, where no other is named.
struct OwnServer {
    url: String,
    running: server::serve::Running,
    stop: oneshot::Sender<()>,
    _folder: tempfile::TempDir,
}

impl OwnServer {
    async fn start() -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for the server")?;
        let config = Config {
            listen: ([127, 0, 0, 1], 0).into(),
            store: format!("sqlite:{}", folder.path().join("failsketch.db").display()),
            objects: folder.path().join("objects").into(),
            ..Config::default()
        };
        let (stop, stopped) = oneshot::channel();
        let running = server::serve::start(config, async {
            // Dropped is told as well.
            let _ = stopped.await;
        })
        .await?;
        Ok(Self {
            url: format!("http://{}", running.address),
            running,
            stop,
            _folder: folder,
        })
    }

    async fn end(self) {
        let _gone = self.stop.send(());
        if let Err(error) = self.running.ended().await {
            eprintln!("failsketch: {error}");
        }
    }
}

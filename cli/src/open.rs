//! `failsketch open`.

use anyhow::{Context as _, Result};
use server::local::Served;

use crate::args::OpenArgs;
use crate::people;
use crate::serve::told_to_end;
use crate::show;

/// Runs the command; gives what to print.
pub fn run(args: &OpenArgs) -> Result<String> {
    if let Some(bug) = args
        .file
        .to_str()
        .filter(|_| args.server.server.is_some() && !args.file.exists())
    {
        // The server has a page of its own, which goes on with the bug.
        return Ok(format!("{}\n", people::page(&args.server, bug)?));
    }
    let sketch = show::read(&args.file)?;
    let page = sketch_render::sketch::html(&sketch);
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(async {
        let served = Served::new(page, args.port).await;
        let served = served.with_context(|| format!("cannot serve a page on port {}", args.port))?;
        let link = served.link()?;
        eprintln!("failsketch: the sketch is at the address below until you end this (Ctrl-C)");
        println!("{link}");
        served.serve(told_to_end()).await?;
        Ok(String::new())
    })
}

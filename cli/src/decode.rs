//! `failsketch decode`.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use pt_driver_client::code::Image;
use pt_driver_client::config::Config;
use pt_driver_client::flow::Decoder;
use pt_driver_client::reference;
use pt_driver_client::summary::Summary;
use serde_json::{Value, json};
use tracee::{MappedFile, libipt};

use crate::args::{DecodeArgs, PtDecoder};

/// Gaps that a person is shown one by one.
const SHOWN_GAPS: usize = 10;

/// Runs the command; gives what to print.
pub fn run(args: &DecodeArgs) -> Result<String> {
    let trace = MappedFile::open(&args.pt)?;
    let pages = MappedFile::open(&args.pages)?;
    let addresses = MappedFile::open(&args.addrs)?;
    let image = Image::from_pages(&pages, &addresses).with_context(|| {
        let (pages, addresses) = (args.pages.display(), args.addrs.display());
        format!("{pages} and {addresses} do not fit together")
    })?;
    let mut summary = Summary::default();
    match args.decoder {
        PtDecoder::Own => Decoder::new(&image).decode(&trace, &mut summary),
        PtDecoder::Libipt => {
            let code = libipt::CodeFile::new(image.pieces())?;
            let image = libipt::Image::new(&code)?;
            reference::decode(&image, &trace, &Config::default(), &mut summary)?;
        }
    }
    if args.json {
        Ok(serde_json::to_string_pretty(&as_json(&summary))? + "\n")
    } else {
        Ok(as_text(&summary))
    }
}

fn hex(address: Option<u64>) -> Option<String> {
    address.map(|address| format!("{address:#x}"))
}

fn as_json(summary: &Summary) -> Value {
    let gaps = summary
        .gaps
        .iter()
        .map(|gap| json!({ "from": gap.from, "to": gap.to, "why": gap.why.to_string() }));
    json!({
        "instructions": summary.instructions,
        "first": hex(summary.first),
        "last": hex(summary.last),
        "fnv1a": format!("{:016x}", summary.fnv1a),
        "gaps": gaps.collect::<Vec<_>>(),
    })
}

fn as_text(summary: &Summary) -> String {
    let address = |address| hex(address).unwrap_or_else(|| "none".to_owned());
    let mut text = format!(
        "{} instructions, first {}, last {}, FNV-1a {:016x}\n",
        summary.instructions,
        address(summary.first),
        address(summary.last),
        summary.fnv1a
    );
    for gap in summary.gaps.iter().take(SHOWN_GAPS) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "gap from byte {} to {}: {}", gap.from, gap.to, gap.why);
    }
    if let Some(more) = summary
        .gaps
        .len()
        .checked_sub(SHOWN_GAPS)
        .filter(|&more| more > 0)
    {
        let _ = writeln!(text, "{more} more gaps: --json shows them");
    }
    text
}

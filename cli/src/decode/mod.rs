//! `failsketch decode`.

pub mod args;
mod timed;

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use pt_driver_client::code::Image;
use pt_driver_client::flow::Decoder;
use pt_driver_client::reference;
use serde_json::{Value, json};
use tracee::{MappedFile, libipt};

use self::args::{DecodeArgs, PtDecoder};
use self::timed::Timed;

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
    let config = args.recorded.config();
    let mut found = Timed::default();
    match args.decoder {
        PtDecoder::Own => Decoder::with(&image, config).decode(&trace, &mut found),
        PtDecoder::Libipt => {
            let code = libipt::CodeFile::new(image.pieces())?;
            let image = libipt::Image::new(&code)?;
            reference::decode(&image, &trace, &config, &mut found.summary)?;
        }
    }
    if args.json {
        Ok(serde_json::to_string_pretty(&as_json(&found))? + "\n")
    } else {
        Ok(as_text(&found))
    }
}

fn hex(address: Option<u64>) -> Option<String> {
    address.map(|address| format!("{address:#x}"))
}

fn as_json(Timed { summary, times }: &Timed) -> Value {
    let gaps = summary
        .gaps
        .iter()
        .map(|gap| json!({ "from": gap.from, "to": gap.to, "why": gap.why.to_string() }));
    let mut value = json!({
        "instructions": summary.instructions,
        "first": hex(summary.first),
        "last": hex(summary.last),
        "fnv1a": format!("{:016x}", summary.fnv1a),
        "gaps": gaps.collect::<Vec<_>>(),
    });
    if let Some((first, last)) = times {
        value["time"] = json!({ "first": first.estimated, "last": last.estimated });
    }
    value
}

fn as_text(Timed { summary, times }: &Timed) -> String {
    let address = |address| hex(address).unwrap_or_else(|| "none".to_owned());
    let mut text = format!(
        "{} instructions, first {}, last {}, FNV-1a {:016x}\n",
        summary.instructions,
        address(summary.first),
        address(summary.last),
        summary.fnv1a
    );
    if let Some((first, last)) = times {
        let _ = writeln!(
            text,
            "from tick {} to {} of the timestamp counter",
            first.estimated, last.estimated
        );
    }
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

//! `failsketch show`.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use diagnosis::sketch::{Sketch, VERSION};
use serde_json::{Map, Value};

use crate::args::{Format, ShowArgs};
use crate::form;
use crate::people;

/// A sketch of a thousand steps has a megabyte.
const LARGEST: u64 = 256 << 20;

/// Runs the command; gives what to print.
pub fn run(args: &ShowArgs) -> Result<String> {
    let sketch = match (&args.server.server, args.file.to_str()) {
        // A file that is there is meant, whatever the environment says.
        (Some(_), Some(bug)) if !args.file.exists() && bug != "-" => {
            people::sketch(&args.server, bug, &args.source_map)?
        }
        _ => read(&args.file)?,
    };
    let named = args.out.as_deref().and_then(form::of_file_name);
    let format = args.format.or(named).unwrap_or(Format::Term);
    match &args.out {
        Some(path) => form::write(&sketch, format, path).map(|()| String::new()),
        None => form::printed(&sketch, format),
    }
}

/// Reads a sketch from a file.
pub fn read(path: &Path) -> Result<Sketch> {
    let (name, bytes) = if path.as_os_str() == "-" {
        ("standard input".to_owned(), bytes(std::io::stdin().lock()))
    } else {
        let name = path.display().to_string();
        let file = std::fs::File::open(path).with_context(|| format!("cannot read {name}"))?;
        (name, bytes(file))
    };
    let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
    parse(&bytes).with_context(|| name)
}

fn bytes(input: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a sketch.
pub fn parse(bytes: &[u8]) -> Result<Sketch> {
    let sketch: Option<Map<String, Value>> = serde_json::from_slice(bytes).ok();
    let version = sketch.as_ref().and_then(|sketch| sketch.get("version")?.as_u64());
    let version =
        version.context("this is no sketch: `failsketch run --json` and `triage --json` write some")?;
    if version != u64::from(VERSION) {
        bail!("a sketch of version {version}; this failsketch reads version {VERSION}");
    }
    serde_json::from_slice(bytes).context("this sketch is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_sketch_is_refused_with_a_reason() {
        let why = |text: &str| format!("{:#}", parse(text.as_bytes()).unwrap_err());
        assert!(why("").starts_with("this is no sketch"), "{}", why(""));
        assert!(why("[1]").starts_with("this is no sketch"), "{}", why("[1]"));
        assert_eq!(
            why("{\"version\":2}"),
            "a sketch of version 2; this failsketch reads version 1"
        );
        assert!(why("{\"version\":1}").starts_with("this sketch is damaged: missing field"));
    }
}

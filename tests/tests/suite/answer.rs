//! Reading what the command prints with `--json`.

use std::path::Path;

use failsketch_tests::command;
use failsketch_tests::facts::Place;
use serde_json::Value;

/// Where a statement is, if it has a line.
pub fn place(statement: &Value) -> Option<Place> {
    let file = Path::new(statement["file"].as_str()?).file_name()?;
    Some(Place {
        file: file.to_str()?.to_owned(),
        line: u32::try_from(statement["line"].as_u64()?).ok()?,
    })
}

/// A string; nothing where there is none.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The failing statement of a core or a text, as `function file:line`.
pub fn failing_statement(file: &Path, exe: &Path) -> Result<String, String> {
    let [file, exe] = [file, exe].map(|path| path.to_str().unwrap());
    let sketch = command::json(["triage", file, "--exe", exe, "--json"])?;
    let statement = &sketch["failure"]["statement"];
    let place = place(statement).ok_or_else(|| format!("no failing statement with a line: {statement}"))?;
    Ok(format!("{} {place}", text(&statement["function"])))
}

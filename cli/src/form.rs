//! The forms of a sketch.

use std::path::Path;

use anyhow::{Context as _, Result};
use diagnosis::sketch::Sketch;
use sketch_render::sketch;
use sketch_render::term::Terminal;

use crate::args::Format;
use crate::present;

/// Files are read elsewhere than on this terminal.
const IN_A_FILE: Terminal = Terminal {
    width: 100,
    colour: false,
};

/// The sketch for standard output.
pub fn printed(sketch: &Sketch, format: Format) -> Result<String> {
    render(sketch, format, present::terminal())
}

/// Writes the sketch to a file.
pub fn write(sketch: &Sketch, format: Format, path: &Path) -> Result<()> {
    let text = render(sketch, format, IN_A_FILE)?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The form that a file's name asks for.
pub fn of_file_name(path: &Path) -> Option<Format> {
    let extension = path.extension()?.to_str()?;
    let named = |&(_, known): &(Format, &str)| known == extension;
    FILES.iter().find(|form| named(form)).map(|&(format, _)| format)
}

/// Every form, with the extension of its files.
pub const FILES: [(Format, &str); 5] = [
    (Format::Term, "txt"),
    (Format::Html, "html"),
    (Format::Md, "md"),
    (Format::Json, "json"),
    (Format::Sarif, "sarif"),
];

fn render(sketch: &Sketch, format: Format, terminal: Terminal) -> Result<String> {
    Ok(match format {
        Format::Term => sketch::term(sketch, terminal),
        Format::Html => sketch::html(sketch),
        Format::Md => sketch::markdown(sketch),
        Format::Json => sketch::json(sketch)?,
        Format::Sarif => sketch::sarif(sketch)?,
        Format::Github => sketch::annotations(sketch),
    })
}

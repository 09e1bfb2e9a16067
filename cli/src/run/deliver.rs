//! What a sketch still needs from files, and where it goes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use diagnosis::sketch::{Sketch, StatementRef};
use program::{ModuleId, Pc, Program};
use slicer::slice::Criterion;

use crate::args::Format;
use crate::present;
use crate::sources::SourceText;

/// The criterion of a statement that the user named, in whichever module has it.
pub fn criterion(program: &Program<'_>, at: Option<&(String, u32)>) -> Result<Option<Criterion>> {
    let Some((file, line)) = at else {
        return Ok(None);
    };
    let mut problem = None;
    let own = program.modules().filter(|(_, module)| !module.is_library());
    for (id, module) in own {
        match module.sources().addresses_of(file, *line) {
            Ok(found) => {
                let pc = |addr| Pc { module: id, addr };
                let ranges: Vec<_> = found
                    .matches
                    .iter()
                    .map(|found| (pc(found.range.start), pc(found.range.end)))
                    .collect();
                return Ok(Some(Criterion::ranges(program, &ranges)));
            }
            Err(error) if id == ModuleId(0) => problem = Some(error),
            Err(_) => {}
        }
    }
    match problem {
        Some(problem) => Err(problem.into()),
        None => bail!("{file}:{line} is in no module of the program"),
    }
}

/// Why no more runs were made.
pub fn ending(stop: &str) -> String {
    format!("no more runs were made: {stop}")
}

/// The best predictor so far, in words.
pub fn in_words(sketch: &Sketch) -> Option<String> {
    let best = sketch.predictors.first()?;
    Some(sketch_render::sketch::words::predictor(sketch, best).plain())
}

/// Adds the text of the statements.
pub fn add_sources(sketch: &mut Sketch, sources: &SourceText) {
    let mut known: BTreeMap<(String, u32), Option<String>> = BTreeMap::new();
    sketch.statements_mut(|statement: &mut StatementRef| {
        if let (Some(file), Some(line)) = (&statement.file, statement.line)
            && statement.text.is_none()
        {
            let key = (file.clone(), line);
            let text = known.entry(key).or_insert_with(|| sources.line(file, line));
            statement.text.clone_from(text);
        }
    });
}

/// The sketch in the form that was asked for; in every form into a folder, if one was given.
pub fn deliver(sketch: &Sketch, format: Format, json: bool, out: Option<&Path>) -> Result<String> {
    if let Some(folder) = out {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for (name, format) in [("sketch.txt", Format::Term), ("sketch.json", Format::Json)] {
            let path = folder.join(name);
            fs::write(&path, render(sketch, format)?)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    render(sketch, if json { Format::Json } else { format })
}

fn render(sketch: &Sketch, format: Format) -> Result<String> {
    Ok(match format {
        Format::Json => serde_json::to_string_pretty(sketch)? + "\n",
        Format::Term => sketch_render::sketch::term(sketch, present::terminal()),
    })
}

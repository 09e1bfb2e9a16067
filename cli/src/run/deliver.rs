//! What a sketch still needs from files, and where it goes.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use diagnosis::sketch::Sketch;
use program::{ModuleId, Program};
use slicer::slice::Criterion;
use sources::{SourceText, add_text};

use crate::args::Format;
use crate::form;
use crate::present;

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
                return Ok(Some(present::criterion_of_line(program, id, &found)));
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
pub fn in_words(sketch: &Sketch, sources: &SourceText) -> Option<String> {
    let mut best = sketch.predictors.first()?.clone();
    sources.know(&sketch.files);
    for part in &mut best.statements {
        add_text(&mut part.statement, sources);
    }
    Some(sketch_render::sketch::words::predictor(sketch, &best).plain())
}

/// The sketch in the form that was asked for; in every form into a folder, if one was given.
pub fn deliver(sketch: &Sketch, format: Format, json: bool, out: Option<&Path>) -> Result<String> {
    if let Some(folder) = out {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for (format, extension) in form::FILES {
            form::write(sketch, format, &folder.join(format!("sketch.{extension}")))?;
        }
    }
    form::printed(sketch, if json { Format::Json } else { format })
}

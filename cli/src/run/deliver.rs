//! What a sketch still needs from files, and where it goes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use diagnosis::sketch::{Sketch, SourceExcerpt, StatementRef};
use program::{ModuleId, Program};
use slicer::slice::Criterion;

use crate::args::Format;
use crate::form;
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
    for part in &mut best.statements {
        add_text(&mut part.statement, sources);
    }
    Some(sketch_render::sketch::words::predictor(sketch, &best).plain())
}

fn add_text(statement: &mut StatementRef, sources: &SourceText) {
    if let (Some(file), Some(line), None) = (&statement.file, statement.line, &statement.text) {
        statement.text = sources.line(file, line);
    }
}

/// Adds the text of the statements, and what surrounds the steps.
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
    sketch.sources = excerpts(sketch, sources);
}

/// Lines shown on either side of a step's.
const AROUND: u32 = 6;
/// More excerpts than this are more than anybody opens.
const MOST_EXCERPTS: usize = 40;

/// The source around each step, with excerpts that touch one another joined.
fn excerpts(sketch: &Sketch, sources: &SourceText) -> Vec<SourceExcerpt> {
    let steps = sketch.steps.iter();
    let places: BTreeSet<(&str, u32)> = steps
        .filter_map(|step| Some((step.statement.file.as_deref()?, step.statement.line?)))
        .collect();
    let mut found: Vec<SourceExcerpt> = Vec::new();
    let mut end = 0;
    for (file, line) in places {
        let first = line.saturating_sub(AROUND).max(1);
        let last = line.saturating_add(AROUND);
        let joins = found.last().is_some_and(|excerpt| excerpt.file == file) && first <= end;
        if !joins {
            if found.len() == MOST_EXCERPTS {
                break;
            }
            found.push(SourceExcerpt {
                file: file.to_owned(),
                first,
                lines: Vec::new(),
            });
            end = first;
        }
        let Some(excerpt) = found.last_mut() else { break };
        // As long as the file goes on.
        let lines = (end..=last).map_while(|line| sources.whole_line(file, line));
        excerpt.lines.extend(lines);
        end = last + 1;
    }
    found.retain(|excerpt| !excerpt.lines.is_empty());
    found
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

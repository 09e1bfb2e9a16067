//! A sketch with the text of its statements.

use std::collections::BTreeSet;

use diagnosis::sketch::{Sketch, SourceExcerpt, StatementRef};

use crate::SourceText;

/// Lines shown on either side of a step's.
const AROUND: u32 = 6;
/// More excerpts than this are more than anybody opens.
const MOST_EXCERPTS: usize = 40;

/// Adds the text of a statement.
pub fn add_text(statement: &mut StatementRef, sources: &SourceText) {
    if let (Some(file), Some(line), None) = (&statement.file, statement.line, &statement.text) {
        statement.text = sources.line(file, line);
    }
}

/// Adds the text of the statements, and what surrounds the steps.
pub fn add_sources(sketch: &mut Sketch, sources: &SourceText) {
    sources.set_build(sketch.program.build_id.clone());
    sources.know(&sketch.files);
    sketch.statements_mut(|statement: &mut StatementRef| add_text(statement, sources));
    sketch.sources = excerpts(sketch, sources);
    sketch.notes.extend(sources.notes());
}

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
        end = last.saturating_add(1);
    }
    found.retain(|excerpt| !excerpt.lines.is_empty());
    found
}

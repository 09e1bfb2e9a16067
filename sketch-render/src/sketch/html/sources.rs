//! Source text around the statements, and the stacks.

use std::fmt::Write as _;

use diagnosis::sketch::{Sketch, StatementRef};

use super::markup::{escaped, name};
use crate::sketch::view;
use crate::text::{base_name, plain_start};

/// Characters of a source line.
const LONGEST_LINE: usize = 300;
/// Frames of a stack.
const MOST_FRAMES: usize = 64;

/// Where each source line of the page is.
pub(super) struct Index<'s> {
    excerpts: Vec<(&'s str, u32, u32)>,
}

impl<'s> Index<'s> {
    pub(super) fn new(sketch: &'s Sketch) -> Self {
        let excerpts = sketch.sources.iter().map(|excerpt| {
            let count = u32::try_from(excerpt.lines.len()).unwrap_or(u32::MAX);
            (
                excerpt.file.as_str(),
                excerpt.first,
                excerpt.first.saturating_add(count),
            )
        });
        Self {
            excerpts: excerpts.collect(),
        }
    }

    /// The id of a statement's line.
    pub(super) fn anchor(&self, statement: &StatementRef) -> Option<String> {
        let (file, line) = (statement.file.as_deref()?, statement.line?);
        let has = |(known, first, end): &(&str, u32, u32)| *known == file && (*first..*end).contains(&line);
        let number = self.excerpts.iter().position(has)?;
        Some(format!("s{number}-{line}"))
    }
}

pub(super) fn section(out: &mut String, sketch: &Sketch) {
    if sketch.sources.is_empty() {
        return;
    }
    let index = Index::new(sketch);
    let anchors = |failing: bool| -> std::collections::BTreeSet<String> {
        let steps = sketch.steps.iter().filter(|step| step.failing || !failing);
        steps.filter_map(|step| index.anchor(&step.statement)).collect()
    };
    let (used, failing) = (anchors(false), anchors(true));
    out.push_str("<section>\n<h2>Source</h2>\n");
    for (number, excerpt) in sketch.sources.iter().enumerate() {
        let file = plain_start(base_name(&excerpt.file), 100);
        let _ = write!(
            out,
            "<details open><summary title=\"{}\">{} <small class=\"soft\">{}–{}</small></summary>\n<pre class=\"src\" tabindex=\"0\">",
            escaped(&plain_start(&excerpt.file, 1000)),
            escaped(&file),
            excerpt.first,
            u64::from(excerpt.first) + (excerpt.lines.len() as u64).saturating_sub(1)
        );
        for (line, text) in (excerpt.first..).zip(&excerpt.lines) {
            let id = format!("s{number}-{line}");
            let class = match (failing.contains(&id), used.contains(&id)) {
                (true, _) => " class=\"hl die\"",
                (false, true) => " class=\"hl\"",
                (false, false) => "",
            };
            let text = plain_start(&text.replace('\t', "    "), LONGEST_LINE);
            let _ = write!(
                out,
                "<span id=\"{id}\"{class}><i>{line}</i>{}\n</span>",
                escaped(&text)
            );
        }
        out.push_str("</pre></details>\n");
    }
    out.push_str("</section>\n");
}

pub(super) fn stacks(out: &mut String, sketch: &Sketch) {
    let stacks: Vec<_> = sketch
        .failure
        .stacks
        .iter()
        .filter(|frames| !frames.is_empty())
        .collect();
    if stacks.is_empty() {
        return;
    }
    out.push_str("<section>\n<h2>Where the threads were</h2>\n");
    for frames in stacks {
        let own = frames.iter().find(|frame| frame.own).or(frames.first());
        let Some(own) = own else { continue };
        let open = if sketch.failure.kind == "hang" {
            " open"
        } else {
            ""
        };
        let _ = write!(
            out,
            "<details{open}><summary>{}</summary>\n<ol start=\"0\">",
            super::markup::place(&own.statement)
        );
        for frame in frames.iter().take(MOST_FRAMES) {
            let soft = if frame.own { "" } else { " class=\"soft\"" };
            let place = match (&frame.statement.file, &frame.module) {
                (None, Some(module)) => {
                    format!("{} {:#x}", plain_start(base_name(module), 60), frame.statement.pc)
                }
                _ => view::place(&frame.statement),
            };
            let inlined = if frame.inlined { " (inlined)" } else { "" };
            let guess = if frame.origin.as_deref() == Some("scan") {
                " (guessed from stack contents)"
            } else {
                ""
            };
            let _ = write!(
                out,
                "<li{soft}><code>{}</code>{inlined}{guess} {}</li>",
                name(&frame.statement.function, 80),
                escaped(&place)
            );
        }
        out.push_str("</ol></details>\n");
    }
    out.push_str("</section>\n");
}

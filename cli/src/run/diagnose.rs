//! `failsketch diagnose`: the sketch again, from recorded runs.

use anyhow::{Context as _, Result, bail};
use diagnosis::inquiry::Inquiry;
use diagnosis::record::{RunEnd, RunRecord};
use tracee::ProgramFiles;

use super::{deliver, keep};
use crate::args::{DiagnoseArgs, Ignored};
use crate::source_text;
use sources::add_sources;

/// Runs the command; gives what to print.
pub fn run(args: &DiagnoseArgs) -> Result<String> {
    let (series, records) = keep::open(&args.folder)?;
    let mut records = records.peekable();
    let mut untracked = 0;
    let first: RunRecord = loop {
        let Some(record) = records.next().transpose()? else {
            bail!("none of the runs in {} failed", args.folder.display());
        };
        untracked += u64::from(record.sigma == 0);
        let failed = matches!(record.end, RunEnd::Failed(_));
        if failed && record.number >= series.from {
            break record;
        }
    };
    let RunEnd::Failed(report) = &first.end else {
        bail!("none of the runs in {} failed", args.folder.display());
    };
    let files = ProgramFiles::with_debug_folders(args.debug_dirs.clone());
    let others = first.modules.iter().filter(|module| !module.executable);
    let program = files
        .program_of_modules(&series.executable, others.map(|module| module.path.as_str()))
        .context("the program of the recorded runs")?;
    let criterion = deliver::criterion(&program, series.at.as_ref())?;
    let mut inquiry = Inquiry::open(&program, report, criterion, series.sigma, untracked)?;
    // Without either there is nothing but the slice, and no run says anything.
    let nothing = args.ignore.contains(&Ignored::ControlFlow) && args.ignore.contains(&Ignored::DataFlow);
    for record in records.filter(|_| !nothing) {
        let record = without(record?, &args.ignore);
        // The plan is made again as it was, so that what a run joined is joined again.
        inquiry.assignment(record.number);
        inquiry.take(&record);
    }
    let mut sketch = inquiry.sketch();
    sketch.notes.extend(series.ended.as_deref().map(deliver::ending));
    let sources = source_text::of_program(&args.source_map, &series.executable)?;
    add_sources(&mut sketch, &sources);
    deliver::deliver(&sketch, args.format, args.json, None)
}

/// A run as if part of it had not been recorded.
fn without(mut record: RunRecord, ignored: &[Ignored]) -> RunRecord {
    for what in ignored {
        match what {
            Ignored::ControlFlow => record.flow = None,
            Ignored::DataFlow => {
                record.watched.clear();
                record.hits.clear();
                record.data_flow = None;
            }
        }
    }
    record
}

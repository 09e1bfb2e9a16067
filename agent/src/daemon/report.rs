//! From what happened to what is sent. Nothing leaves here that privacy keeps back.

use std::io;
use std::path::Path;

use diagnosis::record::{ModuleRecord, RunRecord};
use failure::report::Report;
use proto::v1::module;
use proto::v1::{Module, ReportFailureRequest, Run};
use tracee::{Part, ProgramFiles, is_system_path};

use super::identity::Identity;
use crate::durable::unique;
use crate::privacy::Privacy;
use crate::spool::Item;

/// More than a message may have is not sent; what is left when control flow is left out mostly is not so much.
const MOST: usize = proto::MOST_MESSAGE - (1 << 20);

/// A run that was tracked for a bug.
pub(crate) fn run(
    bug: &str,
    identity: &Identity,
    mut record: RunRecord,
    privacy: Privacy,
) -> io::Result<Item> {
    privacy.apply(&mut record);
    let mut bytes = serde_json::to_vec(&record)?;
    if bytes.len() > MOST && record.flow.take().is_some() {
        record.cut_short = Some("its control flow was too much to be sent".to_owned());
        bytes = serde_json::to_vec(&record)?;
    }
    Ok(Item::Run(Run {
        id: unique()?,
        bug: bug.to_owned(),
        program: Some(identity.program()),
        record: bytes.into(),
    }))
}

/// A failure that nobody tracked.
pub(crate) fn failure(
    host: &str,
    identity: &Identity,
    mut report: Report,
    mapped: &[ModuleRecord],
    runs: u64,
    privacy: Privacy,
) -> io::Result<Item> {
    let modules = modules(identity, mapped, &report);
    privacy.apply_to_report(&mut report);
    let debug_files = modules.iter().flat_map(debug_files).collect();
    Ok(Item::Failure(ReportFailureRequest {
        host: host.to_owned(),
        id: unique()?,
        program: Some(identity.program()),
        modules,
        runs,
        report: serde_json::to_vec(&report)?.into(),
        debug_files,
    }))
}

/// The files that have the debug information of a module, where it was taken out of it. The system's libraries are not looked into, so theirs
/// are not needed.
fn debug_files(module: &Module) -> Vec<Module> {
    if !module.executable && is_system_path(&module.path) {
        return Vec::new();
    }
    let files = ProgramFiles::default();
    // What is gone cannot be uploaded either.
    let found = files.debug_files(Path::new(&module.path)).unwrap_or_default();
    let named = found.into_iter().map(|(part, path)| {
        let part = match part {
            Part::Debug => module::Part::Debug,
            Part::Supplementary => module::Part::Supplementary,
        };
        Module {
            path: path.display().to_string(),
            build_id: module.build_id.clone(),
            executable: false,
            part: part.into(),
        }
    });
    named.collect()
}

/// The executable first, and the files that the process had mapped, or, if nobody looked, those that its stacks go through.
fn modules(identity: &Identity, mapped: &[ModuleRecord], report: &Report) -> Vec<Module> {
    let own = identity.path.display().to_string();
    let mut modules = vec![Module {
        path: own.clone(),
        build_id: identity.build_id.0.clone().into(),
        executable: true,
        ..Module::default()
    }];
    let frames = report.threads.iter().flat_map(|thread| &thread.frames);
    let passed = frames
        .filter_map(|frame| frame.module.as_ref())
        .map(|module| (&module.path, &module.build_id));
    let others = mapped
        .iter()
        .filter(|module| !module.executable)
        .map(|module| (&module.path, &module.build_id));
    for (path, build_id) in others.chain(passed) {
        let known = modules.iter().any(|module| module.path == *path);
        // What is no file (`[vdso]`), or cannot be told from other builds of it, cannot be asked for.
        let Some(build_id) = build_id else { continue };
        if !known && path.starts_with('/') && *build_id != identity.build_id {
            modules.push(Module {
                path: path.clone(),
                build_id: build_id.0.clone().into(),
                executable: false,
                ..Module::default()
            });
        }
    }
    modules
}

//! Opening the program, with those of its libraries that a failure's stacks go through.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use elsa::FrozenVec;
use failure::Report;
use failure::resolve::recorded_path;
use program::{Module, Program};
use tracee::{HostFiles, is_system_path};

use crate::args::ProgramArgs;

/// Owns the bytes of everything that a command opens.
#[derive(Default)]
pub struct Opened {
    files: FrozenVec<Box<HostFiles>>,
}

/// Libraries that are opened for one report; a stack goes through a handful.
const MOST_LIBRARIES: usize = 64;

impl Opened {
    /// The program of one executable.
    pub fn program(&self, args: &ProgramArgs) -> Result<Program<'_>> {
        Ok(Program::new(vec![self.module(&args.exe, &args.debug_dirs)?]))
    }

    /// The program that a report is about, as its stacks show it.
    pub fn program_of(&self, args: &ProgramArgs, report: &Report) -> Result<Program<'_>> {
        let mut modules = vec![self.module(&args.exe, &args.debug_dirs)?];
        let frames = report.threads.iter().flat_map(|thread| &thread.frames);
        let paths: BTreeSet<&str> = frames
            .filter_map(|frame| frame.module.as_ref())
            .map(|module| module.path.as_str())
            .collect();
        let given = args.exe.display().to_string();
        let recorded = recorded_path(&given, paths.iter().copied(), report.program.as_deref());
        let others = paths
            .into_iter()
            .filter(|&path| Some(path) != recorded && path.starts_with('/'));
        for path in others.take(MOST_LIBRARIES) {
            // A library that is not here, or another build, leaves its frames without names: no reason to stop.
            let Ok(module) = self.module(Path::new(path), &args.debug_dirs) else {
                continue;
            };
            if is_other_build(&module, path, report) {
                continue;
            }
            modules.push(if is_system_path(path) {
                module.as_library()
            } else {
                module
            });
        }
        Ok(Program::new(modules))
    }

    fn module(&self, path: &Path, debug_dirs: &[PathBuf]) -> Result<Module<'_>> {
        let files = HostFiles::with_debug_folders(path, debug_dirs.to_vec());
        let files = self.files.push_get(Box::new(files));
        let bytes = files.binary()?;
        let name = path.display().to_string();
        Module::load(&name, bytes, files).context(name)
    }
}

fn is_other_build(module: &Module<'_>, path: &str, report: &Report) -> bool {
    let Some(here) = module.elf().build_id() else {
        return false;
    };
    let frames = report.threads.iter().flat_map(|thread| &thread.frames);
    let recorded = frames
        .filter_map(|frame| frame.module.as_ref())
        .filter(|module| module.path == path);
    recorded
        .filter_map(|module| module.build_id.as_ref())
        .any(|recorded| *recorded != here)
}

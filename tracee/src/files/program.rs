//! Opening the program, with those of its libraries that a failure's stacks go through.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use elsa::sync::FrozenVec;
use failure::Report;
use failure::resolve::recorded_path;
use program::elf::{Elf, ElfError};
use program::{BuildId, Module, Program};
use thiserror::Error;

use super::host::HostFiles;
use super::mapped::{FileError, MappedFile};
use super::modules::is_system_path;
use super::parts::{Part, Parts};

/// Why a program cannot be opened.
#[derive(Debug, Error)]
pub enum ProgramError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no program.
    #[error("{path}")]
    NotAProgram {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: ElfError,
    },
}

/// Owns the bytes of the programs that are opened through it.
#[derive(Default)]
pub struct ProgramFiles {
    debug_folders: Vec<PathBuf>,
    files: FrozenVec<Box<HostFiles>>,
}

/// Libraries that are opened for one report; a stack goes through a handful.
const MOST_LIBRARIES: usize = 64;
/// Files that are opened of one process.
const MOST_MODULES: usize = 1024;

/// A file of another host's process.
#[derive(Debug)]
pub struct Stored<'m> {
    /// What that host called it.
    pub name: &'m str,
    /// Where it is here,
    pub path: &'m Path,
    /// and its debug information.
    pub parts: Parts,
}

impl ProgramFiles {
    /// With folders that are searched for debug files before the global ones.
    #[must_use]
    pub fn with_debug_folders(debug_folders: Vec<PathBuf>) -> Self {
        Self {
            debug_folders,
            files: FrozenVec::new(),
        }
    }

    /// The program of one executable.
    ///
    /// # Errors
    /// When it cannot be read or is no program.
    pub fn program(&self, exe: &Path) -> Result<Program<'_>, ProgramError> {
        Ok(Program::new(vec![self.module(exe)?]))
    }

    /// The program that a report is about, as its stacks show it: the executable that somebody gave, and the
    /// libraries.
    ///
    /// # Errors
    /// When the executable cannot be read or is no program.
    pub fn program_of(&self, exe: &Path, report: &Report) -> Result<Program<'_>, ProgramError> {
        let (own, others) = std::thread::scope(|scope| {
            // A large program's symbols take as long to go through as a library's debug information to uncompress.
            let others = scope.spawn(|| self.libraries(exe, report));
            let own = self.module(exe);
            if let Ok(own) = &own {
                own.code().functions().prepare();
            }
            (own, others.join())
        });
        let mut modules = vec![own?];
        modules.extend(others.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok(Program::new(told_apart(modules)))
    }

    /// The libraries that a report's stacks go through.
    fn libraries(&self, exe: &Path, report: &Report) -> Vec<Module<'_>> {
        let mut modules = Vec::new();
        let frames = report.threads.iter().flat_map(|thread| &thread.frames);
        let paths: BTreeSet<&str> = frames
            .filter_map(|frame| frame.module.as_ref())
            .map(|module| module.path.as_str())
            .collect();
        let given = exe.display().to_string();
        let recorded = recorded_path(&given, paths.iter().copied(), report.program.as_deref());
        let others = paths
            .into_iter()
            .filter(|&path| Some(path) != recorded && path.starts_with('/'));
        for path in others.take(MOST_LIBRARIES) {
            // A library that is not here, or another build, leaves its frames without names: no reason to stop.
            let Ok(module) = self.module(Path::new(path)) else {
                continue;
            };
            if is_other_build(&module, path, report) {
                continue;
            }
            modules.push(module);
        }
        modules
    }

    /// The program of a process: its executable, and all else that it had mapped.
    ///
    /// # Errors
    /// When the executable cannot be read or is no program.
    pub fn program_of_modules<'m>(
        &self,
        exe: &Path,
        others: impl IntoIterator<Item = &'m str>,
    ) -> Result<Program<'_>, ProgramError> {
        let mut modules = vec![self.module(exe)?];
        let others = others.into_iter().filter(|path| path.starts_with('/'));
        for path in others.take(MOST_MODULES) {
            // A library that is gone leaves its code without names: no reason to stop.
            if let Ok(module) = self.module(Path::new(path)) {
                modules.push(module);
            }
        }
        Ok(Program::new(told_apart(modules)))
    }

    /// The program of a process of another host, the executable first.
    ///
    /// # Errors
    /// When one of them cannot be read or is no program.
    pub fn program_from<'m>(
        &self,
        files: impl IntoIterator<Item = Stored<'m>>,
    ) -> Result<Program<'_>, ProgramError> {
        let modules = files.into_iter().map(|stored| {
            let (module, _) = self.open(stored.path, stored.name, stored.parts)?;
            Ok(module)
        });
        Ok(Program::new(told_apart(
            modules.collect::<Result<_, ProgramError>>()?,
        )))
    }

    /// One file as a module.
    ///
    /// # Errors
    /// When it cannot be opened, or is no executable and no shared object.
    pub fn module(&self, path: &Path) -> Result<Module<'_>, ProgramError> {
        let (module, _) = self.open(path, &path.display().to_string(), Parts::new())?;
        Ok(module)
    }

    /// The files of this host that have the debug information of a module, where that is not in the module itself.
    ///
    /// # Errors
    /// When the module cannot be opened.
    pub fn debug_files(&self, path: &Path) -> Result<Parts, ProgramError> {
        let (module, files) = self.open(path, &path.display().to_string(), Parts::new())?;
        let build = module.elf().build_id();
        let is_right = |(part, path): &&(Part, PathBuf)| match part {
            Part::Debug => build.is_some() && build_id(path) == build,
            Part::Supplementary => true,
        };
        Ok(files.found().filter(is_right).cloned().collect())
    }

    fn open(&self, path: &Path, name: &str, parts: Parts) -> Result<(Module<'_>, &HostFiles), ProgramError> {
        let files = HostFiles::with_debug_folders(path, self.debug_folders.clone()).with_parts(parts);
        let files = self.files.push_get(Box::new(files));
        let bytes = files.binary()?;
        let module = Module::load(name, bytes, files).map_err(|source| ProgramError::NotAProgram {
            path: path.to_owned(),
            source,
        })?;
        Ok((module, files))
    }
}

/// The modules of a program, the executable first, with its libraries known as such: what systems keep where they keep their libraries,
/// and what nobody has debug information of beside an executable that has. Whoever built that one did not build those: their single
/// instructions are no statements of his, and what they keep to themselves would take the registers from what he wrote.
fn told_apart(modules: Vec<Module<'_>>) -> Vec<Module<'_>> {
    let known = modules.first().is_some_and(Module::has_debug_information);
    let modules = modules.into_iter().enumerate();
    let told = modules.map(|(number, module)| {
        let library = is_system_path(module.name()) || known && !module.has_debug_information();
        if number > 0 && library {
            module.as_library()
        } else {
            module
        }
    });
    told.collect()
}

/// Which build a file is of, or has the debug information of.
#[must_use]
pub fn build_id(path: &Path) -> Option<BuildId> {
    let file = MappedFile::open_scattered(path).ok()?;
    Elf::parse(&file).ok()?.build_id()
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

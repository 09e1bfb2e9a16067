//! Where the text of source lines comes from.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use diagnosis::sketch::Sketch;
use program::{BuildId, ModuleId, Program};
use sources::{Debuginfod, SourceText, debuginfod};
use tracee::ProgramFiles;

/// Sources of a program that is here: where it was compiled, or where `--source-map` says that they are now; what is not there
/// is asked for at the debuginfod servers of the environment.
pub fn of_program(map: &[(String, String)], program: &Path) -> Result<SourceText> {
    Ok(from_servers(SourceText::new(map))?.of_program(program))
}

/// Sources of whatever a process has loaded.
pub fn of_process(map: &[(String, String)]) -> Result<SourceText> {
    from_servers(SourceText::new(map))
}

/// Sources of a program that is known by its sketch. Files of this machine are those that it was compiled from only if the
/// program itself is here, in the same build.
pub fn of_sketch(map: &[(String, String)], sketch: &Sketch) -> Result<SourceText> {
    let program = Path::new(&sketch.program.name);
    match is_here(program, sketch.program.build_id.as_deref()) {
        true => of_program(map, program),
        false => from_servers(SourceText::mapped_only(map)),
    }
}

/// The build-id of a program's executable, as debuginfod servers know it.
pub fn build_of(program: &Program<'_>) -> Option<String> {
    let executable = program.module(ModuleId(0))?;
    executable
        .elf()
        .build_id()
        .map(|build: BuildId| build.to_string())
}

fn is_here(file: &Path, build: Option<&str>) -> bool {
    let files = ProgramFiles::default();
    let program = match file.is_absolute() {
        true => files.program(file).ok(),
        false => None,
    };
    let here = program.as_ref().and_then(build_of);
    here.is_some() && here.as_deref() == build
}

fn from_servers(text: SourceText) -> Result<SourceText> {
    let urls = std::env::var(debuginfod::VARIABLE).unwrap_or_default();
    Ok(match Debuginfod::new(&urls)? {
        Some(servers) => text.or_from(Arc::new(servers)),
        None => text,
    })
}

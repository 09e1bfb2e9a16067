//! Reading what a person on call has: a core dump, or the text of a stack trace.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use failure::Report;
use failure::core_dump::CoreDump;
use failure::image::{self, Limits, ProcessImage as _};
use failure::resolve::recorded_path;
use program::Reading;
use tracee::{HostModules, MappedFile};

/// Larger texts are log archives: cut the trace out first.
const LARGEST_TEXT: u64 = 256 << 20;

/// Reads a report from a file that may be either.
pub fn report(file: &Path, exe: &Path) -> Result<Report> {
    if is_standard_input(file) {
        return text(file);
    }
    let bytes = MappedFile::open_scattered(file)?;
    if bytes.starts_with(b"\x7fELF") {
        from_core(&bytes, file, exe)
    } else {
        bytes.expect(&bytes, Reading::Through);
        from_text(&bytes, file)
    }
}

/// Reads a core dump.
pub fn core(file: &Path, exe: &Path) -> Result<Report> {
    from_core(&MappedFile::open_scattered(file)?, file, exe)
}

/// Reads the text of a stack trace.
pub fn text(file: &Path) -> Result<Report> {
    if is_standard_input(file) {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .take(LARGEST_TEXT)
            .read_to_end(&mut bytes)
            .context("standard input")?;
        return from_text(&bytes, Path::new("standard input"));
    }
    from_text(&MappedFile::open(file)?, file)
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn from_core(bytes: &[u8], file: &Path, exe: &Path) -> Result<Report> {
    let core = CoreDump::parse(bytes).with_context(|| file.display().to_string())?;
    let given = exe.display().to_string();
    let program = core.executable_path();
    let paths = core.modules().iter().map(|module| module.path.as_str());
    let recorded = recorded_path(&given, paths, program.as_deref());
    let modules = HostModules::new(exe, recorded);
    Ok(image::report(&core, &modules, Limits::default()))
}

fn from_text(bytes: &[u8], file: &Path) -> Result<Report> {
    failure::text::parse(bytes).with_context(|| file.display().to_string())
}

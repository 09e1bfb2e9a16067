//! Reading what a person on call has: a core dump, or the text of a stack trace.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use failure::Report;
use failure::core_dump::CoreDump;
use failure::image::{self, Limits, ProcessImage as _};
use failure::resolve::recorded_path;
use program::Reading;
use tracee::{HostModules, MappedFile};

/// Larger texts are log archives: cut the trace out first.
const LARGEST_STREAM: u64 = 256 << 20;

/// Reads a report from a file that may be either.
pub fn report(file: &Path, exe: &Path) -> Result<Report> {
    with_bytes(file, |bytes, name| {
        if is_core(bytes) {
            from_core(bytes, name, exe)
        } else {
            from_text(bytes, name)
        }
    })
}

/// Reads a core dump.
pub fn core(file: &Path, exe: &Path) -> Result<Report> {
    with_bytes(file, |bytes, name| from_core(bytes, name, exe))
}

/// Reads the text of a stack trace.
pub fn text(file: &Path) -> Result<Report> {
    with_bytes(file, from_text)
}

/// Hands over the bytes of a file, or of what a shell has opened for us: `-`, and `/dev/fd/63` for
/// `<(journalctl …)`.
fn with_bytes(file: &Path, read: impl FnOnce(&[u8], &Path) -> Result<Report>) -> Result<Report> {
    if file.as_os_str() == "-" {
        return read(
            &stream(std::io::stdin().lock(), Path::new("standard input"))?,
            Path::new("standard input"),
        );
    }
    // Another pipe may have no other end, and opening it would wait for one.
    let open_already = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];
    let is_file = std::fs::metadata(file).is_ok_and(|found| found.is_file() || found.is_dir());
    if !is_file && open_already.iter().any(|place| file.starts_with(place)) {
        let opened = File::open(file).with_context(|| file.display().to_string())?;
        return read(&stream(opened, file)?, file);
    }
    let bytes = MappedFile::open_scattered(file)?;
    // Of a core little is looked at; a text is read from one end to the other.
    if !is_core(&bytes) {
        bytes.expect(&bytes, Reading::Through);
    }
    read(&bytes, file)
}

fn is_core(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

fn stream(from: impl std::io::Read, name: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LARGEST_STREAM + 1)
        .read_to_end(&mut bytes)
        .with_context(|| name.display().to_string())?;
    if bytes.len() as u64 > LARGEST_STREAM {
        bail!(
            "{}: more than {} MB; save it to a file and give its name",
            name.display(),
            LARGEST_STREAM >> 20
        );
    }
    Ok(bytes)
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

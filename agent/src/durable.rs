//! Files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// What the names of files begin with that are not there yet.
pub(crate) const TEMPORARY: &str = "writing-";

/// Writes a file so that it is there whole or not at all, whoever is killed or loses power meanwhile.
pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = folder.join(format!("{TEMPORARY}{name}"));
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, folder.join(name))?;
    File::open(folder)?.sync_all()
}

/// A name that nobody else has: hosts, runs and failures are told apart by such.
pub(crate) fn unique() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

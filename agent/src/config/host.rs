//! The name of this host, made once and kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::durable;

const LONGEST: usize = 64;

/// Why the host has no name.
#[derive(Debug, Error)]
pub enum HostError {
    /// The file cannot be read or made.
    #[error("cannot keep this host's name in {path}: write a file that can be made as `host_id`")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is something else in it.
    #[error("{0} has no name in it: up to 64 letters, digits and `-._`; remove it, and one is made")]
    NoName(PathBuf),
}

/// The name in the file; a new one, which is written there, if there is no file.
///
/// # Errors
/// When there is none and none can be kept.
pub fn host_id(path: &Path) -> Result<String, HostError> {
    let failed = |source| HostError::File {
        path: path.to_owned(),
        source,
    };
    match fs::read_to_string(path) {
        Ok(text) => {
            let name = text.trim();
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if name.is_empty() || name.len() > LONGEST || !name.bytes().all(is_name) {
                return Err(HostError::NoName(path.to_owned()));
            }
            Ok(name.to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = durable::unique().map_err(failed)?;
            let nowhere = || failed(io::ErrorKind::InvalidInput.into());
            let file = path
                .file_name()
                .and_then(|name| name.to_str())
                .ok_or_else(nowhere)?;
            let folder = path.parent().filter(|folder| *folder != Path::new(""));
            let folder = folder.unwrap_or(Path::new("."));
            fs::create_dir_all(folder).map_err(failed)?;
            durable::write(folder, file, format!("{name}\n").as_bytes()).map_err(failed)?;
            Ok(name)
        }
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/host-id");
        let name = host_id(&path).unwrap();
        assert_eq!(host_id(&path).unwrap(), name);
        fs::remove_file(&path).unwrap();
        assert_ne!(host_id(&path).unwrap(), name);
        fs::write(&path, "web-7.example\n").unwrap();
        assert_eq!(host_id(&path).unwrap(), "web-7.example");
        for wrong in ["", "two names", "../x\u{7}"] {
            fs::write(&path, wrong).unwrap();
            assert!(matches!(host_id(&path), Err(HostError::NoName(_))), "{wrong:?}");
        }
    }
}

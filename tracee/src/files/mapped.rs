//! A file's bytes without reading them: pages come in as they are looked at, so opening a binary with
//! gigabytes of debug information costs nothing.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use thiserror::Error;

/// A file that could not be opened.
#[derive(Debug, Error)]
pub enum FileError {
    /// The operating system refused.
    #[error("cannot read {path}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder, a device or a pipe, where a file was expected.
    #[error("{path} is not a regular file; give the path of a file")]
    NotAFile {
        /// Which path.
        path: PathBuf,
    },
}

/// A whole file, mapped read-only.
#[derive(Debug)]
pub struct MappedFile {
    map: Option<Mmap>,
}

impl MappedFile {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// When the file cannot be opened or mapped, or is not a regular file.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let unreadable = |source| FileError::Unreadable {
            path: path.to_owned(),
            source,
        };
        // Opening a pipe or a terminal would wait for its other end: look before opening.
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile {
                path: path.to_owned(),
            });
        }
        let file = File::open(path).map_err(unreadable)?;
        if metadata.len() == 0 {
            return Ok(Self { map: None });
        }
        // SAFETY: the mapping is private and read-only. A file that another process shortens while we look
        // raises SIGBUS, as for every debugger that maps its inputs; one that is rewritten in place shows
        // other bytes, and every parser above takes arbitrary bytes.
        let map = unsafe { Mmap::map(&file) }.map_err(unreadable)?;
        Ok(Self { map: Some(map) })
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}

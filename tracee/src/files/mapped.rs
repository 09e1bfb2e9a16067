//! A file's bytes without reading them: pages come in as they are looked at, so opening a binary with
//! gigabytes of debug information costs nothing.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};

use memmap2::{Advice, Mmap, UncheckedAdvice};
use program::Reading;
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

/// A file that is read in no time, as a whole.
const SMALL: usize = 4 << 20;

/// How much a kernel brings in, at least, of a part that it is told is needed: the read-ahead of most disks. Of more
/// it may leave the rest. (To announce that a part is read in order brings in megabytes behind it as well.)
const AT_ONCE: usize = 128 << 10;

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

    /// Maps a file of which little is going to be read, here and there: a binary, a debug file, a core. To be said before
    /// the first look, which brings in megabytes around it otherwise.
    ///
    /// # Errors
    /// As for [`MappedFile::open`].
    pub fn open_scattered(path: &Path) -> Result<Self, FileError> {
        let file = Self::open(path)?;
        file.expect(&file, Reading::Scattered);
        Ok(file)
    }

    /// Tells the kernel how a part of the file is going to be read. Bytes that are not of this file are left
    /// alone. A refusal costs speed, nothing else.
    pub fn expect(&self, part: &[u8], reading: Reading) {
        let Some(map) = &self.map else { return };
        let Some(range) = pages_within(map, part, reading) else {
            return;
        };
        // Advice cannot be wrong, only useless: nobody waits for what the kernel makes of it.
        let _ = match reading {
            Reading::Scattered if map.len() <= SMALL => Ok(()),
            Reading::Scattered => map.advise_range(Advice::Random, range.start, range.len()),
            Reading::Through => range
                .clone()
                .step_by(AT_ONCE)
                .try_for_each(|from| map.advise_range(Advice::WillNeed, from, AT_ONCE.min(range.end - from))),
            // SAFETY: the mapping is private, read-only and of a file: whoever looks at such a page again
            // gets the file's bytes again, as after any page that the kernel took away by itself.
            Reading::Over => unsafe {
                map.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len())
            },
        };
    }
}

/// The pages of a mapping that a part of it lies in; for what is over, those that it fills.
fn pages_within(map: &[u8], part: &[u8], reading: Reading) -> Option<Range<usize>> {
    const PAGE: usize = 4096;
    let start = part.as_ptr().addr().checked_sub(map.as_ptr().addr())?;
    let end = start.checked_add(part.len()).filter(|end| *end <= map.len())?;
    let (start, end) = match reading {
        Reading::Over => (start.next_multiple_of(PAGE), end / PAGE * PAGE),
        Reading::Scattered | Reading::Through => (start / PAGE * PAGE, end),
    };
    (start < end).then_some(start..end)
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_about_whole_pages_of_the_file() {
        let map = vec![0; 3 * 4096 + 10];
        let pages = |part: Range<usize>, reading| pages_within(&map, &map[part], reading);
        assert_eq!(pages(100..5000, Reading::Through), Some(0..5000));
        assert_eq!(pages(100..9000, Reading::Over), Some(4096..8192));
        assert_eq!(pages(100..5000, Reading::Over), None);
        assert_eq!(
            pages_within(&map[..4096], &map[4000..5000], Reading::Through),
            None
        );
        assert_eq!(pages_within(&map[4096..], &map[..5000], Reading::Through), None);
    }

    #[test]
    fn bytes_are_there_again_after_they_were_over() {
        let path = std::env::current_exe().unwrap();
        let file = MappedFile::open(&path).unwrap();
        for reading in [Reading::Scattered, Reading::Through, Reading::Over] {
            file.expect(&file, reading);
        }
        assert!(*file == *std::fs::read(&path).unwrap());
    }
}

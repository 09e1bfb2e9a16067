//! The files of this host, handed to the program model.

use std::path::{Path, PathBuf};

use elsa::sync::{FrozenMap, FrozenVec};
use program::{FileRequest, Files, Reading};

use super::lookup;
use super::mapped::{FileError, MappedFile};
use super::parts::{Part, Parts};

/// One binary's surroundings: finds and maps its debug files, and keeps every byte alive that was handed out.
pub struct HostFiles {
    binary: PathBuf,
    debug_folders: Vec<PathBuf>,
    /// Where its debug information is, as far as somebody knows.
    given: Parts,
    /// What of it was found, in order.
    found: FrozenVec<Box<(Part, PathBuf)>>,
    /// Where among the mapped files the one of a path is, if there is one.
    places: FrozenMap<PathBuf, Box<Option<usize>>>,
    mapped: FrozenVec<Box<MappedFile>>,
    kept: FrozenVec<Vec<u8>>,
}

impl HostFiles {
    /// The surroundings of the binary at `binary`.
    #[must_use]
    pub fn of(binary: &Path) -> Self {
        Self::with_debug_folders(binary, Vec::new())
    }

    /// The same, with folders searched before the global debug folders.
    #[must_use]
    pub fn with_debug_folders(binary: &Path, debug_folders: Vec<PathBuf>) -> Self {
        Self {
            binary: binary.to_owned(),
            debug_folders,
            given: Parts::new(),
            found: FrozenVec::new(),
            places: FrozenMap::new(),
            mapped: FrozenVec::new(),
            kept: FrozenVec::new(),
        }
    }

    /// With debug files whose places are known: these are not looked for elsewhere.
    #[must_use]
    pub fn with_parts(self, given: Parts) -> Self {
        Self { given, ..self }
    }

    /// The debug files that were handed over.
    pub fn found(&self) -> impl Iterator<Item = &(Part, PathBuf)> {
        self.found.iter()
    }

    /// The binary's own bytes.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn binary(&self) -> Result<&[u8], FileError> {
        let file = MappedFile::open_scattered(&self.binary)?;
        Ok(self.mapped.push_get(Box::new(file)))
    }

    /// Maps a file once; asked again, the same bytes (or the same absence) come back.
    fn map(&self, path: &Path) -> Option<&[u8]> {
        let place = self.places.get(path).unwrap_or_else(|| {
            let file = MappedFile::open_scattered(path).ok();
            let place = file.map(|file| self.mapped.push_get_index(Box::new(file)));
            self.places.insert(path.to_owned(), Box::new(place))
        });
        self.mapped.get((*place)?).map(|file| &**file)
    }
}

impl Files for HostFiles {
    fn open(&self, request: &FileRequest) -> Option<&[u8]> {
        let part = Part::of(request);
        if let Some(path) = part.and_then(|part| self.given.get(&part)) {
            return self.map(path);
        }
        let paths = lookup::candidates(&self.binary, request, &self.debug_folders);
        let (path, bytes) = paths.into_iter().find_map(|path| {
            let bytes = self.map(&path)?;
            Some((path, bytes))
        })?;
        if let Some(part) = part {
            self.found.push(Box::new((part, path)));
        }
        Some(bytes)
    }

    fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        self.kept.push_get(bytes)
    }

    fn expect(&self, bytes: &[u8], reading: Reading) {
        self.mapped.iter().for_each(|file| file.expect(bytes, reading));
    }

    fn tried(&self, request: &FileRequest) -> Vec<String> {
        let found = lookup::candidates(&self.binary, request, &self.debug_folders);
        found.iter().map(|path| path.display().to_string()).collect()
    }
}

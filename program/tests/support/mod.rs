//! Programs compiled for a test, and the files around them.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use program::elf::Elf;
use program::{FileRequest, Files};

/// A folder that goes when the test ends.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("program-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be made");
        Self(path.canonicalize().expect("the temporary folder exists"))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        fs::write(path, text).expect("the file can be written");
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).expect("the file can be read")
    }

    /// Runs a command line in the folder and gives its output.
    pub fn run(&self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let program = words.next().expect("a command");
        let output = Command::new(program).args(words).current_dir(&self.0).output();
        let output = output.unwrap_or_else(|error| panic!("{program} must be installed: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Files of one folder. Bytes live as long as the test process.
pub struct FolderFiles {
    folder: PathBuf,
    binary: String,
}

impl FolderFiles {
    pub fn new(folder: &Folder, binary: &str) -> &'static Self {
        Box::leak(Box::new(Self {
            folder: folder.path().to_owned(),
            binary: binary.to_owned(),
        }))
    }

    /// The binary, parsed.
    pub fn elf(&self) -> Elf<'static> {
        Elf::parse(self.binary()).expect("a compiler wrote it")
    }

    /// The binary itself.
    pub fn binary(&self) -> &'static [u8] {
        leak(fs::read(self.folder.join(&self.binary)).expect("the binary can be read"))
    }

    fn candidates(&self, request: &FileRequest) -> Vec<PathBuf> {
        match request {
            FileRequest::DebugByBuildId(id) => vec![self.folder.join(format!("{id}.debug"))],
            FileRequest::DebugLink { name, .. } => vec![self.folder.join(name)],
            FileRequest::Supplementary { path, .. } => vec![self.folder.join(path)],
            FileRequest::SplitObject { path, comp_dir } => {
                vec![PathBuf::from(comp_dir.clone().unwrap_or_default()).join(path)]
            }
            FileRequest::SplitPackage => vec![self.folder.join(format!("{}.dwp", self.binary))],
        }
    }
}

impl Files for FolderFiles {
    fn open(&self, request: &FileRequest) -> Option<&[u8]> {
        let bytes = self
            .candidates(request)
            .into_iter()
            .find_map(|path| fs::read(path).ok());
        bytes.map(leak)
    }

    fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        leak(bytes)
    }

    fn tried(&self, request: &FileRequest) -> Vec<String> {
        self.candidates(request)
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    }
}

/// No files but the one that was handed over.
pub struct NoFiles;

impl Files for NoFiles {
    fn open(&self, _: &FileRequest) -> Option<&[u8]> {
        None
    }

    fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        leak(bytes)
    }

    fn tried(&self, _: &FileRequest) -> Vec<String> {
        Vec::new()
    }
}

fn leak(bytes: Vec<u8>) -> &'static [u8] {
    Box::leak(bytes.into_boxed_slice())
}

/// The first line of a text that contains a mark.
pub fn line_of(text: &str, mark: &str) -> u32 {
    let position = text.lines().position(|line| line.contains(mark));
    u32::try_from(position.expect("the mark is in the text") + 1).expect("a short text")
}

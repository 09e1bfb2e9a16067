//! One input as two files: what is read, and what is found when it asks for another file.

use elsa::sync::FrozenVec;
use failure::image::ModuleFiles;
use program::{BuildId, FileRequest, Files};

/// How the length of the second file is written: the last four bytes of an input, little-endian. At the end,
/// so that a mutation that inserts bytes leaves the files where they are.
const LENGTH: usize = 4;

/// Cuts an input into its two files.
pub fn split(input: &[u8]) -> (&[u8], &[u8]) {
    let Some((files, length)) = input.split_last_chunk::<LENGTH>() else {
        return (input, &[]);
    };
    let second = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    files.split_at(files.len() - second.min(files.len()))
}

/// The second file, whatever is asked for.
pub struct Other<'a> {
    bytes: &'a [u8],
    kept: FrozenVec<Vec<u8>>,
}

impl<'a> Other<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            kept: FrozenVec::new(),
        }
    }
}

impl Files for Other<'_> {
    fn open(&self, _: &FileRequest) -> Option<&[u8]> {
        (!self.bytes.is_empty()).then_some(self.bytes)
    }

    fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        self.kept.push_get(bytes)
    }

    fn tried(&self, _: &FileRequest) -> Vec<String> {
        Vec::new()
    }
}

impl ModuleFiles for Other<'_> {
    fn module(&self, _: &str, _: Option<&BuildId>) -> Option<&[u8]> {
        (!self.bytes.is_empty()).then_some(self.bytes)
    }
}

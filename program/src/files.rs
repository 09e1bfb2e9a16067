//! The bytes that the model is made from, and who provides them.
//!
//! This crate opens no file. It says which file it would like ([`FileRequest`]), and a [`Files`] hands over
//! the bytes, mapped, read or made up. Everything parsed borrows from those bytes.

use crate::addr::BuildId;
use crate::elf::{Elf, SymbolTable};

/// A file that the model would like to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRequest {
    /// The debug file of this build-id (`/usr/lib/debug/.build-id/ab/cdef….debug`, a cache, a server).
    DebugByBuildId(BuildId),
    /// The file that `.gnu_debuglink` names, searched beside the binary, in `.debug/` and in the global
    /// debug folder. The CRC-32 tells a right file from a stale one.
    DebugLink {
        /// File name without folder.
        name: String,
        /// CRC-32 of the whole debug file.
        crc: u32,
    },
    /// The supplementary file of `dwz` (`.gnu_debugaltlink`).
    Supplementary {
        /// Path as recorded, absolute or relative to the debug file.
        path: String,
        /// Its build-id.
        build_id: BuildId,
    },
    /// A split-DWARF object (`DW_AT_dwo_name` below `DW_AT_comp_dir`).
    SplitObject {
        /// Path as recorded, absolute or relative.
        path: String,
        /// The folder the compiler ran in.
        comp_dir: Option<String>,
    },
    /// The package of all split-DWARF objects, `BINARY.dwp`, beside the binary or its debug file.
    SplitPackage,
}

/// How bytes of a file are going to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Here and there: what stands around a place says nothing about where the next look goes.
    Scattered,
    /// From one end to the other, soon.
    Through,
    /// Hardly ever again.
    Over,
}

/// Hands over file contents that live as long as itself.
pub trait Files: Send + Sync {
    /// The bytes of the requested file, or `None` when there is no such file. Candidates that were tried
    /// can be told with [`Files::tried`].
    fn open(&self, request: &FileRequest) -> Option<&[u8]>;

    /// Keeps bytes that were made on the way (an uncompressed section) for as long as the files live.
    fn keep(&self, bytes: Vec<u8>) -> &[u8];

    /// Says how some of the bytes that were handed over are going to be looked at. Memory and disk are the
    /// provider's business: whoever maps files can keep what is read and what stays in memory small.
    fn expect(&self, _bytes: &[u8], _reading: Reading) {}

    /// Where a request was looked for, for error messages.
    fn tried(&self, request: &FileRequest) -> Vec<String>;
}

/// Whoever handed bytes over, if that is known.
#[derive(Clone, Copy, Default)]
pub(crate) struct Provider<'a>(Option<&'a dyn Files>);

impl<'a> Provider<'a> {
    pub(crate) fn of(files: &'a dyn Files) -> Self {
        Self(Some(files))
    }

    /// [`Elf::packed_symbols`], where there is somebody to keep them.
    pub(crate) fn packed_symbols(self, elf: &Elf<'a>) -> SymbolTable<'a> {
        self.0
            .map_or_else(SymbolTable::default, |files| elf.packed_symbols(files))
    }

    /// [`Files::expect`].
    pub(crate) fn expect(self, bytes: &[u8], reading: Reading) {
        if let Some(files) = self.0 {
            files.expect(bytes, reading);
        }
    }
}

impl std::fmt::Debug for Provider<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Provider").field(&self.0.is_some()).finish()
    }
}

//! The symbols that a stripped file carries along, packed (`.gnu_debugdata`, "MiniDebugInfo").
//!
//! Fedora and its relatives strip their programs, and put back what a stack trace needs: an ELF file, packed with xz,
//! that has nothing but the symbols of functions which the dynamic table does not name.

use std::io::Read as _;

use lzma_rust2::XzReader;
use object::LittleEndian as LE;
use object::U32;
use object::elf::{SHN_UNDEF, Sym64};
use object::pod;

use super::{Elf, SymbolTable};
use crate::files::Files;

/// Symbol tables get four times smaller, ten times at most: what promises more than this is no symbol table.
const MAX_RATIO: u64 = 100;

/// What even the smallest file may unpack to.
const SLACK: u64 = 1 << 20;

/// What unpacking may take beside the result, in KiB: `xz -9` has a window of 64 MiB.
const MAX_WINDOW: u32 = 80 << 10;

impl<'a> Elf<'a> {
    /// The dynamic symbols together with the packed ones, as one table; empty if the file has none packed, or they
    /// are damaged. `files` keeps what was unpacked.
    #[must_use]
    pub fn packed_symbols(&self, files: &'a dyn Files) -> SymbolTable<'a> {
        let table = || {
            let (_, packed) = self.section(".gnu_debugdata")?;
            let unpacked = unpack(packed)?;
            let table = Elf::parse(&unpacked).ok()?.symtab();
            (!table.raw().is_empty()).then(|| joined(self.dynsym(), table, files))?
        };
        table().unwrap_or_default()
    }
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let most = SLACK + (packed.len() as u64).saturating_mul(MAX_RATIO);
    let mut unpacked = Vec::new();
    let read = XzReader::new_mem_limit(packed, false, MAX_WINDOW)
        .take(most + 1)
        .read_to_end(&mut unpacked)
        .ok()?;
    (read as u64 <= most).then_some(unpacked)
}

/// Both tables in one. Exported functions are known by their exported names, which come first.
fn joined<'a>(
    exported: SymbolTable<'_>,
    others: SymbolTable<'_>,
    files: &'a dyn Files,
) -> Option<SymbolTable<'a>> {
    let mut names = exported.names().to_vec();
    // The last name of a damaged table must not run on into the first of the other.
    names.push(0);
    let behind = u32::try_from(names.len()).ok()?;
    names.extend_from_slice(others.names());
    let mut symbols: Vec<Sym64<LE>> = exported.raw().to_vec();
    // `memcpy@@GLIBC_2.14` is exported, and known without the version.
    let has_version = |symbol: &&Sym64<LE>| {
        let name = others.name_bytes(symbol.st_name.get(LE)).unwrap_or_default();
        name.contains(&b'@')
    };
    let defined = others
        .raw()
        .iter()
        .filter(|symbol| symbol.st_shndx.get(LE) != SHN_UNDEF);
    symbols.extend(defined.filter(|symbol| !has_version(symbol)).map(|symbol| Sym64 {
        st_name: U32::new(LE, symbol.st_name.get(LE).saturating_add(behind)),
        ..*symbol
    }));
    let kept = files.keep(pod::bytes_of_slice(&symbols).to_vec());
    let (symbols, _) = pod::slice_from_bytes(kept, symbols.len()).ok()?;
    Some(SymbolTable::new(symbols, files.keep(names)))
}

//! Parts that the compiler moved out of a function: `foo.cold` (gcc), `foo.cold.1` (clang).
//!
//! Failing paths live there, so a part belongs to the function it came from, found by name. Static functions
//! of one name in several files are told apart by the file symbol that precedes their group.

use std::collections::HashMap;

use object::LittleEndian as LE;
use object::elf;

use super::index::{Ground, Part};
use crate::elf::SymbolTable;

/// What the names of all moved-away parts contain.
pub(super) const MARK: &[u8] = b".cold";

/// Whether a name is that of a moved-away part.
pub(super) fn is_part(symtab: SymbolTable<'_>, name: u32) -> bool {
    // Most names are told by how they end.
    let may_be = |name: &&[u8]| {
        name.last()
            .is_some_and(|last| *last == b'd' || last.is_ascii_digit())
    };
    let name = symtab.name_bytes(name).filter(may_be);
    name.and_then(parent_name).is_some()
}

/// `foo` for `foo.cold` and `foo.cold.12`.
fn parent_name(name: &[u8]) -> Option<&[u8]> {
    let at = memchr::memmem::rfind(name, MARK)?;
    let rest = name.get(at + MARK.len()..)?;
    let numbered = rest
        .strip_prefix(b".")
        .is_some_and(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit));
    (at > 0 && (rest.is_empty() || numbered))
        .then(|| name.get(..at))
        .flatten()
}

/// Gives each part to its function: (start, end, where the function begins), by address. A part without a
/// function is dropped: its bytes then belong to nobody.
pub(super) fn assign(symtab: SymbolTable<'_>, cold: &[Part], ground: &Ground) -> Vec<(u64, u64, u32)> {
    if cold.is_empty() {
        return Vec::new();
    }
    let mut wanted: HashMap<&[u8], Vec<(u32, u32)>> = HashMap::with_capacity(cold.len());
    for part in cold {
        if let Some(parent) = symtab.name_bytes(part.name).and_then(parent_name) {
            wanted.insert(parent, Vec::new());
        }
    }
    let tails = Tails::new(wanted.keys().copied());
    // Aliases were merged away from the index, so names are looked up in the symbol table itself.
    for (index, symbol) in symtab.raw().iter().enumerate() {
        if symbol.st_type() != elf::STT_FUNC || symbol.st_shndx.get(LE) == elf::SHN_UNDEF {
            continue;
        }
        let name = symtab
            .name_bytes(symbol.st_name.get(LE))
            .filter(|name| tails.may_hold(name));
        if let Some(owners) = name.and_then(|name| wanted.get_mut(name)) {
            let start = symbol.st_value.get(LE);
            let owner = ground.covering(start).and_then(|_| ground.distance(start));
            owners.extend(u32::try_from(index).ok().zip(owner));
        }
    }
    let files = FileGroups::new(symtab);
    let mut parts: Vec<(u64, u64, u32)> = cold
        .iter()
        .filter_map(|part| {
            let owners = wanted.get(parent_name(symtab.name_bytes(part.name)?)?)?;
            let same_file = |index: u32| {
                symtab
                    .raw()
                    .get(index as usize)
                    .is_some_and(|s| s.st_bind() == elf::STB_LOCAL)
                    && files.group(index) == files.group(part.index)
            };
            let owner = owners.iter().find(|(index, _)| same_file(*index)).or_else(|| {
                owners.iter().find(|(index, _)| {
                    symtab
                        .raw()
                        .get(*index as usize)
                        .is_some_and(|s| s.st_bind() != elf::STB_LOCAL)
                })
            });
            let (_, owner) = owner.or(owners.first())?;
            Some((part.start, part.end.max(part.start), *owner))
        })
        .collect();
    parts.sort_unstable();
    // Overlap would let one byte belong to two functions.
    for at in 1..parts.len() {
        let start = parts[at].0;
        parts[at - 1].1 = parts[at - 1].1.min(start);
    }
    parts
}

/// A cheap first look at a name, by its length and last bytes: few of a big program's names get a second.
struct Tails(Vec<u64>);

impl Tails {
    /// As bits, so that the whole stays in a core's own cache.
    const BITS: u32 = 19;

    fn new<'n>(names: impl Iterator<Item = &'n [u8]>) -> Self {
        let mut bits = vec![0; 1 << (Self::BITS - 6)];
        for name in names {
            let place = Self::place(name);
            bits[place >> 6] |= 1 << (place & 63);
        }
        Self(bits)
    }

    fn may_hold(&self, name: &[u8]) -> bool {
        let place = Self::place(name);
        self.0
            .get(place >> 6)
            .is_some_and(|word| word >> (place & 63) & 1 != 0)
    }

    fn place(name: &[u8]) -> usize {
        let tail = name.last_chunk().copied().map_or(0, u64::from_le_bytes);
        let mixed = (tail ^ (name.len() as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - Self::BITS)) as usize
    }
}

struct FileGroups(Vec<u32>);

impl FileGroups {
    fn new(symtab: SymbolTable<'_>) -> Self {
        let files = symtab
            .raw()
            .iter()
            .enumerate()
            .filter(|(_, symbol)| symbol.st_type() == elf::STT_FILE);
        Self(files.filter_map(|(index, _)| u32::try_from(index).ok()).collect())
    }

    fn group(&self, index: u32) -> usize {
        self.0.partition_point(|file| *file <= index)
    }
}

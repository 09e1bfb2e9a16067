//! The functions that hand out memory.

use program::{FileOffset, ModuleId, Program};
use serde::{Deserialize, Serialize};

/// Which argument of an allocator is the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SizeArgument {
    /// The first.
    First,
    /// The second.
    Second,
    /// The first times the second.
    Product,
}

/// What everything else that allocates is made of. What tells where the block is through a pointer is left out.
const NAMES: [(&str, SizeArgument); 5] = [
    ("malloc", SizeArgument::First),
    ("calloc", SizeArgument::Product),
    ("realloc", SizeArgument::Second),
    ("aligned_alloc", SizeArgument::Second),
    ("memalign", SizeArgument::Second),
];

/// A function that returns memory which nobody else has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Allocator {
    /// The file that it is in; `None` for the executable.
    pub module: Option<String>,
    /// Where it begins in the file.
    pub offset: FileOffset,
    /// Its size.
    pub size: SizeArgument,
}

/// The allocators of a program: its C library's, those of a library that takes that one's place, those that were linked in.
pub(super) fn allocators(program: &Program<'_>) -> Vec<Allocator> {
    let mut found = Vec::new();
    for (id, module) in program.modules() {
        let elf = module.elf();
        let linked_in = (id == ModuleId(0)).then(|| elf.symtab().defined());
        let defined = elf.dynsym().defined().chain(linked_in.into_iter().flatten());
        found.extend(defined.filter_map(|symbol| {
            let (_, size) = NAMES.iter().find(|(name, _)| *name == symbol.name)?;
            Some(Allocator {
                module: (id != ModuleId(0)).then(|| module.name().to_owned()),
                offset: elf.segments().to_file_offset(symbol.addr)?,
                size: *size,
            })
        }));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether a function is one of them by its name: `__libc_malloc`, `je_calloc`. What gives memory back is not.
pub(super) fn is_allocator(name: &str) -> bool {
    NAMES.iter().any(|(allocator, _)| name.ends_with(allocator))
}

#[cfg(test)]
mod tests {
    use super::is_allocator;

    #[test]
    fn whoever_frees_is_no_allocator() {
        for name in ["malloc", "__GI___libc_realloc", "je_calloc", "_mid_memalign"] {
            assert!(is_allocator(name), "{name}");
        }
        for name in ["free", "_int_free", "malloc_printerr", "alloc::vec::Vec<T>::push"] {
            assert!(!is_allocator(name), "{name}");
        }
    }
}

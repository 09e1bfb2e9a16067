//! Symbols of loaded modules: just enough to know which runtime function a frame is in, and where a
//! runtime's variable is.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};

use super::joined::Loaded;

/// The run-time address of a runtime's variable.
pub(super) fn variable(module: &Loaded<'_>, name: &[u8]) -> Option<u64> {
    let file = ElfFile64::<Endianness>::parse(module.file?).ok()?;
    let mut symbols = file.dynamic_symbols().chain(file.symbols());
    let symbol = symbols.find(|symbol| symbol.name_bytes() == Ok(name) && symbol.is_definition())?;
    Some(module.bias?.wrapping_add(symbol.address()))
}

/// Whether a run-time address is inside one of the named functions of its module.
pub(super) fn is_inside(module: &Loaded<'_>, addr: u64, names: &[&[u8]]) -> bool {
    is_in_function(module, addr, |name| names.contains(&name))
}

/// Whether a run-time address is inside a function of its module that has `part` in its name.
pub(super) fn is_inside_like(module: &Loaded<'_>, addr: u64, part: &[u8]) -> bool {
    is_in_function(module, addr, |name| {
        name.windows(part.len()).any(|found| found == part)
    })
}

fn is_in_function(module: &Loaded<'_>, addr: u64, is_wanted: impl Fn(&[u8]) -> bool) -> bool {
    let inside = || {
        let link = addr.wrapping_sub(module.bias?);
        let file = ElfFile64::<Endianness>::parse(module.file?).ok()?;
        let mut symbols = file.dynamic_symbols().chain(file.symbols());
        Some(symbols.any(|symbol| {
            link.checked_sub(symbol.address())
                .is_some_and(|into| into < symbol.size())
                && symbol.name_bytes().is_ok_and(&is_wanted)
        }))
    };
    inside().unwrap_or(false)
}

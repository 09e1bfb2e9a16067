//! What the C library said before it aborted.
//!
//! glibc keeps the text that it printed (`double free or corruption`, a failed assertion) where its private
//! symbol `__abort_msg` points, for debuggers to find.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use program::RunAddr;

use super::image::Image;

/// The message, without the line end; `None` when nothing was said or the C library is another one.
pub(super) fn abort_message(image: &Image<'_>) -> Option<String> {
    /// The text follows the length of its buffer.
    const TEXT_AT: u64 = 4;
    let modules = image.core.modules().iter();
    let index = modules
        .into_iter()
        .position(|module| is_c_library(&module.path))?;
    let module = image.loaded(index)?;
    let file = ElfFile64::<Endianness>::parse(module.file?).ok()?;
    let symbol = file
        .dynamic_symbols()
        .find(|symbol| symbol.name_bytes() == Ok(b"__abort_msg"))?;
    let variable = module.bias?.wrapping_add(symbol.address());
    let buffer = image.core.memory.word(variable).filter(|&buffer| buffer != 0)?;
    let text = image.core.string(RunAddr(buffer.checked_add(TEXT_AT)?))?;
    Some(text.trim_end().to_owned())
}

fn is_c_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("libc.so") || (name.starts_with("libc-2.") && name.contains(".so"))
}

//! What the C library said before it aborted.
//!
//! glibc keeps the text that it printed (`double free or corruption`, a failed assertion) where its private
//! symbol `__abort_msg` points, for debuggers to find.

use program::RunAddr;

use super::joined::Image;
use super::symbols;

/// The message, without the line end; `None` when nothing was said or the C library is another one.
pub(super) fn abort_message(image: &Image<'_>) -> Option<String> {
    /// The text follows the length of its buffer.
    const TEXT_AT: u64 = 4;
    let modules = image.process.modules();
    let library = modules.iter().position(|module| is_c_library(&module.path));
    // A program that was linked statically has it inside.
    let program = || {
        let path = image.process.executable_path()?;
        modules.iter().position(|module| module.path == path)
    };
    let loaded = image.loaded(library.or_else(program)?)?;
    let variable = symbols::variable(loaded, b"__abort_msg")?;
    let buffer = image.process.word(variable).filter(|&buffer| buffer != 0)?;
    let text = image.process.string(RunAddr(buffer.checked_add(TEXT_AT)?))?;
    Some(text.trim_end().to_owned())
}

fn is_c_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("libc.so") || (name.starts_with("libc-2.") && name.contains(".so"))
}

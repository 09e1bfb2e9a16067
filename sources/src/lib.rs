//! The text of source lines.
//!
//! It comes from where somebody says that the sources are now, from where the compiler found them, or from a debuginfod server,
//! which knows them by the build. Which revision of a file was compiled is not guessed: where the compiler noted a file's MD5, no other
//! content is shown; where it did not, a file that was changed after the program was built is left to debuginfod, and if that does
//! not have it, what is shown is said to be newer.
//!
//! - [`text`]: lines of files; [`debuginfod`]: files of other machines; [`sketch`]: a sketch with the text of its statements

pub mod debuginfod;
pub mod sketch;
pub mod text;

pub use debuginfod::Debuginfod;
pub use sketch::{add_sources, add_text};
pub use text::SourceText;

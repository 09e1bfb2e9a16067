//! A failure sketch, in every form that people and programs read.
//!
//! [`view`] works out what all forms show (lanes, the pattern's steps, the grey prefix), [`words`] says it in
//! plain language; the rest is one file a form.

mod columns;
mod json;
mod names;
mod term;
pub mod view;
pub mod words;

pub use json::json;
pub use term::term;

//! A failure sketch, in every form that people and programs read.
//!
//! [`view`] works out what all forms show (lanes, values, the grey prefix), [`arrows`] which steps belong
//! together, [`stretches`] which can be left out; [`words`] says it in plain language; the rest is one file a form.

mod annotations;
mod arrows;
mod columns;
mod figures;
pub mod html;
mod json;
mod markdown;
mod names;
mod sarif;
mod stretches;
mod term;
pub mod view;
pub mod words;

pub use annotations::annotations;
pub use html::html;
pub use json::json;
pub use markdown::markdown;
pub use sarif::sarif;
pub use term::term;

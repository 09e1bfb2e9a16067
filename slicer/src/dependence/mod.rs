//! What an instruction's inputs depend on, inside one function.
//!
//! [`uses`] says what an instruction reads; [`reaching`] walks backwards to the definitions that reach it;
//! [`derived`] tells whether a pointer was made from another; [`summary`] says what library functions do, since they are not entered, [`passed`] which memory behind their arguments
//! they access, and [`locks`] which of that is no data.

pub mod derived;
pub mod effects;
pub mod location;
pub mod locks;
pub mod passed;
pub mod reaching;
pub mod summary;
pub mod uses;

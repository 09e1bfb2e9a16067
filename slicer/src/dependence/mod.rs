//! What an instruction's inputs depend on, inside one function.
//!
//! [`uses`] says what an instruction reads; [`reaching`] walks backwards to the definitions that reach it;
//! [`summary`] says what library functions do, since they are not entered, and [`passed`] which memory behind their arguments
//! they access.

pub mod effects;
pub mod location;
pub mod passed;
pub mod reaching;
pub mod summary;
pub mod uses;

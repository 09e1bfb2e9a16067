//! What the tests of core dumps share.

#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

pub mod real;
pub mod synth;

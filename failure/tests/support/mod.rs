//! What the tests of core dumps share.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod real;

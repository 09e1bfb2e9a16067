//! From a failing statement backwards.
//!
//! Control flow across functions and threads, dominance, dependence, the slice and the plan of what to
//! track. Values in, values out: no file, no clock, nothing printed, and the same input gives the same output.

pub mod before;
pub mod cfg;
pub mod checks;
pub mod control;
pub mod dependence;
pub mod dominance;
pub mod icfg;
pub mod locks;
pub mod loops;
pub mod plan;
pub mod pointer;
pub mod slice;
pub mod threads;
pub mod view;
pub mod wakes;

pub use cfg::Cfg;
pub use control::{ControlDependence, Decision};
pub use dominance::{DomTree, PostDomTree};

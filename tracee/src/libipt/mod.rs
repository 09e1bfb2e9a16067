//! Intel's own decoder of Intel PT, libipt: the reference that ours is held against.
//!
//! - [`image`]: the traced code, as libipt wants it for speed (sections of a file, kept mapped)
//! - [`block`] and [`insn`]: its two decoders; a block that comes together with an error is handed out too
//! - [`event`]: what happens between instructions
//! - [`fault`]: errors and the state after a step

pub mod block;
pub mod event;
pub mod fault;
pub mod image;
pub mod insn;

pub use block::{Block, BlockDecoder};
pub use event::{Event, EventKind};
pub use fault::{Fault, SetupError, Status};
pub use image::{CodeFile, Image};
pub use insn::{Insn, InsnDecoder};

use libipt_sys as sys;

/// A defect of a processor that the decoder has to work around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erratum {
    /// A FUP in PSB+ although tracing is about to be enabled.
    Bdm70,
    /// A wrong FUP when an asynchronous event disables tracing in a VM entry.
    Skd022,
    /// The FUP that ends an overflow is missing.
    Skd010,
    /// TIP.PGD without an address after a direct branch that leaves the filtered range.
    Skl014,
    /// An additional TIP.PGD after an overflow.
    Apl11,
    /// An additional FUP after an overflow.
    Apl12,
}

/// How a trace was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Which defects of the processor to expect.
    pub errata: Vec<Erratum>,
}

impl Config {
    /// libipt's form of it, for a decoder of these bytes.
    fn raw(&self, trace: &[u8]) -> sys::pt_config {
        // SAFETY: a plain C structure; all of its fields are valid when zero, and zero means "not given".
        let mut config: sys::pt_config = unsafe { std::mem::zeroed() };
        config.size = size_of::<sys::pt_config>();
        let range = trace.as_ptr_range();
        // The decoders only read; the pointers are not const because the encoder shares the structure.
        config.begin = range.start.cast_mut();
        config.end = range.end.cast_mut();
        for erratum in &self.errata {
            match erratum {
                Erratum::Bdm70 => config.errata.set_bdm70(1),
                Erratum::Skd022 => config.errata.set_skd022(1),
                Erratum::Skd010 => config.errata.set_skd010(1),
                Erratum::Skl014 => config.errata.set_skl014(1),
                Erratum::Apl11 => config.errata.set_apl11(1),
                Erratum::Apl12 => config.errata.set_apl12(1),
            }
        }
        config
    }
}

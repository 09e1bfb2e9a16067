//! libipt's instruction decoder.

use libipt_sys as sys;

use super::decoder::{Decoder, Functions, Kind};
use super::fault::{Fault, Status};

/// An instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insn {
    /// Where it is.
    pub ip: u64,
    /// Its length: 0 when it could not be decoded.
    pub size: u8,
}

/// Decodes a trace instruction by instruction.
pub type InsnDecoder<'a> = Decoder<'a, ByInsn>;

/// The instruction decoder.
#[derive(Debug)]
pub struct ByInsn;

impl Kind for ByInsn {
    type Raw = sys::pt_insn_decoder;
    const FUNCTIONS: Functions<Self::Raw> = Functions {
        alloc: sys::pt_insn_alloc_decoder,
        free: sys::pt_insn_free_decoder,
        set_image: sys::pt_insn_set_image,
        sync_forward: sys::pt_insn_sync_forward,
        sync_set: sys::pt_insn_sync_set,
        get_offset: sys::pt_insn_get_offset,
        get_sync_offset: sys::pt_insn_get_sync_offset,
        event: sys::pt_insn_event,
    };
}

impl InsnDecoder<'_> {
    /// The next instruction, and the state after it. One that could be decoded can come with an error: what comes
    /// after it is not known.
    pub fn next_insn(&mut self) -> (Insn, Result<Status, Fault>) {
        // SAFETY: a plain C structure of integers.
        let mut raw: sys::pt_insn = unsafe { std::mem::zeroed() };
        // SAFETY: the decoder is alive, the result is a local variable of the given size.
        let code = unsafe { sys::pt_insn_next(self.raw.as_ptr(), &raw mut raw, size_of::<sys::pt_insn>()) };
        let insn = Insn {
            ip: raw.ip,
            size: if raw.iclass == sys::pt_insn_class_ptic_unknown {
                0
            } else {
                raw.size
            },
        };
        (insn, Status::of(code))
    }
}

//! libipt's instruction decoder.

use std::marker::PhantomData;
use std::ptr::NonNull;

use libipt_sys as sys;

use super::Config;
use super::event::Event;
use super::fault::{Fault, SetupError, Status};
use super::image::Image;

/// An instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insn {
    /// Where it is.
    pub ip: u64,
    /// Its length: 0 when it could not be decoded.
    pub size: u8,
}

/// Decodes a trace instruction by instruction.
#[derive(Debug)]
pub struct InsnDecoder<'a> {
    raw: NonNull<sys::pt_insn_decoder>,
    _borrowed: PhantomData<(&'a [u8], &'a Image<'a>)>,
}

impl<'a> InsnDecoder<'a> {
    /// A decoder of a trace of this code. Synchronise it first.
    ///
    /// # Errors
    /// When libipt refuses the trace (an empty one) or has no memory.
    pub fn new(trace: &'a [u8], image: &'a Image<'a>, config: &Config) -> Result<Self, SetupError> {
        let config = config.raw(trace);
        // SAFETY: the configuration is copied; the trace that it points to lives as long as the decoder.
        let raw = unsafe { sys::pt_insn_alloc_decoder(&raw const config) };
        let raw = NonNull::new(raw).ok_or(SetupError::NoMemory("a decoder for the trace"))?;
        let this = Self {
            raw,
            _borrowed: PhantomData,
        };
        // SAFETY: both are alive, the image for as long as the decoder.
        let code = unsafe { sys::pt_insn_set_image(this.raw.as_ptr(), image.raw()) };
        match code {
            0 => Ok(this),
            code => Err(SetupError::Refused {
                what: "the image",
                fault: Fault::of(code),
            }),
        }
    }

    /// Goes to the next PSB.
    ///
    /// # Errors
    /// [`Fault::EndOfTrace`] when there is none, others when what follows it cannot be decoded.
    pub fn sync_forward(&mut self) -> Result<Status, Fault> {
        // SAFETY: the decoder is alive.
        Status::of(unsafe { sys::pt_insn_sync_forward(self.raw.as_ptr()) })
    }

    /// Goes to the PSB at an offset.
    ///
    /// # Errors
    /// When there is none, or what follows it cannot be decoded.
    pub fn sync_at(&mut self, offset: u64) -> Result<Status, Fault> {
        // SAFETY: the decoder is alive; the offset is checked by libipt.
        Status::of(unsafe { sys::pt_insn_sync_set(self.raw.as_ptr(), offset) })
    }

    /// The offset of the packet that is decoded next.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        let mut offset = 0;
        // SAFETY: the decoder is alive, the result is a local variable.
        let code = unsafe { sys::pt_insn_get_offset(self.raw.as_ptr(), &raw mut offset) };
        (code >= 0).then_some(offset)
    }

    /// The offset of the PSB that the decoder is synchronised with.
    #[must_use]
    pub fn sync_offset(&self) -> Option<u64> {
        let mut offset = 0;
        // SAFETY: the decoder is alive, the result is a local variable.
        let code = unsafe { sys::pt_insn_get_sync_offset(self.raw.as_ptr(), &raw mut offset) };
        (code >= 0).then_some(offset)
    }

    /// The pending event.
    ///
    /// # Errors
    /// When the event contradicts the state.
    pub fn event(&mut self) -> Result<(Event, Status), Fault> {
        // SAFETY: a plain C structure of integers.
        let mut raw: sys::pt_event = unsafe { std::mem::zeroed() };
        // SAFETY: the decoder is alive, the result is a local variable of the given size.
        let code = unsafe { sys::pt_insn_event(self.raw.as_ptr(), &raw mut raw, size_of::<sys::pt_event>()) };
        let status = Status::of(code)?;
        Ok((Event::of(&raw), status))
    }

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

impl Drop for InsnDecoder<'_> {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once.
        unsafe { sys::pt_insn_free_decoder(self.raw.as_ptr()) };
    }
}

//! libipt's block decoder.

use std::marker::PhantomData;
use std::ptr::NonNull;

use libipt_sys as sys;

use super::Config;
use super::event::Event;
use super::fault::{Fault, SetupError, Status};
use super::image::Image;

/// Instructions up to a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The first instruction.
    pub ip: u64,
    /// The last instruction.
    pub end_ip: u64,
    /// How many there are: none in a block that an error or an event cut off at its start.
    pub instructions: u16,
}

/// Decodes a trace block by block.
#[derive(Debug)]
pub struct BlockDecoder<'a> {
    raw: NonNull<sys::pt_block_decoder>,
    _borrowed: PhantomData<(&'a [u8], &'a Image<'a>)>,
}

impl<'a> BlockDecoder<'a> {
    /// A decoder of a trace of this code. Synchronise it first.
    ///
    /// # Errors
    /// When libipt refuses the trace (an empty one) or has no memory.
    pub fn new(trace: &'a [u8], image: &'a Image<'a>, config: &Config) -> Result<Self, SetupError> {
        let config = config.raw(trace);
        // SAFETY: the configuration is copied; the trace that it points to lives as long as the decoder.
        let raw = unsafe { sys::pt_blk_alloc_decoder(&raw const config) };
        let raw = NonNull::new(raw).ok_or(SetupError::NoMemory("a decoder for the trace"))?;
        let this = Self {
            raw,
            _borrowed: PhantomData,
        };
        // SAFETY: both are alive, the image for as long as the decoder.
        let code = unsafe { sys::pt_blk_set_image(this.raw.as_ptr(), image.raw()) };
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
        Status::of(unsafe { sys::pt_blk_sync_forward(self.raw.as_ptr()) })
    }

    /// Goes to the PSB at an offset.
    ///
    /// # Errors
    /// When there is none, or what follows it cannot be decoded.
    pub fn sync_at(&mut self, offset: u64) -> Result<Status, Fault> {
        // SAFETY: the decoder is alive; the offset is checked by libipt.
        Status::of(unsafe { sys::pt_blk_sync_set(self.raw.as_ptr(), offset) })
    }

    /// The offset of the packet that is decoded next.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        let mut offset = 0;
        // SAFETY: the decoder is alive, the result is a local variable.
        let code = unsafe { sys::pt_blk_get_offset(self.raw.as_ptr(), &raw mut offset) };
        (code >= 0).then_some(offset)
    }

    /// The offset of the PSB that the decoder is synchronised with.
    #[must_use]
    pub fn sync_offset(&self) -> Option<u64> {
        let mut offset = 0;
        // SAFETY: the decoder is alive, the result is a local variable.
        let code = unsafe { sys::pt_blk_get_sync_offset(self.raw.as_ptr(), &raw mut offset) };
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
        let code = unsafe { sys::pt_blk_event(self.raw.as_ptr(), &raw mut raw, size_of::<sys::pt_event>()) };
        let status = Status::of(code)?;
        Ok((Event::of(&raw), status))
    }

    /// The next block, and the state after it. A block can come with an error: what was decoded until then.
    pub fn next_block(&mut self) -> (Block, Result<Status, Fault>) {
        // SAFETY: a plain C structure of integers.
        let mut raw: sys::pt_block = unsafe { std::mem::zeroed() };
        // SAFETY: the decoder is alive, the result is a local variable of the given size.
        let code = unsafe { sys::pt_blk_next(self.raw.as_ptr(), &raw mut raw, size_of::<sys::pt_block>()) };
        let block = Block {
            ip: raw.ip,
            end_ip: raw.end_ip,
            instructions: raw.ninsn,
        };
        (block, Status::of(code))
    }
}

impl Drop for BlockDecoder<'_> {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once.
        unsafe { sys::pt_blk_free_decoder(self.raw.as_ptr()) };
    }
}

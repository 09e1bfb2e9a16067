//! What libipt's two decoders have in common: the same functions, by different names.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::NonNull;

use libipt_sys as sys;

use super::Config;
use super::event::Event;
use super::fault::{Fault, SetupError, Status};
use super::image::Image;

/// One of the two.
pub trait Kind {
    /// libipt's decoder.
    type Raw;
    /// Its functions.
    const FUNCTIONS: Functions<Self::Raw>;
}

/// The functions that both have.
#[derive(Debug)]
pub struct Functions<R> {
    pub(super) alloc: unsafe extern "C" fn(*const sys::pt_config) -> *mut R,
    pub(super) free: unsafe extern "C" fn(*mut R),
    pub(super) set_image: unsafe extern "C" fn(*mut R, *mut sys::pt_image) -> c_int,
    pub(super) sync_forward: unsafe extern "C" fn(*mut R) -> c_int,
    pub(super) sync_set: unsafe extern "C" fn(*mut R, u64) -> c_int,
    pub(super) get_offset: unsafe extern "C" fn(*const R, *mut u64) -> c_int,
    pub(super) get_sync_offset: unsafe extern "C" fn(*const R, *mut u64) -> c_int,
    pub(super) event: unsafe extern "C" fn(*mut R, *mut sys::pt_event, usize) -> c_int,
}

/// Decodes a trace.
#[derive(Debug)]
pub struct Decoder<'a, K: Kind> {
    pub(super) raw: NonNull<K::Raw>,
    _borrowed: PhantomData<(&'a [u8], &'a Image<'a>)>,
}

impl<'a, K: Kind> Decoder<'a, K> {
    /// A decoder of a trace of this code. Synchronise it first.
    ///
    /// # Errors
    /// When libipt refuses the trace (an empty one) or has no memory.
    pub fn new(trace: &'a [u8], image: &'a Image<'a>, config: &Config) -> Result<Self, SetupError> {
        let config = config.raw(trace);
        // SAFETY: the configuration is copied; the trace that it points to lives as long as the decoder.
        let raw = unsafe { (K::FUNCTIONS.alloc)(&raw const config) };
        let raw = NonNull::new(raw).ok_or(SetupError::NoMemory("a decoder for the trace"))?;
        let this = Self {
            raw,
            _borrowed: PhantomData,
        };
        // SAFETY: both are alive, the image for as long as the decoder.
        let code = unsafe { (K::FUNCTIONS.set_image)(this.raw.as_ptr(), image.raw()) };
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
        Status::of(unsafe { (K::FUNCTIONS.sync_forward)(self.raw.as_ptr()) })
    }

    /// Goes to the PSB at an offset.
    ///
    /// # Errors
    /// When there is none, or what follows it cannot be decoded.
    pub fn sync_at(&mut self, offset: u64) -> Result<Status, Fault> {
        // SAFETY: the decoder is alive; the offset is checked by libipt.
        Status::of(unsafe { (K::FUNCTIONS.sync_set)(self.raw.as_ptr(), offset) })
    }

    /// The offset of the packet that is decoded next.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        let mut offset = 0;
        // SAFETY: the decoder is alive, the result is a local variable.
        let code = unsafe { (K::FUNCTIONS.get_offset)(self.raw.as_ptr(), &raw mut offset) };
        (code >= 0).then_some(offset)
    }

    /// The offset of the PSB that the decoder is synchronised with.
    #[must_use]
    pub fn sync_offset(&self) -> Option<u64> {
        let mut offset = 0;
        // SAFETY: the decoder is alive, the result is a local variable.
        let code = unsafe { (K::FUNCTIONS.get_sync_offset)(self.raw.as_ptr(), &raw mut offset) };
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
        let code =
            unsafe { (K::FUNCTIONS.event)(self.raw.as_ptr(), &raw mut raw, size_of::<sys::pt_event>()) };
        let status = Status::of(code)?;
        Ok((Event::of(&raw), status))
    }
}

impl<K: Kind> Drop for Decoder<'_, K> {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once.
        unsafe { (K::FUNCTIONS.free)(self.raw.as_ptr()) };
    }
}

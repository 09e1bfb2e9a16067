//! What a Rust program said before a panic ended it.
//!
//! With `panic = "abort"`, and where a panic cannot unwind, the process ends inside the panic, and its core has the payload.
//! The standard library's `panic_with_hook` got the reference to it and keeps it over the call of the hook: in registers
//! that calls preserve, or in its frame. What is no payload has another vtable: how to drop it, a size that payloads have,
//! and the functions of the private trait behind them.

use std::collections::BTreeSet;

use program::RunAddr;

use super::bytes::u64_at;
use super::joined::Image;
use super::panic_payload::panic_message;
use super::symbols;
use super::unwind::Unwound;

/// A part of the function's name, `rust_panic_with_hook` before 1.93; its path is mangled around it.
const RAISING: &[u8] = b"panic_with_hook";

/// The hook and what ends the process are further in.
const INNERMOST: usize = 24;

/// The payload is in the frame of a function close by.
const NEAR: u64 = 1 << 16;

/// Registers that calls preserve, as DWARF numbers them: rbx, rbp, r12 to r15.
const PRESERVED: [u16; 6] = [3, 6, 12, 13, 14, 15];

/// `Display::fmt`, `take_box`, `get`, `as_str`.
const METHODS: u64 = 4;

/// The message; `None` where no panic was being raised, or its payload has no text.
pub(super) fn panicked_message(image: &Image<'_>, frames: &[Unwound]) -> Option<String> {
    let innermost = frames.get(..INNERMOST).unwrap_or(frames);
    let at = innermost.iter().position(|frame| {
        let inside = frame.registers.rip.wrapping_sub(1);
        let module = image.loaded_at(inside);
        module.is_some_and(|module| symbols::is_inside_like(module, inside, RAISING))
    })?;
    let raising = frames.get(at)?;
    let start = raising.registers.rsp()?;
    let preserved = || {
        PRESERVED
            .iter()
            .filter_map(|&number| raising.registers.get(number))
    };
    let kept = preserved().flat_map(|payload| preserved().map(move |vtable| (payload, vtable)));
    only(image, start, kept).or_else(|| {
        let end = frames.get(at + 1)?.registers.rsp()?.min(start.checked_add(NEAR)?);
        let words = (start..end).step_by(8);
        let pairs = words.filter_map(|at| Some((image.process.word(at)?, image.process.word(at + 8)?)));
        only(image, start, pairs)
    })
}

/// The text of the one payload among pairs of words.
fn only(image: &Image<'_>, stack: u64, pairs: impl Iterator<Item = (u64, u64)>) -> Option<String> {
    let read = |addr: RunAddr, len: usize| Some(image.read(addr, len)?.into_owned());
    let is_near = |payload: u64| payload.is_multiple_of(8) && payload.wrapping_sub(stack) < NEAR;
    let payloads = pairs.filter(|&(payload, vtable)| is_near(payload) && is_vtable(image, vtable));
    let texts =
        payloads.filter_map(|(payload, vtable)| panic_message(RunAddr(payload), RunAddr(vtable), &read));
    let mut texts: BTreeSet<String> = texts.collect();
    let text = texts.pop_first();
    text.filter(|_| texts.is_empty())
}

fn is_vtable(image: &Image<'_>, vtable: u64) -> bool {
    let words = || {
        let bytes = image.read(RunAddr(vtable), 24 + 8 * METHODS as usize)?;
        let drop = u64_at(&bytes, 0)?;
        let methods = (0..METHODS).map(|number| u64_at(&bytes, 24 + 8 * number));
        let mut methods = methods.map(|method| method.is_some_and(|addr| image.is_code(addr)));
        Some((drop == 0 || image.is_code(drop)) && methods.all(|is_code| is_code))
    };
    vtable.is_multiple_of(8) && words().unwrap_or(false)
}

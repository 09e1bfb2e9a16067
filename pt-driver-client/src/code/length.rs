//! How long an instruction is and where it leads: all that following a trace needs of it.
//!
//! A full decoder (operands, mnemonics) costs five times as much, and the first decode of a trace is mostly this.
//! Like libipt, it does not ask whether an opcode exists: code that ran does.

use super::careful::Window;
use super::quick::Quick;
use crate::packet::ExecMode;

/// The longest instruction.
pub const MAX_LENGTH: usize = 15;

/// An instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insn {
    /// Its length in bytes.
    pub length: u8,
    /// Where it leads.
    pub class: Class,
    /// For direct branches: the target, relative to the next instruction.
    pub displacement: i32,
}

/// Where an instruction leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// To the next one.
    Other,
    /// To the next one; writes CR3, after which tracing can be off.
    MovCr3,
    /// To its target.
    Jump,
    /// To its target, remembering the next one.
    Call,
    /// To its target or the next one.
    Cond,
    /// Anywhere.
    IndirectJump,
    /// Anywhere, remembering the next one.
    IndirectCall,
    /// To where a call remembered.
    Return,
    /// Out of the segment or the privilege level, and anywhere.
    Far,
}

/// The instruction at the start of `bytes`, of which the first fifteen count. `None` when they end too early, or are
/// no instruction.
#[must_use]
#[inline]
pub fn decode(bytes: &[u8], mode: ExecMode) -> Option<Insn> {
    if let Some(window) = bytes.first_chunk::<16>() {
        return decode_window(window, mode);
    }
    let mut padded = [0; 16];
    let end = bytes.len().min(MAX_LENGTH);
    padded.get_mut(..end)?.copy_from_slice(bytes.get(..end)?);
    Window { bytes: &padded, end }.decode(mode)
}

/// The instruction at the start of a window: the same, without a look at how many bytes there are.
#[inline]
fn decode_window(window: &[u8; 16], mode: ExecMode) -> Option<Insn> {
    let quick = Quick::of(first_word(window)).behind_prefix().insn();
    quick
        .filter(|_| mode == ExecMode::Bits64)
        .or_else(|| decode_any(window, mode))
}

/// The first bytes of a window, the lowest first.
#[inline]
pub(super) fn first_word(window: &[u8; 16]) -> u64 {
    u128::from_le_bytes(*window) as u64
}

/// The same, for what is not read quickly.
#[inline]
pub(super) fn decode_any(window: &[u8; 16], mode: ExecMode) -> Option<Insn> {
    let end = MAX_LENGTH;
    Window { bytes: window, end }.decode(mode)
}

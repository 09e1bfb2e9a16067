//! Who called the function that made an access, by what was read of the stack: a library touches memory on behalf of others.

use std::collections::HashMap;

use failure::image::Registers;
use program::code::{Frame, FrameBase};
use program::{LinkAddr, RunAddr};

use crate::access::CodeMap;

/// Calls that are told of: between a library's innermost function and the one that the program called there are few.
const MOST: usize = 8;

/// A call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// Where it returns to.
    pub(super) back: RunAddr,
    /// Where the frame of the function ends that was called.
    pub(super) end: RunAddr,
}

/// Frames by the address in the function, as long as what is mapped stays the same: hits come from few places.
#[derive(Debug, Default)]
pub(super) struct Callers {
    frames: HashMap<RunAddr, Option<Frame>>,
}

impl Callers {
    /// Forgets what was where.
    pub(super) fn forget(&mut self) {
        self.frames.clear();
    }

    /// The calls that led to an instruction, innermost first, as far as the bytes of the stack go.
    pub(super) fn of<'a>(
        &mut self,
        pc: RunAddr,
        registers: &Registers,
        stack: &[u8],
        code: &dyn CodeMap<'a>,
    ) -> Vec<Call> {
        let word = |at: u64| {
            let from = usize::try_from(at.checked_sub(registers.rsp)?).ok()?;
            Some(u64::from_le_bytes(*stack.get(from..)?.first_chunk()?))
        };
        let (mut at, mut rsp, mut rbp) = (pc, registers.rsp, Some(registers.rbp));
        let mut found = Vec::new();
        while found.len() < MOST {
            let known = self.frames.entry(at).or_insert_with(|| frame(at, code));
            let Some(frame) = *known else { break };
            let base = match frame.base {
                FrameBase::Rsp => Some(rsp),
                FrameBase::Rbp => rbp,
            };
            let end = base.map(|base| base.wrapping_add_signed(frame.offset));
            // The next frame is nearer to the stack's beginning, or it is none.
            let Some(end) = end.filter(|end| *end > rsp) else {
                break;
            };
            let Some(back) = word(end.wrapping_sub(8)).filter(|back| *back != 0) else {
                break;
            };
            if let Some(saved) = frame.saved_rbp {
                rbp = word(end.wrapping_add_signed(saved));
            }
            found.push(Call {
                back: RunAddr(back),
                end: RunAddr(end),
            });
            (at, rsp) = (RunAddr(back).offset(-1), end);
        }
        found
    }
}

fn frame<'a>(at: RunAddr, code: &dyn CodeMap<'a>) -> Option<Frame> {
    let (code, bias) = code.code_at(at)?;
    code.frame(LinkAddr(at.0.wrapping_sub(bias)))
}

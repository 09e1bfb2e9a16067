//! A function's instructions one after another, without following them.
//!
//! The flow graph of a function says more, but to know it one has to know which of its callees return, and
//! theirs. Whoever only wants to see an instruction asks here.

use iced_x86::{Decoder, DecoderOptions, Instruction};

use super::Code;
use super::flow::Target;
use super::functions::FunctionId;
use crate::addr::LinkAddr;

impl Code<'_> {
    /// The instructions of a function, in the order of addresses, whether they are reached or not.
    pub fn listing(&self, function: FunctionId) -> impl Iterator<Item = Instruction> {
        let parts = self.functions().parts(function).into_iter();
        let pieces = parts.filter_map(|part| {
            let bytes = self.elf().bytes_at(part.start, part.end.0 - part.start.0)?;
            Some(Decoder::with_ip(64, bytes, part.start.0, DecoderOptions::NONE))
        });
        let all = pieces.flat_map(|mut decoder| {
            std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
        });
        all.filter(|instruction| !instruction.is_invalid())
    }

    /// Whom the call calls that an address lies in.
    #[must_use]
    pub fn call_at(&self, addr: LinkAddr) -> Option<Target> {
        let function = self.functions().at(addr)?;
        let mut listing = self.listing(function);
        let found =
            listing.find(|instruction| (instruction.ip()..instruction.next_ip()).contains(&addr.0))?;
        let calls = found.is_call_near() || found.is_call_near_indirect();
        calls.then(|| self.context().call_target(&found))
    }
}

//! libipt's block decoder.

use libipt_sys as sys;

use super::decoder::{Decoder, Functions, Kind};
use super::fault::{Fault, Status};

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
pub type BlockDecoder<'a> = Decoder<'a, ByBlock>;

/// The block decoder.
#[derive(Debug)]
pub struct ByBlock;

impl Kind for ByBlock {
    type Raw = sys::pt_block_decoder;
    const FUNCTIONS: Functions<Self::Raw> = Functions {
        alloc: sys::pt_blk_alloc_decoder,
        free: sys::pt_blk_free_decoder,
        set_image: sys::pt_blk_set_image,
        sync_forward: sys::pt_blk_sync_forward,
        sync_set: sys::pt_blk_sync_set,
        get_offset: sys::pt_blk_get_offset,
        get_sync_offset: sys::pt_blk_get_sync_offset,
        event: sys::pt_blk_event,
    };
}

impl BlockDecoder<'_> {
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

//! Which block starts at an address.

use super::block::UNKNOWN;

/// A table of the blocks, by where they start.
#[derive(Debug)]
pub struct Index {
    /// A power of two of slots, at most half of them taken: few lookups need a second look, which is hard to foresee.
    slots: Vec<u32>,
    shift: u32,
    taken: usize,
}

/// Where a block would be that is not there.
#[derive(Debug, Clone, Copy)]
pub struct Free(usize);

impl Default for Index {
    fn default() -> Self {
        let bits = 13;
        Self {
            slots: vec![UNKNOWN; 1 << bits],
            shift: u64::BITS - bits,
            taken: 0,
        }
    }
}

impl Index {
    #[inline]
    fn slot(&self, address: u64) -> usize {
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The block at an address, or where it would be.
    #[inline]
    pub fn find(&self, address: u64, starts: &[u64]) -> Result<u32, Free> {
        let mask = self.slots.len() - 1;
        let mut slot = self.slot(address) & mask;
        loop {
            let id = self.slots[slot];
            if id == UNKNOWN {
                return Err(Free(slot));
            }
            if starts[id as usize] == address {
                return Ok(id);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Adds the block at an address that was not found, and nothing was added since; `starts` has it and all before.
    #[inline]
    pub fn insert(&mut self, address: u64, Free(slot): Free, id: u32, starts: &[u64]) {
        if (self.taken + 1) * 2 > self.slots.len() {
            self.grow(starts);
            self.place(address, id);
        } else {
            self.slots[slot] = id;
        }
        self.taken += 1;
    }

    #[cold]
    fn grow(&mut self, starts: &[u64]) {
        self.slots = vec![UNKNOWN; self.slots.len() * 2];
        self.shift -= 1;
        for (id, &start) in starts.iter().enumerate().take(self.taken) {
            self.place(start, id as u32);
        }
    }

    #[inline]
    fn place(&mut self, address: u64, id: u32) {
        let mask = self.slots.len() - 1;
        let mut slot = self.slot(address) & mask;
        while self.slots[slot] != UNKNOWN {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = id;
    }
}

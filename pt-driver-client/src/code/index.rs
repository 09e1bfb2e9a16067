//! Which block starts at an address.

use super::blocks::UNKNOWN;

/// A table of the blocks, by where they start.
#[derive(Debug)]
pub struct Index {
    /// A power of two of slots, at most three quarters of them taken.
    slots: Vec<u32>,
    shift: u32,
    taken: usize,
}

impl Default for Index {
    fn default() -> Self {
        let bits = 12;
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

    #[inline]
    /// The block at an address, or [`UNKNOWN`].
    pub fn get(&self, address: u64, starts: &[u64]) -> u32 {
        let mask = self.slots.len() - 1;
        let mut slot = self.slot(address);
        loop {
            let id = self.slots[slot & mask];
            if id == UNKNOWN || starts[id as usize] == address {
                return id;
            }
            slot += 1;
        }
    }

    /// Adds the block at an address; `starts` has it and all before.
    #[inline]
    pub fn insert(&mut self, address: u64, id: u32, starts: &[u64]) {
        if (self.taken + 1) * 4 > self.slots.len() * 3 {
            self.grow(starts);
        }
        self.place(address, id);
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

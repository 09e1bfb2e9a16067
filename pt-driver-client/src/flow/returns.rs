//! Which calls a compressed return can come back from.

/// The processor remembers this many calls.
pub const DEPTH: usize = 64;

/// The last calls, by the block that each ends.
#[derive(Debug, Clone)]
pub struct Returns {
    calls: [u32; DEPTH],
    top: usize,
    count: usize,
}

impl Default for Returns {
    fn default() -> Self {
        Self {
            calls: [0; DEPTH],
            top: 0,
            count: 0,
        }
    }
}

impl Returns {
    /// A call. The oldest one is forgotten when there are too many.
    #[inline]
    pub fn push(&mut self, caller: u32) {
        self.calls[self.top % DEPTH] = caller;
        self.top = (self.top + 1) % DEPTH;
        self.count = (self.count + 1).min(DEPTH);
    }

    /// A call, if it is one: without a branch on that.
    #[inline]
    pub fn push_if(&mut self, caller: u32, is_call: bool) {
        let slot = &mut self.calls[self.top % DEPTH];
        *slot = std::hint::select_unpredictable(is_call, caller, *slot);
        self.top = (self.top + usize::from(is_call)) % DEPTH;
        self.count = (self.count + usize::from(is_call)).min(DEPTH);
    }

    /// The call that a return comes back from.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        self.top = (self.top + DEPTH - 1) % DEPTH;
        Some(self.calls[self.top % DEPTH])
    }

    /// Forgets all but the youngest calls.
    #[inline]
    pub fn keep(&mut self, count: usize) {
        self.count = self.count.min(count);
    }
}

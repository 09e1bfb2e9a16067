//! What the kernel says of new data in an AUX buffer: PERF_RECORD_AUX, perf_event_open(2).
//!
//! The flags are those of `linux/perf_event.h`: TRUNCATED 1, OVERWRITE 2, PARTIAL 4, COLLISION 8; the bits above say in
//! which format the data is, which for Intel PT is always 0.

/// `PERF_RECORD_AUX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxRecord {
    /// Where the new data starts.
    pub offset: u64,
    /// How much it is.
    pub size: u64,
    /// What is special about it.
    pub flags: AuxFlags,
}

/// `PERF_AUX_FLAG_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuxFlags(pub u64);

impl AuxFlags {
    /// Data after this was lost: the buffer was full.
    #[must_use]
    pub fn truncated(self) -> bool {
        self.0 & 1 != 0
    }

    /// The record comes from a buffer that is written over.
    #[must_use]
    pub fn overwrite(self) -> bool {
        self.0 & 2 != 0
    }

    /// There are holes in the data: the processor did not trace for a while that the record covers (KVM takes the unit
    /// away from the host while a guest runs).
    #[must_use]
    pub fn partial(self) -> bool {
        self.0 & 4 != 0
    }

    /// The data collided with another's.
    #[must_use]
    pub fn collision(self) -> bool {
        self.0 & 8 != 0
    }

    /// It is not what a single thread did without interruption.
    #[must_use]
    pub fn damaged(self) -> bool {
        self.partial() || self.collision()
    }
}

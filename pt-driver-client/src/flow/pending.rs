//! What packets announce: a FUP or TIP that follows says where.

use crate::packet::ExecMode;

/// What was announced.
#[derive(Debug, Default)]
pub struct Pending {
    /// The width of code from the next TIP or FUP on.
    pub mode: Option<ExecMode>,
    /// Announced by packets that say that their FUP belongs to them alone.
    pub own_fup: bool,
    /// Announced by packets whose FUP also begins an interrupt.
    pub shared_fup: bool,
    /// A transaction was aborted.
    pub aborted: bool,
    /// A PTWRITE, whose FUP is the instruction itself and not the one after it.
    pub ptwrite: bool,
    /// An MWAIT, whose EXSTOP follows.
    pub mwait: bool,
    /// An interrupt before this instruction: a TIP says where it goes.
    pub interrupted: Option<u64>,
    /// In a block of items: whether they are short.
    pub items: Option<bool>,
}

impl Pending {
    /// The width that was announced, once.
    pub fn take_mode(&mut self) -> Option<ExecMode> {
        self.mode.take()
    }

    /// Nothing was announced.
    pub fn is_empty(&self) -> bool {
        let Self {
            mode: None,
            own_fup: false,
            shared_fup: false,
            aborted: false,
            ptwrite: false,
            mwait: false,
            interrupted: None,
            items: None,
        } = self
        else {
            return false;
        };
        true
    }
}

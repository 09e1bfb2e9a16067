//! Debug registers written by the tracer.
//!
//! What is written this way stays when the tracer is killed, and the next hit then kills the target with
//! SIGTRAP. So it is only for targets that die with us anyway; others are watched through perf events.

use program::RunAddr;

use super::error::TraceError;
use super::request;
use super::tracer::{Launched, Tracer};
use crate::ids::Tid;

const STATUS: usize = 6;
const CONTROL: usize = 7;

/// One of the four address registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DebugSlot {
    /// DR0.
    Zero,
    /// DR1.
    One,
    /// DR2.
    Two,
    /// DR3.
    Three,
}

impl DebugSlot {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Zero, Self::One, Self::Two, Self::Three];

    fn index(self) -> usize {
        self as usize
    }
}

/// Which accesses a debug register traps. The processor has no trap for reads alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DebugAccess {
    /// Writes.
    Write,
    /// Reads and writes.
    ReadWrite,
}

/// How many bytes a debug register watches; the address must be a multiple of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DebugLength {
    /// A byte.
    One,
    /// Two bytes.
    Two,
    /// Four bytes.
    Four,
    /// Eight bytes.
    Eight,
}

/// What a debug register is to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DebugWatch {
    /// The first watched byte.
    pub address: RunAddr,
    /// How many.
    pub length: DebugLength,
    /// Which accesses.
    pub access: DebugAccess,
}

/// The control register's value with one slot set or cleared.
fn control(before: u64, slot: DebugSlot, watch: Option<&DebugWatch>) -> u64 {
    let (enable_at, kind_at) = (slot.index() * 2, 16 + slot.index() * 4);
    let cleared = before & !(0b11 << enable_at) & !(0b1111 << kind_at);
    let Some(watch) = watch else {
        return cleared;
    };
    let access: u64 = match watch.access {
        DebugAccess::Write => 0b01,
        DebugAccess::ReadWrite => 0b11,
    };
    let length: u64 = match watch.length {
        DebugLength::One => 0b00,
        DebugLength::Two => 0b01,
        DebugLength::Four => 0b11,
        DebugLength::Eight => 0b10,
    };
    cleared | 1 << enable_at | (access | length << 2) << kind_at
}

impl Tracer<Launched> {
    /// Sets or clears a debug register of one stopped thread. New threads start with none.
    ///
    /// # Errors
    /// When the thread is not stopped for us or was killed, or the address cannot be watched.
    pub fn set_debug_register(
        &mut self,
        tid: Tid,
        slot: DebugSlot,
        watch: Option<DebugWatch>,
    ) -> Result<(), TraceError> {
        self.check_stopped(tid)?;
        let failed = TraceError::refused("set a debug register");
        let before = request::debug_register(tid, CONTROL).map_err(&failed)?;
        // Off before the address changes: the kernel checks each write together with what is enabled.
        request::set_debug_register(tid, CONTROL, control(before, slot, None)).map_err(&failed)?;
        let Some(watch) = watch else {
            return Ok(());
        };
        request::set_debug_register(tid, slot.index(), watch.address.0).map_err(&failed)?;
        request::set_debug_register(tid, CONTROL, control(before, slot, Some(&watch))).map_err(failed)
    }

    /// Which debug registers were hit at this stop; forgets them.
    ///
    /// # Errors
    /// When the thread is not stopped for us or was killed.
    pub fn take_debug_hits(&mut self, tid: Tid) -> Result<Vec<DebugSlot>, TraceError> {
        self.check_stopped(tid)?;
        let failed = TraceError::refused("read the debug registers");
        let status = request::debug_register(tid, STATUS).map_err(&failed)?;
        request::set_debug_register(tid, STATUS, 0).map_err(failed)?;
        let hit = |slot: &DebugSlot| status & 1 << slot.index() != 0;
        Ok(DebugSlot::ALL.into_iter().filter(hit).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_do_not_disturb_each_other() {
        let watch = |length, access| DebugWatch {
            address: RunAddr(0x1000),
            length,
            access,
        };
        let first = watch(DebugLength::Eight, DebugAccess::Write);
        let last = watch(DebugLength::Four, DebugAccess::ReadWrite);
        let one = control(0, DebugSlot::Zero, Some(&first));
        assert_eq!(one, 0x0009_0001);
        let both = control(one, DebugSlot::Three, Some(&last));
        assert_eq!(both, 0xf009_0041);
        assert_eq!(control(both, DebugSlot::Zero, None), 0xf000_0040);
    }
}

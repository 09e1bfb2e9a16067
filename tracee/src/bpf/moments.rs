//! When the accesses happened that threads stop for.
//!
//! A stop is taken when its tracer comes to it, and before that its thread may have waited for a processor. A program
//! that runs inside the exception of the access notes the time there, and leaves everything else to the stop.

use super::assembler::{Assembler, Helper, Reg, When};
use super::error::BpfError;
use super::hit_program::{HitProgram, SCRATCH, who};
use super::hit_ring::PidNamespace;
use super::program::Program;
use super::ring::RingBuffer;
use super::syscall::ProgramKind;
use crate::Tid;

/// Room for more stops than there are threads, mostly; whoever finds none has no time.
const RING_BYTES: usize = 1 << 18;
const TIME: usize = 0;
const WHO: usize = 8;
const RECORD_BYTES: usize = 16;

/// An access that its thread stops for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The thread, by its number where we are.
    pub tid: Tid,
    /// CLOCK_MONOTONIC in nanoseconds, right after the access.
    pub time_ns: u64,
}

/// The times of accesses. For breakpoints of their own, beside those that stop: where the program cannot run, which is when a
/// map operation of BPF was interrupted on the same processor, Linux 6.10 and newer send no signal either.
#[derive(Debug)]
pub struct Moments {
    ring: RingBuffer,
    program: HitProgram,
}

impl Moments {
    /// Makes a ring and the program that writes to it.
    ///
    /// # Errors
    /// When it is not permitted.
    pub fn new() -> Result<Self, BpfError> {
        let ring = RingBuffer::new(RING_BYTES).map_err(BpfError::from_io("making a BPF ring buffer"))?;
        let code = code(&ring, PidNamespace::of_us());
        let program = HitProgram(Program::load(ProgramKind::PerfEvent, &code)?);
        Ok(Self { ring, program })
    }

    /// What notes the times.
    #[must_use]
    pub fn program(&self) -> &HitProgram {
        &self.program
    }

    /// Hands over what was noted, those of one thread in their order.
    pub fn read(&mut self, mut take: impl FnMut(Moment)) {
        self.ring.drain(|bytes| {
            let word = |at: usize| {
                let word = bytes.get(at..)?.first_chunk::<8>()?;
                Some(u64::from_ne_bytes(*word))
            };
            if let (Some(time_ns), Some(who)) = (word(TIME), word(WHO)) {
                let tid = Tid(who as u32);
                take(Moment { tid, time_ns });
            }
        });
    }
}

fn code(ring: &RingBuffer, namespace: Option<PidNamespace>) -> Vec<u64> {
    const STACK_TIME: i16 = -8;
    const NO_WAKEUP: i32 = 1;
    let mut code = Assembler::default();
    let mut full = Assembler::label();
    code.call(Helper::KtimeGetNs);
    code.store(Reg::Stack, STACK_TIME, Reg::R0);
    who(&mut code, namespace);
    code.map(Reg::R1, ring.raw_fd());
    code.mov_imm(Reg::R2, RECORD_BYTES as i32);
    code.mov_imm(Reg::R3, 0);
    code.call(Helper::RingbufReserve);
    code.jump_if(Reg::R0, When::Equal, 0, &mut full);
    code.load(Reg::R1, Reg::Stack, STACK_TIME);
    code.store(Reg::R0, TIME as i16, Reg::R1);
    code.store(Reg::R0, WHO as i16, SCRATCH);
    code.mov(Reg::R1, Reg::R0);
    code.mov_imm(Reg::R2, NO_WAKEUP);
    code.call(Helper::RingbufSubmit);
    code.bind(full);
    // Nothing else is to be done about it.
    code.mov_imm(Reg::R0, 0);
    code.exit();
    code.finish()
}

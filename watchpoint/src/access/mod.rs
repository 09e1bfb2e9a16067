//! From the place where a trap was reported back to the accessing instruction.
//!
//! A debug register reports after the access: the program counter is already at the next instruction to run.
//! Which one ran before is not a question of bytes (x86 cannot be read backwards) but of the function's
//! instructions and of what can lead here: `candidates` lists them, `effective` works out from the registers
//! *after* the instruction where it went, and what cannot have touched the watched bytes is dropped.

mod candidates;
mod effective;

use failure::image::Registers;
use iced_x86::{Instruction, Mnemonic};
use program::RunAddr;
use program::code::{AccessKind, Code};

use crate::hit::Access;
use crate::location::{Location, Trigger};
use crate::registers::ZF;
use crate::watcher::Report;
pub(crate) use candidates::Origin;
use effective::Reach;
pub(crate) use effective::keeps;

/// The code of a process: which file is mapped where.
pub trait CodeMap<'a> {
    /// The code that is mapped at an address, and what to add to its link-time addresses.
    fn code_at(&self, at: RunAddr) -> Option<(&Code<'a>, u64)>;
}

/// What a trap reported, as far as the search for its instruction needs it.
#[derive(Clone, Copy, Debug)]
pub struct Trap<'t> {
    /// The registers after the access, or before it where the instruction never ended.
    pub registers: &'t Registers,
    /// Whether `fs_base` and `gs_base` are among what is known.
    pub has_segment_bases: bool,
    /// The eight bytes at the stack pointer.
    pub stack_top: Option<u64>,
    /// The watched address that was reported.
    pub watched: RunAddr,
    /// All locations watched at that time.
    pub locations: &'t [Location],
    /// What made the report.
    pub report: Report,
}

impl Trap<'_> {
    /// The instruction that runs next, or that the thread died of.
    #[must_use]
    pub fn pc(&self) -> RunAddr {
        RunAddr(self.registers.rip)
    }
}

/// What an instruction did to one watched location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Which of the trap's locations.
    pub location: usize,
    /// What it did.
    pub access: Access,
    /// The first byte accessed; `None` when the registers that told are gone.
    pub addr: Option<RunAddr>,
    /// How many bytes; zero when not known.
    pub len: u32,
    /// Whether the stack engine made it, not an operand: the push of a `call`.
    pub on_stack: bool,
}

/// How sure it is that an instruction made an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// It can have: the registers that formed the address are gone.
    Possible,
    /// It went over a range with the watched bytes in it: string instructions, saved state.
    InRange,
    /// Its registers tell that it touched them.
    Certain,
}

/// An instruction that made the access, or may have.
#[derive(Clone, Debug)]
pub struct Accessor {
    /// Its address.
    pub pc: RunAddr,
    /// It, with link-time addresses.
    pub instruction: Instruction,
    /// The watched locations that it touched.
    pub touches: Vec<Touch>,
    /// How sure that is.
    pub certainty: Certainty,
    pub(crate) origin: Origin,
}

/// The instructions that can have made the access, best first; those after the first are just as likely.
#[must_use]
pub fn find<'a>(trap: &Trap<'_>, code: &dyn CodeMap<'a>) -> Vec<Accessor> {
    if trap.report == Report::Died {
        return at(trap.pc(), trap, code).into_iter().collect();
    }
    let mut found: Vec<Accessor> = Vec::new();
    for candidate in candidates::near(trap, code) {
        found.extend(judge(trap, candidate));
    }
    // A probe is no sign of an access: what its own instruction did not do, nobody else has done a moment ago.
    if found.is_empty() && trap.report != Report::Probe {
        let far = candidates::far(trap, code);
        found.extend(far.into_iter().filter_map(|candidate| judge(trap, candidate)));
    }
    let best = found.iter().map(|accessor| accessor.certainty).max();
    found.retain(|accessor| Some(accessor.certainty) == best);
    found.dedup_by_key(|accessor| accessor.pc);
    found
}

/// The instruction at an address, if it can have made the access.
pub(crate) fn at<'a>(pc: RunAddr, trap: &Trap<'_>, code: &dyn CodeMap<'a>) -> Option<Accessor> {
    judge(trap, candidates::at(pc, code)?)
}

/// What a candidate did to the watched locations; `None` when it cannot have touched any.
fn judge(trap: &Trap<'_>, (instruction, origin): (Instruction, Origin)) -> Option<Accessor> {
    let reported = trap
        .locations
        .iter()
        .position(|location| location.touches(trap.watched, 1));
    let mut certainty = Certainty::Possible;
    let mut touches: Vec<Touch> = Vec::new();
    for (operand, reach) in effective::reaches(&instruction, origin.bias, trap) {
        let access = what_it_does(&instruction, operand.kind, trap.registers);
        let mut touch = |location: usize, addr, len| {
            touches.push(Touch {
                location,
                access,
                addr,
                len,
                on_stack: operand.stack_engine(),
            });
        };
        match reach {
            Reach::Bytes(addr, len) => {
                let touched = trap.locations.iter().enumerate().filter(|(_, location)| {
                    location.touches(addr, len) && can_trigger(location, operand.kind)
                });
                for (location, _) in touched {
                    certainty = Certainty::Certain;
                    touch(location, Some(addr), len);
                }
            }
            Reach::Somewhere(range, len) => {
                // Another location in the range may be untouched: only the reported one is told about.
                let touched = reported.filter(|&index| {
                    let location = &trap.locations[index];
                    let overlaps = location.addr.0 < range.end && range.start < location.end();
                    overlaps && can_trigger(location, operand.kind)
                });
                if let Some(location) = touched {
                    certainty = certainty.max(Certainty::InRange);
                    touch(location, None, len);
                }
            }
            Reach::Unknown(len) => {
                if let Some(location) =
                    reported.filter(|&index| can_trigger(&trap.locations[index], operand.kind))
                {
                    touch(location, None, len);
                }
            }
        }
    }
    if certainty > Certainty::Possible {
        // An operand whose address is gone is no longer needed to explain the trap.
        let told: Vec<usize> = touches
            .iter()
            .filter(|touch| touch.addr.is_some())
            .map(|touch| touch.location)
            .collect();
        touches.retain(|touch| touch.addr.is_some() || !told.contains(&touch.location));
    }
    let pc = RunAddr(instruction.ip().wrapping_add(origin.bias));
    (!touches.is_empty()).then_some(Accessor {
        pc,
        instruction,
        touches,
        certainty,
        origin,
    })
}

fn can_trigger(location: &Location, kind: AccessKind) -> bool {
    location.trigger == Trigger::ReadWrite || kind.writes()
}

fn what_it_does(instruction: &Instruction, kind: AccessKind, registers: &Registers) -> Access {
    let compares = is_compare_exchange(instruction);
    let kept = compares && registers.eflags & ZF == 0;
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg;
    Access {
        kind: if kept && kind == AccessKind::ReadWrite {
            AccessKind::Read
        } else {
            kind
        },
        atomic: instruction.has_lock_prefix() || exchanges,
    }
}

pub(crate) fn is_compare_exchange(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b
    )
}

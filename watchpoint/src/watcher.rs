//! The hardware behind a trait: whoever owns the debug registers hands over raw hits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use failure::image::Registers;
use iced_x86::Register;
use program::{FileOffset, LinkAddr, RunAddr};
use serde::{Deserialize, Serialize};
use tracee::process::{Memory, Module, ModuleMap};
use tracee::ptrace::{End, Launch};
use tracee::{Pid, Tid, monotonic_ns};

use crate::error::WatchError;
use crate::hit::Mode;
use crate::location::{Location, Slot, Trigger};
use crate::registers::read;

/// Whom to watch.
#[derive(Debug)]
pub enum Target {
    /// A process that runs already.
    Process(Pid),
    /// A process to start.
    Launch(Launch),
}

/// How the caller wants it watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ModeRequest {
    /// Exact for what we start, observe for what runs already, else what works.
    #[default]
    Auto,
    /// This one or none.
    Only(Mode),
}

/// Where a location is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Address {
    /// An address of the process.
    Run(RunAddr),
    /// A place in a file that the process has mapped, or will.
    Static {
        /// The file; `None` for the executable.
        module: Option<PathBuf>,
        /// The address as linked.
        addr: LinkAddr,
    },
    /// Where a chain of pointers leads; found anew when one of them is written.
    Pointed(Pointed),
    /// Known when a thread comes by one of some places in the code; each time anew.
    Probed(Vec<Probe>),
}

/// A chain of pointers that starts in a file which the process has mapped, or will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointed {
    /// The file; `None` for the executable.
    pub module: Option<PathBuf>,
    /// Where it starts, as linked.
    pub addr: LinkAddr,
    /// How far behind where the way has come to each pointer is.
    pub follows: Vec<u64>,
    /// How far behind the last pointer's target the location is.
    pub offset: u64,
}

impl Pointed {
    /// Where the chain starts in a process, if its file is mapped.
    pub(crate) fn base(&self, modules: &ModuleMap) -> Option<RunAddr> {
        static_address(self.module.as_deref(), self.addr, modules)
    }
}

/// A place in the code where an address is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The file; `None` for the executable.
    pub module: Option<PathBuf>,
    /// The instruction, as linked.
    pub addr: LinkAddr,
    /// The instruction, in the file.
    pub offset: FileOffset,
    /// The address. The instruction must leave the registers in it alone: in observe mode they are read before
    /// it, in exact mode after it.
    pub expression: Expression,
    /// Accesses may have happened before this place is reached.
    pub late: bool,
    /// Only this time that anybody comes by counts, from 1: of the objects that are made here one is meant, and the location stays at it.
    /// Whoever attaches does not know how many there were before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u32>,
}

impl Probe {
    /// The instruction in a process, if its file is mapped.
    pub(crate) fn in_process(&self, modules: &ModuleMap) -> Option<RunAddr> {
        static_address(self.module.as_deref(), self.addr, modules)
    }

    /// The location of a spec that a thread's registers tell at this place. What a thread comes by in its own frames is its
    /// own: what it shares with others is found where it is given to them, or in their hands. Where it is the only thread
    /// (`own_frames`), what its functions share is there.
    pub(crate) fn locate(
        &self,
        spec: &WatchSpec,
        registers: &Registers,
        own_frames: bool,
    ) -> Option<Location> {
        let addr = self.expression.evaluate(registers)?;
        if self.late && !own_frames && is_in_frames(addr, registers) {
            return None;
        }
        Some(Location {
            addr,
            len: spec.len,
            trigger: spec.trigger,
        })
    }
}

/// Whether an address is in the frames of the functions that a thread is in, as far as these reach as a rule.
pub(crate) fn is_in_frames(addr: RunAddr, registers: &Registers) -> bool {
    /// What functions may use below the stack pointer.
    const RED_ZONE: u64 = 128;
    const FRAMES: u64 = 64 << 10;
    let lowest = registers.rsp.saturating_sub(RED_ZONE);
    (lowest..registers.rsp.saturating_add(FRAMES)).contains(&addr.0)
}

/// `base + index · scale + disp`, of a thread's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Expression {
    /// Base register.
    pub base: Option<Register>,
    /// Index register and scale.
    pub index: Option<(Register, u32)>,
    /// Displacement.
    pub disp: i64,
}

impl Expression {
    /// The address, for these registers; `None` for a null pointer and the page around it, which nobody owns.
    #[must_use]
    pub fn evaluate(&self, registers: &Registers) -> Option<RunAddr> {
        const NULL_PAGE: u64 = 4096;
        let base = self.base.map_or(Some(0), |base| read(registers, base))?;
        let index = match self.index {
            Some((index, scale)) => read(registers, index)?.wrapping_mul(u64::from(scale)),
            None => 0,
        };
        let addr = base.wrapping_add(index).wrapping_add_signed(self.disp);
        // Of two registers that are added up, either may be the pointer.
        let pointer = match self.index {
            Some((_, 1)) => base.max(index),
            _ => base,
        };
        (addr >= NULL_PAGE && (self.base.is_none() || pointer >= NULL_PAGE)).then_some(RunAddr(addr))
    }
}

impl Address {
    /// The address in a process, if its file is mapped.
    #[must_use]
    pub fn resolve(&self, modules: &ModuleMap) -> Option<RunAddr> {
        match self {
            Self::Run(addr) => Some(*addr),
            Self::Probed(_) | Self::Pointed(_) => None,
            Self::Static { module, addr } => static_address(module.as_deref(), *addr, modules),
        }
    }
}

fn static_address(module: Option<&Path>, addr: LinkAddr, modules: &ModuleMap) -> Option<RunAddr> {
    match module {
        None => modules.to_run(addr),
        Some(path) => module_at(modules, path)?.to_run(addr),
    }
}

/// The module of a process that is the file at a path.
pub(crate) fn module_at<'m>(modules: &'m ModuleMap, path: &Path) -> Option<&'m Module> {
    modules.modules().iter().find(|module| {
        let recorded = Path::new(&module.mapped.path);
        recorded == path || modules.file(module).is_some_and(|file| file == path)
    })
}

/// A location to watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchSpec {
    /// Where.
    pub address: Address,
    /// How many bytes.
    pub len: u32,
    /// Which accesses.
    pub trigger: Trigger,
    /// At how many places at once, of one that is found at several: as many as there are objects that threads use. A place takes as many
    /// registers as any.
    #[serde(default = "one")]
    pub places: u32,
}

fn one() -> u32 {
    1
}

impl WatchSpec {
    /// The location in a process, if its file is mapped.
    #[must_use]
    pub fn resolve(&self, modules: &ModuleMap) -> Option<Location> {
        Some(Location {
            addr: self.address.resolve(modules)?,
            len: self.len,
            trigger: self.trigger,
        })
    }
}

/// How many bytes a snapshot has: what a debug register can watch.
pub const SNAPSHOT: usize = 8;

/// A watched piece of memory as it was when a hit was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Where.
    pub addr: RunAddr,
    /// How many bytes were read.
    pub len: u8,
    /// The bytes.
    pub bytes: [u8; SNAPSHOT],
}

impl Snapshot {
    /// The snapshots that some bytes make.
    pub fn of(addr: RunAddr, bytes: &[u8]) -> impl Iterator<Item = Self> + '_ {
        let pieces = bytes.chunks(SNAPSHOT).zip((addr.0..).step_by(SNAPSHOT));
        pieces.map(|(piece, addr)| {
            let mut bytes = [0; SNAPSHOT];
            bytes.iter_mut().zip(piece).for_each(|(to, from)| *to = *from);
            Self {
                addr: RunAddr(addr),
                len: u8::try_from(piece.len()).unwrap_or(0),
                bytes,
            }
        })
    }
}

/// How long the kernel is on its way from an access to where its time is taken. It has interrupts off there, but a
/// virtual machine may be stopped at any moment.
pub(crate) const REPORT_NS: u64 = 50_000;

/// What made a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// A watch, right after the access.
    Watch,
    /// A watch, but late, because the thread blocked SIGTRAP: its registers say nothing about the access.
    Late,
    /// A probe that stands on the instruction which just ran. It is an access if the instruction says so: the
    /// watch was set after it, or its own report was merged with the probe's.
    Probe,
    /// None: the thread dies of the instruction that it is at. What that read before it failed, nobody else tells.
    Died,
}

/// A trap as the kernel reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawHit {
    /// When it had happened, by the monotonic clock: noted at the access, or else when it was reported.
    pub time_ns: u64,
    /// It did not happen before this,
    pub earliest_ns: u64,
    /// and most likely not before this: see [`REPORT_NS`].
    pub likely_ns: u64,
    /// The thread.
    pub tid: Tid,
    /// The watched address that the kernel says was touched. An instruction that touched several reports one.
    pub watched: RunAddr,
    /// The registers after the access.
    pub registers: Registers,
    /// Whether `fs_base` and `gs_base` are among what is known.
    pub has_segment_bases: bool,
    /// What made the report.
    pub report: Report,
    /// The stack, from its pointer on, as far as it was read.
    pub stack: Vec<u8>,
    /// The instruction under the last probe that the thread ran into, where that was told.
    pub probed: Option<RunAddr>,
    /// The watched pieces after the report, as far as they could be read.
    pub memory: Vec<Snapshot>,
    /// They were looked at from this time on,
    pub looking_ns: u64,
    /// and by this time, and the thread did nothing before.
    pub looked_ns: u64,
}

impl RawHit {
    /// The eight bytes at the stack pointer.
    #[must_use]
    pub fn stack_top(&self) -> Option<u64> {
        self.stack.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

/// A location that is watched from some moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arming {
    /// Which location of the request.
    pub location: usize,
    /// Where, and which accesses.
    pub at: Location,
    /// From when on, by the monotonic clock.
    pub from_ns: u64,
    /// Accesses may have happened already.
    pub late: bool,
    /// What was there, and whether that is certain: nobody wrote while the watch was being set.
    pub content: Option<(Vec<u8>, bool)>,
}

impl Arming {
    /// A location that is watched now. `before` is what was there before the watch was set: when the same is
    /// there still, nobody wrote meanwhile.
    pub(crate) fn now(
        location: usize,
        at: Location,
        late: bool,
        before: Option<Vec<u8>>,
        memory: &Memory,
    ) -> Self {
        let content = memory.read(at.addr, at.len as usize);
        Self {
            location,
            at,
            from_ns: monotonic_ns(),
            late,
            content: content.map(|bytes| {
                let same = before.is_some_and(|before| before == bytes);
                (bytes, same)
            }),
        }
    }
}

/// What a watcher has to tell.
#[derive(Clone, Debug)]
pub enum Event {
    /// The process is there; what it has mapped, as far as it is known.
    Modules(Box<ModuleMap>),
    /// A location is watched from now on, instead of where it was watched before, if it was.
    Armed(Arming),
    /// A location is not watched any more.
    Disarmed {
        /// Which location of the request.
        location: usize,
        /// Where it was.
        at: RunAddr,
        /// When it ended.
        until_ns: u64,
    },
    /// An access.
    Hit(Box<RawHit>),
    /// Every access before this moment has been told.
    Complete(u64),
    /// So many hits could not be reported.
    Lost(u64),
    /// A child of vfork was in the process's memory for a while, unwatched.
    Vforked,
    /// How often a debug register was hit in all, as the kernel counted.
    Counted(Slot, u64),
    /// The process ended.
    Ended(End),
}

/// Somebody who owns debug registers of a process.
pub trait Watcher: Send {
    /// How it watches.
    fn mode(&self) -> Mode;

    /// The process.
    fn pid(&self) -> Pid;

    /// The next events, waiting at most so long for the first; none when the time is over.
    ///
    /// # Errors
    /// When the process can no longer be watched.
    fn next(&mut self, timeout: Duration) -> Result<Vec<Event>, WatchError>;

    /// How often threads were trapped so far, by location, for its bytes and for the probes that look for them; none where
    /// nobody counts. What belongs to no location of the request has a number beyond. This is what watching costs them.
    fn traps(&self) -> BTreeMap<usize, u64> {
        BTreeMap::new()
    }

    /// Watches a location no more, and sets no probe for it. What comes of it is told as an event.
    fn leave(&mut self, _location: usize) -> Vec<Event> {
        Vec::new()
    }

    /// Hits that are reported at this place need no look at memory: their registers told the value.
    fn registers_tell(&mut self, _reported: RunAddr) {}

    /// Takes every watch away and leaves the process to itself. What had been hit before comes back.
    ///
    /// # Errors
    /// When the process could not be left as it was.
    fn stop(&mut self) -> Result<Vec<Event>, WatchError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a probe that reads an address from `rdi` finds a location, in a thread whose stack pointer is at 0x7000_0000.
    fn located(addr: u64, late: bool, own_frames: bool) -> Option<RunAddr> {
        let probe = Probe {
            module: None,
            addr: LinkAddr(0x1000),
            offset: FileOffset(0x1000),
            expression: Expression {
                base: Some(Register::RDI),
                index: None,
                disp: 0,
            },
            late,
            nth: None,
        };
        let spec = WatchSpec {
            address: Address::Probed(vec![probe.clone()]),
            len: 8,
            trigger: Trigger::ReadWrite,
            places: 1,
        };
        let registers = Registers {
            rdi: addr,
            rsp: 0x7000_0000,
            ..Registers::default()
        };
        let found = probe.locate(&spec, &registers, own_frames);
        found.map(|location| location.addr)
    }

    /// `[rax+rbx]` with the element's offset in `rax`, and the other way round.
    #[test]
    fn either_of_two_registers_may_be_the_pointer() {
        let found = |rax, rbx, scale| {
            let expression = Expression {
                base: Some(Register::RAX),
                index: Some((Register::RBX, scale)),
                disp: 0x50,
            };
            let registers = Registers {
                rax,
                rbx,
                ..Registers::default()
            };
            expression.evaluate(&registers)
        };
        assert_eq!(found(0x20, 0x5555_0000, 1), Some(RunAddr(0x5555_0070)));
        assert_eq!(found(0x5555_0000, 0x20, 1), Some(RunAddr(0x5555_0070)));
        assert_eq!(found(0x20, 0x800, 1), None);
        assert_eq!(found(0, 0x5555_0000, 8), None, "a null pointer to an array");
    }

    #[test]
    fn what_a_thread_comes_by_in_its_own_frames_is_not_watched() {
        assert_eq!(located(0x7000_0100, true, false), None);
        assert_eq!(located(0x6fff_fff8, true, false), None, "below the stack pointer");
        for elsewhere in [0x5555_0000, 0x6fff_0000, 0x7100_0000] {
            assert_eq!(located(elsewhere, true, false), Some(RunAddr(elsewhere)));
        }
        // Given to another thread, or fresh from an allocation: whoever has it in his frame, others get it.
        assert_eq!(located(0x7000_0100, false, false), Some(RunAddr(0x7000_0100)));
        assert_eq!(
            located(0x7000_0100, true, true),
            Some(RunAddr(0x7000_0100)),
            "it is the only thread"
        );
    }
}

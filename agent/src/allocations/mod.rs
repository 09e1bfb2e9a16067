//! Where the memory that a run touches was allocated.
//!
//! Probes on the allocators write down what was asked for, what was returned and the top of the stack then, and stop nobody.
//! When the run is over, the blocks that watched places were in are looked for, and the calls that led to them are read off
//! the stacks: of a few, where all would take longer than the run.

mod blocks;

use std::collections::BTreeMap;
use std::time::Duration;

use diagnosis::record::{AllocationsRecord, HitRecord};
use diagnosis::tracking::{Allocator, SizeArgument};
use failure::image::ModuleFiles;
use failure::report::Report;
use program::{FileOffset, RunAddr};
use tracee::bpf::{BpfError, HitProgram, HitRing, ManyProbes, ProbeRead, RawHit, Register, Then};
use tracee::perf::ProbeFile;
use tracee::process::ModuleMap;
use tracee::ptrace::{Launched, Tracer};
use tracee::run::{Ended, TrackError, Tracker};

use blocks::{Block, Blocks};

/// Room for what comes in between two looks.
const RING: usize = 4 << 20;
/// Bytes of the stack that are kept, in pieces as long as a hit has room for.
const PIECE: u64 = 64;
const PIECES: u64 = 8;
const TICK: Duration = Duration::from_millis(20);
/// Allocations that are noted in a run.
const MOST: usize = 1 << 15;
/// What noting may cost a run: the time from the call of an allocator to its return, which is nearly all the probes' and half of
/// what they take. Measured: 10 µs where exceptions are expensive, a tenth of that elsewhere.
const MOST_NS: u64 = 200_000_000;

/// Notes allocations; rides along in a run.
pub(crate) struct Allocations {
    allocators: Vec<Allocator>,
    probes: Option<Probes>,
    /// Sizes that were asked for, and when, by thread and by where the stack is when the function returns.
    asked: BTreeMap<(u32, u64), (u64, u64)>,
    blocks: Blocks,
    cost_ns: u64,
    cut_short: bool,
}

struct Probes {
    ring: HitRing,
    _links: Vec<ManyProbes>,
}

/// What a hit is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Called(SizeArgument),
    Returned,
}

impl Side {
    const ALL: [Self; 4] = [
        Self::Called(SizeArgument::First),
        Self::Called(SizeArgument::Second),
        Self::Called(SizeArgument::Product),
        Self::Returned,
    ];

    fn of(cookie: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(cookie).ok()?).copied()
    }

    fn reads(self) -> Vec<ProbeRead> {
        let piece = |number: u64| ProbeRead {
            base: Some(Register::Rsp),
            index: None,
            offset: i32::try_from(number * PIECE).unwrap_or(0),
            len: PIECE,
        };
        match self {
            Self::Called(_) => Vec::new(),
            Self::Returned => (0..PIECES).map(piece).collect(),
        }
    }
}

impl Probes {
    /// Sets the probes in a process that has not begun: in its files, mapped or not yet.
    fn set(allocators: &[Allocator], modules: &ModuleMap) -> Result<Self, BpfError> {
        let ring = HitRing::new(RING, usize::try_from(PIECE).unwrap_or(0))?;
        ring.only(Some(modules.pid()));
        let executable = modules.executable().and_then(|module| modules.file(module));
        let file = |allocator: &Allocator| match &allocator.module {
            Some(path) => Some(ProbeFile::at(path.as_ref())),
            None => executable.as_deref().map(ProbeFile::at),
        };
        let mut links = Vec::new();
        for (cookie, side) in (0..).zip(Side::ALL) {
            let mut files: Vec<(ProbeFile, Vec<FileOffset>)> = Vec::new();
            for allocator in allocators {
                let Some(file) = file(allocator) else { continue };
                if !matches!(side, Side::Called(size) if size != allocator.size) {
                    match files.iter_mut().find(|(other, _)| *other == file) {
                        Some((_, offsets)) => offsets.push(allocator.offset),
                        None => files.push((file, vec![allocator.offset])),
                    }
                }
            }
            if files.is_empty() {
                continue;
            }
            let program = HitProgram::for_many_probes(&ring, cookie, &side.reads(), Then::GoOn)?;
            for (file, mut offsets) in files {
                offsets.sort_unstable();
                offsets.dedup();
                let open = match side {
                    Side::Called(_) => ManyProbes::open,
                    Side::Returned => ManyProbes::at_returns,
                };
                // A file that is gone, or an instruction that takes no probe: the others tell what they can.
                links.extend(open(&program, &file, &offsets, modules.pid()));
            }
        }
        Ok(Self { ring, _links: links })
    }
}

impl Allocations {
    pub(crate) fn new(allocators: Vec<Allocator>) -> Self {
        Self {
            allocators,
            probes: None,
            asked: BTreeMap::new(),
            blocks: Blocks::default(),
            cost_ns: 0,
            cut_short: false,
        }
    }

    fn read(&mut self) {
        let Some(mut probes) = self.probes.take() else {
            return;
        };
        probes.ring.read(|hit| self.take(&hit));
        self.cut_short |= probes.ring.lost() > 0;
        if self.blocks.len() < MOST && self.cost_ns < MOST_NS {
            self.probes = Some(probes);
        } else {
            // Taken away with this: the rest of the run is not slowed down.
            self.cut_short = true;
        }
    }

    fn take(&mut self, hit: &RawHit) {
        let registers = &hit.registers;
        match Side::of(hit.cookie) {
            Some(Side::Called(size)) => {
                let size = match size {
                    SizeArgument::First => registers.rdi,
                    SizeArgument::Second => registers.rsi,
                    SizeArgument::Product => registers.rdi.saturating_mul(registers.rsi),
                };
                // The return takes its address off the stack.
                self.asked
                    .insert((hit.tid.0, registers.rsp.wrapping_add(8)), (size, hit.time_ns));
            }
            Some(Side::Returned) => {
                let Some((size, called_ns)) = self.asked.remove(&(hit.tid.0, registers.rsp)) else {
                    return;
                };
                self.cost_ns = self.cost_ns.saturating_add(hit.time_ns.saturating_sub(called_ns));
                if registers.rax != 0 && self.blocks.len() < MOST {
                    self.blocks.add(Block {
                        time_ns: hit.time_ns,
                        addr: RunAddr(registers.rax),
                        size,
                        registers: *registers,
                        stack: hit
                            .values
                            .iter()
                            .flat_map(|piece| piece.bytes())
                            .copied()
                            .collect(),
                    });
                }
            }
            None => {}
        }
    }

    /// What was found out about the places that were touched.
    pub(crate) fn finish(
        mut self,
        hits: &[HitRecord],
        modules: &ModuleMap,
        files: &dyn ModuleFiles,
    ) -> AllocationsRecord {
        self.read();
        AllocationsRecord {
            blocks: self.blocks.touched(hits, modules, files),
            cut_short: self.cut_short,
        }
    }
}

impl Tracker for Allocations {
    fn started(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        // Another program has its own memory.
        self.asked.clear();
        self.blocks = Blocks::default();
        // Where probes are not permitted the run is as good as it was without them.
        let modules = ModuleMap::of(tracer.pid()).ok();
        self.probes = modules.and_then(|modules| Probes::set(&self.allocators, &modules).ok());
        Ok(())
    }

    fn tick(&mut self, _tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        self.read();
        Ok(())
    }

    fn period(&self) -> Option<Duration> {
        Some(TICK)
    }

    fn failing(&mut self, _tracer: &mut Tracer<Launched>, _report: &Report) -> Result<(), TrackError> {
        self.read();
        Ok(())
    }

    fn ended(&mut self, _ended: Ended) {
        self.read();
    }
}

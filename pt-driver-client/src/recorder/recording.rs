//! What came out of recording: bytes for each thread, and all that is missing from them.

use std::fmt;

use program::{BuildId, LinkAddr, ModuleId, Pc, Program, RunAddr};
use serde::{Deserialize, Serialize};
use slicer::plan::PcRange;
use tracee::Tid;

use super::request::Source;
use crate::code::Image;
use crate::flow::{Decoder, Interest, ThreadFlow};

/// The control flow of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// Who recorded it.
    pub source: Source,
    /// What the times in the traces are.
    pub clock: Clock,
    /// What was mapped where: one for the program, one more for each other program that it executed.
    pub spaces: Vec<Space>,
    /// The traces, in the order in which the threads first showed up.
    pub threads: Vec<ThreadTrace>,
    /// What is not in the traces although it may have happened.
    pub missing: Vec<Missing>,
    /// How much it was.
    pub counts: Counts,
}

/// What the times in a trace (TSC packets) are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Clock {
    /// Nanoseconds of CLOCK_MONOTONIC.
    Monotonic,
    /// Ticks of the processor's counter; `None` where the kernel does not say what they are in nanoseconds.
    Counter(Option<Conversion>),
}

/// How ticks of the processor's counter become nanoseconds of perf's clock (perf_event_mmap_page, `cap_user_time_zero`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversion {
    /// Nanoseconds at tick 0.
    pub zero: u64,
    /// What to multiply ticks by.
    pub multiplier: u32,
    /// By how many bits to shift the product.
    pub shift: u16,
}

impl Clock {
    /// The time of a TSC packet in nanoseconds, where that is known.
    #[must_use]
    pub fn nanoseconds(self, ticks: u64) -> Option<u64> {
        match self {
            Self::Monotonic => Some(ticks),
            Self::Counter(conversion) => conversion.map(|conversion| conversion.nanoseconds(ticks)),
        }
    }
}

impl Conversion {
    /// As perf_event_open(2) says, in two parts so that nothing overflows.
    fn nanoseconds(self, ticks: u64) -> u64 {
        let shift = u32::from(self.shift).min(63);
        let multiplier = u64::from(self.multiplier);
        let (high, low) = (ticks >> shift, ticks & ((1 << shift) - 1));
        let scaled = high.wrapping_mul(multiplier);
        self.zero
            .wrapping_add(scaled)
            .wrapping_add(low.wrapping_mul(multiplier) >> shift)
    }
}

/// The address space of one program: where the modules of the plan were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Those that were mapped.
    pub modules: Vec<Placed>,
}

/// A module of the program where it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The module.
    pub module: ModuleId,
    /// What is added to its link-time addresses.
    pub bias: u64,
    /// Its build-id as the process had it.
    pub build_id: Option<BuildId>,
}

/// The trace of one thread in one space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTrace {
    /// The thread.
    pub tid: Tid,
    /// The space, by its number.
    pub space: usize,
    /// Packets of Intel PT, from a PSB on.
    #[serde(with = "super::hex")]
    pub bytes: Vec<u8>,
}

/// What is not in the traces although it may have happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Of which thread; of any when `None`.
    pub tid: Option<Tid>,
    /// What.
    pub what: What,
}

/// What is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The outcomes of a branch: it takes no probe, or where it goes cannot be read.
    Branch(Pc),
    /// All of a range: its code could not be read.
    Range(PcRange),
    /// All of a module's ranges: it could not be probed.
    Module {
        /// The module.
        module: ModuleId,
        /// Why.
        why: String,
    },
    /// So many hits found no room. The traces have an OVF in that place.
    Hits(u64),
    /// So many hits at places that were in no known module.
    Strays(u64),
    /// So many bytes of the beginning: a trace keeps only its end.
    Beginning(u64),
    /// Stretches between places that follow one another: a signal came between them. The traces are off there.
    Interrupted(u64),
    /// Outcomes of branches whose target could not be read at the moment.
    Targets(u64),
    /// What a thread did between its last decision and its end.
    End,
    /// The first thread ended before its process, and the probes with it.
    FirstThread,
    /// Data that perf lost: so many records.
    Records(u64),
    /// The hardware's buffer was full, and tracing was off until somebody read it: so often.
    Truncated(u64),
    /// A part of a trace that is not complete, or has another's data in it: so often.
    Damaged(u64),
    /// Data of threads that could not be told apart: so many bytes.
    Unassigned(u64),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Branch(pc) => write!(f, "the branch at {} cannot be probed", pc.addr),
            Self::Range(range) => write!(f, "the code at {} cannot be read", range.start),
            Self::Module { why, .. } => write!(f, "a module cannot be probed: {why}"),
            Self::Hits(count) => write!(f, "{count} hits of probes were lost: the ring was full"),
            Self::Strays(count) => write!(f, "{count} hits of probes were in no known module"),
            Self::Beginning(bytes) => write!(f, "the first {bytes} bytes were dropped"),
            Self::Interrupted(count) => write!(f, "{count} stretches were interrupted by a signal"),
            Self::Targets(count) => write!(f, "the targets of {count} branches could not be read"),
            Self::End => f.write_str("what came after the last recorded branch is not known"),
            Self::FirstThread => f.write_str("the first thread ended, and the probes with it"),
            Self::Records(count) => write!(f, "{count} records of perf were lost"),
            Self::Truncated(count) => write!(f, "tracing was off {count} times: the buffer was full"),
            Self::Damaged(count) => write!(f, "{count} parts of the trace are incomplete"),
            Self::Unassigned(bytes) => write!(f, "{bytes} bytes belong to no known thread"),
        }
    }
}

/// How much was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Probes that were set.
    pub probes: u64,
    /// Traps that the target paid for.
    pub hits: u64,
    /// Of these, lost.
    pub lost: u64,
}

impl Space {
    /// The place in the program that a run-time address is, if the address is of one of its modules.
    #[must_use]
    pub fn to_pc(&self, program: &Program<'_>, addr: RunAddr) -> Option<Pc> {
        self.modules.iter().find_map(|placed| {
            let link = LinkAddr(addr.0.wrapping_sub(placed.bias));
            let segments = program.module(placed.module)?.elf().segments();
            segments.is_executable(link).then_some(Pc {
                module: placed.module,
                addr: link,
            })
        })
    }

    /// The ranges where they were.
    #[must_use]
    pub fn interest(&self, ranges: &[PcRange]) -> Interest {
        Interest::ranges(self.modules.iter().flat_map(|placed| {
            let ranges = ranges.iter().filter(|range| range.module == placed.module);
            let run = |addr: LinkAddr| placed.bias.wrapping_add(addr.0);
            ranges.map(move |range| run(range.start)..run(range.end))
        }))
    }

    /// Its code, from the program's files.
    #[must_use]
    pub fn image<'a>(&self, program: &Program<'a>) -> Image<'a> {
        let pieces = self.modules.iter().flat_map(|placed| {
            let segments = program
                .module(placed.module)
                .map(|module| module.elf().segments());
            let ranges = segments.map(|segments| segments.executable()).unwrap_or_default();
            ranges.into_iter().filter_map(move |range| {
                let bytes = segments?.bytes_at(range.start, range.end.0.checked_sub(range.start.0)?)?;
                Some((placed.bias.wrapping_add(range.start.0), bytes))
            })
        });
        Image::new(pieces)
    }
}

impl Recording {
    /// A recording with nothing in it.
    #[must_use]
    pub fn empty(source: Source, clock: Clock) -> Self {
        Self {
            source,
            clock,
            spaces: Vec::new(),
            threads: Vec::new(),
            missing: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// What the threads did in a plan's ranges, one after the other. Addresses are those of [`ThreadTrace::space`];
    /// [`Space::to_pc`] makes places in the program of them.
    #[must_use]
    pub fn decode(&self, program: &Program<'_>, ranges: &[PcRange]) -> Vec<(&ThreadTrace, ThreadFlow)> {
        let images: Vec<Image<'_>> = self.spaces.iter().map(|space| space.image(program)).collect();
        let mut decoders: Vec<(Decoder<'_>, Interest)> = images
            .iter()
            .zip(&self.spaces)
            .map(|(image, space)| (Decoder::new(image), space.interest(ranges)))
            .collect();
        let decoded = self.threads.iter().map(|thread| {
            let flow = decoders.get_mut(thread.space);
            let flow = flow.map(|(decoder, interest)| decoder.thread_flow(&thread.bytes, interest));
            (thread, flow.unwrap_or_default())
        });
        decoded.collect()
    }
}

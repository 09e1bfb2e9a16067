//! What came out of recording: bytes for each thread, and all that is missing from them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use program::{BuildId, LinkAddr, ModuleId, Pc, Program, RunAddr};
use serde::{Deserialize, Serialize};
use slicer::plan::PcRange;
use tracee::Tid;
use tracee::perf::intel_pt::Absence;

use super::clock::{Clock, while_running};
use super::request::Source;
use crate::code::Image;
use crate::config::{self, Config, Filter, Processor};
use crate::flow::{Decoder, Interest, ThreadFlow, Time};

/// Blocks and branches that are kept of one run, about 64 bytes each, and twice as many on the way. Of more, each thread's last
/// ones are kept.
const EVENTS: usize = 2 << 20;

/// The control flow of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// Who recorded it.
    pub source: Source,
    /// What the times in the traces are.
    pub clock: Clock,
    /// The processor, if it was the processor.
    #[serde(default)]
    pub unit: Unit,
    /// What was mapped where: one for the program, one more for each other program that it executed.
    pub spaces: Vec<Space>,
    /// The traces, in the order in which the threads first showed up.
    pub threads: Vec<ThreadTrace>,
    /// What is not in the traces although it may have happened.
    pub missing: Vec<Missing>,
    /// When threads did not have the processor, in order of time, as far as it was told.
    #[serde(default)]
    pub absences: BTreeMap<Tid, Vec<Absence>>,
    /// How much it was.
    pub counts: Counts,
}

/// What has to be known of a processor to read its traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Which one it is: some have defects.
    pub processor: Option<Processor>,
    /// How its clocks belong together.
    pub clocks: config::Clock,
    /// Where it was told to trace; empty for everywhere.
    pub filter: Vec<PcRange>,
}

impl Unit {
    /// How the decoders are told of it, for traces of one address space.
    fn config(&self, space: &Space) -> Config {
        let errata = self.processor.and_then(Processor::errata);
        let placed: Vec<(u64, u64)> = space
            .placed(&self.filter)
            .filter(|range| !range.is_empty())
            .map(|range| (range.start, range.end - 1))
            .collect();
        Config {
            errata: errata.unwrap_or_default(),
            clock: self.clocks,
            filter: Filter::of(&placed),
        }
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
    /// So many hits found no room. The traces have an OVF in that place.
    Hits(u64),
    /// So many hits at places that were in no known module.
    Strays(u64),
    /// So many bytes of the beginning: a trace keeps only its end.
    Beginning(u64),
    /// What came before the trace: a flight recorder went round, nobody knows how often.
    Overwritten,
    /// Stretches between places that follow one another: a signal came between them. The traces are off there.
    Interrupted(u64),
    /// Outcomes of branches whose target could not be read at the moment.
    Targets(u64),
    /// What a thread did between its last decision and its end.
    End,
    /// Everything after so many hits: the probes were taken away.
    CutShort(u64),
    /// Data that perf lost: so many records.
    Records(u64),
    /// The hardware's buffer was full, and tracing was off until somebody read it: so often.
    Truncated(u64),
    /// A part of a trace that is not complete, or has another's data in it: so often.
    Damaged(u64),
    /// What ran in a module: other code took its place during the run.
    Replaced(ModuleId),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Branch(pc) => write!(f, "the branch at {} cannot be probed", pc.addr),
            Self::Range(range) => write!(f, "the code at {} cannot be read", range.start),
            Self::Hits(count) => write!(f, "{count} hits of probes were lost: the ring was full"),
            Self::Strays(count) => write!(f, "{count} hits of probes were in no known module"),
            Self::Beginning(bytes) => write!(f, "the first {bytes} bytes were dropped"),
            Self::Overwritten => f.write_str("the beginning was written over: the buffer keeps the end"),
            Self::Interrupted(count) => write!(f, "{count} stretches were interrupted by a signal"),
            Self::Targets(count) => write!(f, "the targets of {count} branches could not be read"),
            Self::End => f.write_str("what came after the last recorded branch is not known"),
            Self::CutShort(hits) => write!(
                f,
                "tracing ended after {hits} hits of probes: the code runs too often"
            ),
            Self::Records(count) => write!(f, "{count} records of perf were lost"),
            Self::Truncated(count) => write!(f, "tracing was off {count} times: the buffer was full"),
            Self::Damaged(count) => write!(f, "{count} parts of the trace are incomplete"),
            Self::Replaced(module) => write!(f, "other code took the place of module {}", module.0),
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
    /// Threads that were traced as a whole, because the kernel refused to filter.
    #[serde(default)]
    pub unfiltered: u64,
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
        Interest::ranges(self.placed(ranges))
    }

    fn placed<'s>(&'s self, ranges: &'s [PcRange]) -> impl Iterator<Item = Range<u64>> + 's {
        self.modules.iter().flat_map(|placed| {
            let ranges = ranges.iter().filter(|range| range.module == placed.module);
            let run = |addr: LinkAddr| placed.bias.wrapping_add(addr.0);
            ranges.map(move |range| run(range.start)..run(range.end))
        })
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
            unit: Unit::default(),
            spaces: Vec::new(),
            threads: Vec::new(),
            missing: Vec::new(),
            absences: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// When something happened that a thread's trace times, as CLOCK_MONOTONIC in nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self, trace: &ThreadTrace, time: Time) -> Option<u64> {
        let absences = self.absences.get(&trace.tid).map(Vec::as_slice);
        let ticks = while_running(time.estimated, absences.unwrap_or_default());
        self.clock.nanoseconds(ticks)
    }

    /// What the threads did in a plan's ranges, one after the other. Addresses are those of [`ThreadTrace::space`];
    /// [`Space::to_pc`] makes places in the program of them.
    #[must_use]
    pub fn decode(&self, program: &Program<'_>, ranges: &[PcRange]) -> Vec<(&ThreadTrace, ThreadFlow)> {
        let images: Vec<Image<'_>> = self.spaces.iter().map(|space| space.image(program)).collect();
        let mut decoders: Vec<(Decoder<'_>, Interest)> = images
            .iter()
            .zip(&self.spaces)
            .map(|(image, space)| {
                let decoder = Decoder::with(image, self.unit.config(space));
                (decoder, space.interest(ranges))
            })
            .collect();
        let mut left = EVENTS;
        let decoded = self.threads.iter().map(|thread| {
            let Some((decoder, interest)) = decoders.get_mut(thread.space) else {
                return (thread, ThreadFlow::default());
            };
            (thread, next_flow(decoder, interest, &thread.bytes, &mut left))
        });
        decoded.collect()
    }
}

/// One thread's flow, within what is left for the run.
fn next_flow(decoder: &mut Decoder<'_>, interest: &Interest, trace: &[u8], left: &mut usize) -> ThreadFlow {
    let flow = decoder.thread_flow(trace, &interest.clone().at_most(*left));
    *left = left.saturating_sub(flow.events.len());
    flow
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads share what is kept of a run: what the first ones take, the last ones do not have.
    #[test]
    fn many_threads_do_not_have_many_times_as_much() {
        let jump_back = [0x74, 0xfe, 0xeb, 0xfc];
        let image = Image::new([(0x1000, &jump_back[..])]);
        let mut trace = [0x02, 0x82].repeat(8);
        trace.extend([0x99, 0x01, 0x02, 0x23, 0x71, 0x00, 0x10, 0, 0, 0, 0]);
        trace.extend([0xfe; 100_000]);
        let mut left = EVENTS;
        let mut decoder = Decoder::new(&image);
        let interest = Interest::everything();
        let kept: Vec<usize> = (0..4)
            .map(|_| next_flow(&mut decoder, &interest, &trace, &mut left).events.len())
            .collect();
        assert_eq!(kept.iter().sum::<usize>(), EVENTS, "{kept:?}");
        assert_eq!(kept[3], 0, "{kept:?}");
    }

    /// A module at an address, and a filter of two ranges in it and one in a module that is not there.
    #[test]
    fn decoders_are_told_of_the_processor() {
        let range = |module, start, end| PcRange {
            module: ModuleId(module),
            start: LinkAddr(start),
            end: LinkAddr(end),
        };
        let space = Space {
            modules: vec![Placed {
                module: ModuleId(3),
                bias: 0x5000,
                build_id: None,
            }],
        };
        let mut unit = Unit {
            processor: Some(Processor {
                family: 6,
                model: 0x5e,
            }),
            filter: vec![range(3, 0x10, 0x20), range(4, 0, 8), range(3, 0x40, 0x41)],
            ..Unit::default()
        };
        let config = unit.config(&space);
        assert!(config.errata.has(config::Erratum::Skl014));
        let filter = config.filter.unwrap();
        let traced = [0x500f, 0x5010, 0x501f, 0x5020, 0x5040, 0x5041].map(|at| filter.contains(at));
        assert_eq!(traced, [false, true, true, false, true, false]);
        unit.filter = (0..5).map(|n| range(3, n * 8, n * 8 + 4)).collect();
        assert_eq!(unit.config(&space).filter, None, "no processor has so many");
        assert_eq!(Unit::default().config(&space), Config::default());
    }
}

//! How a trace was recorded: what the decoders have to know of the processor.

use std::num::NonZero;

use serde::{Deserialize, Serialize};

/// How a trace was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Config {
    /// Which defects of the processor to expect.
    pub errata: Errata,
    /// How its clocks belong together.
    pub clock: Clock,
    /// Where it was told to trace; `None` for everywhere.
    pub filter: Option<Filter>,
}

/// Ranges of addresses outside of which nothing is traced: processors have at most four.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filter {
    /// First and last address of each.
    pub ranges: [Option<(u64, u64)>; 4],
}

impl Filter {
    /// A filter of these ranges, first and last address of each; `None` when there are none, or more than any processor
    /// has.
    #[must_use]
    pub fn of(given: &[(u64, u64)]) -> Option<Self> {
        let mut filter = Self::default();
        if given.is_empty() || given.len() > filter.ranges.len() {
            return None;
        }
        for (range, given) in filter.ranges.iter_mut().zip(given) {
            *range = Some(*given);
        }
        Some(filter)
    }

    /// Whether an address is traced.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        let mut ranges = self.ranges.iter().flatten();
        ranges.any(|&(first, last)| (first..=last).contains(&address))
    }
}

/// How the clocks of a processor belong together. What is not known is left out of estimates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// MTCFreq of the recording (perf's `mtc_period`): an MTC every 2^n ticks of the crystal.
    pub mtc_frequency: u8,
    /// Ticks of the timestamp counter for ticks of the crystal: CPUID leaf 15H, EBX and EAX.
    pub tsc_per_crystal: Option<(NonZero<u32>, NonZero<u32>)>,
    /// The ratio of the nominal frequency to the bus's (bits 15:8 of MSR_PLATFORM_INFO; perf's
    /// `max_nonturbo_ratio`).
    pub nominal_ratio: Option<NonZero<u8>>,
}

/// A processor of Intel's, as CPUID tells it: family and model with their extended bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Processor {
    /// Its family.
    pub family: u16,
    /// Its model.
    pub model: u8,
}

/// A defect of processors, by the name in Intel's specification updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Erratum {
    /// A PSB+ has a FUP although tracing is about to be enabled: the TIP.PGE comes right behind.
    Bdm70,
    /// A transaction that aborts right after a branch: the branch's TNT or TIP is told before, and contradicts.
    Bdm64,
    /// A CYC packet with a count of 4096 or more can lack its last byte.
    Skd007,
    /// A VM entry that clears TraceEn can have a wrong FUP.
    Skd022,
    /// The FUP that ends an overflow is missing.
    Skd010,
    /// A direct branch out of the filtered range has a TIP.PGD without its address.
    Skl014,
    /// An additional TIP.PGD after an overflow.
    Apl11,
    /// An additional FUP after an overflow.
    Apl12,
    /// CYC packets right before a PSB are lost.
    Skl168,
    /// TMA packets of virtual machines with a scaled or moved TSC are corrupt.
    Skz84,
}

impl Erratum {
    /// All that are known.
    pub const ALL: [Self; 10] = [
        Self::Bdm70,
        Self::Bdm64,
        Self::Skd007,
        Self::Skd022,
        Self::Skd010,
        Self::Skl014,
        Self::Apl11,
        Self::Apl12,
        Self::Skl168,
        Self::Skz84,
    ];
}

/// Defects of one processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Errata(u16);

impl Errata {
    /// Whether it has one.
    #[must_use]
    pub const fn has(self, erratum: Erratum) -> bool {
        self.0 & 1 << erratum as u8 != 0
    }

    const fn of(errata: &[Erratum]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < errata.len() {
            bits |= 1 << errata[index] as u8;
            index += 1;
        }
        Self(bits)
    }
}

impl FromIterator<Erratum> for Errata {
    fn from_iter<I: IntoIterator<Item = Erratum>>(errata: I) -> Self {
        Self(
            errata
                .into_iter()
                .fold(0, |bits, erratum| bits | 1 << erratum as u8),
        )
    }
}

impl Processor {
    /// The defects that Intel lists for it; `None` when the processor is not known to trace at all.
    #[must_use]
    pub fn errata(self) -> Option<Errata> {
        use Erratum::{Apl11, Apl12, Bdm64, Bdm70, Skd007, Skd010, Skd022, Skl014, Skl168, Skz84};
        let list: &[Erratum] = match (self.family, self.model) {
            // Broadwell.
            (6, 0x3d | 0x47 | 0x4f | 0x56) => &[Bdm70, Bdm64],
            // Skylake to Comet Lake.
            (6, 0x4e | 0x5e | 0x8e | 0x9e | 0xa5 | 0xa6) => &[Bdm70, Skd007, Skd022, Skd010, Skl014, Skl168],
            // Servers: Skylake, Ice Lake.
            (6, 0x55 | 0x6a | 0x6c) => &[Bdm70, Skl014, Skd022, Skz84],
            // Servers: Sapphire, Emerald and Granite Rapids.
            (6, 0x8f | 0xcf | 0xad | 0xae) | (0x13, 1) => &[Bdm70, Skd022, Skz84],
            // Cannon, Ice, Tiger and Rocket Lake.
            (6, 0x66 | 0x7d | 0x7e | 0x8c | 0x8d | 0xa7 | 0xa8) => &[Bdm70, Skl014, Skd022],
            // Alder Lake to Panther Lake.
            (6, 0x97 | 0x9a | 0xba | 0xb7 | 0xbf | 0xc5 | 0xc6 | 0xb5 | 0xaa | 0xac | 0xbd | 0xcc) => {
                &[Bdm70, Skd022, Apl11]
            }
            // Goldmont.
            (6, 0x5c | 0x5f) => &[Apl12, Apl11],
            // Later Atoms.
            (6, 0x7a | 0x86 | 0x96 | 0x9c | 0xb6 | 0xaf | 0xdd) => &[Apl11],
            _ => return None,
        };
        Some(Errata::of(list))
    }
}

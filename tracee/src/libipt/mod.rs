//! Intel's own decoder of Intel PT, libipt: the reference that ours is held against.
//!
//! - [`image`]: the traced code, as libipt wants it for speed (sections of a file, kept mapped)
//! - [`block`] and [`insn`]: its two decoders; a block that comes together with an error is handed out too
//! - [`decoder`]: what they have in common
//! - [`event`]: what happens between instructions
//! - [`fault`]: errors and the state after a step

pub mod block;
pub mod decoder;
pub mod event;
pub mod fault;
pub mod image;
pub mod insn;

pub use block::{Block, BlockDecoder};
pub use event::{Event, EventKind};
pub use fault::{Fault, SetupError, Status};
pub use image::{CodeFile, Image};
pub use insn::{Insn, InsnDecoder};

use libipt_sys as sys;

/// A defect of a processor that the decoder has to work around, by the name in Intel's specification updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are names; libipt's header says what each is")]
pub enum Erratum {
    Bdm70,
    Bdm64,
    Skd007,
    Skd022,
    Skd010,
    Skl014,
    Apl11,
    Apl12,
    Skl168,
    Skz84,
}

impl Erratum {
    /// The defects that libipt knows of a processor of Intel's; `None` when it does not know the processor.
    #[must_use]
    pub fn of(family: u16, model: u8) -> Option<Vec<Self>> {
        let cpu = sys::pt_cpu {
            vendor: sys::pt_cpu_vendor_pcv_intel,
            family,
            model,
            stepping: 0,
        };
        // SAFETY: a plain C structure of bits.
        let mut raw: sys::pt_errata = unsafe { std::mem::zeroed() };
        // SAFETY: both are local variables, one read and one written.
        let code = unsafe { sys::pt_cpu_errata(&raw mut raw, &raw const cpu) };
        let known = [
            (raw.bdm70(), Self::Bdm70),
            (raw.bdm64(), Self::Bdm64),
            (raw.skd007(), Self::Skd007),
            (raw.skd022(), Self::Skd022),
            (raw.skd010(), Self::Skd010),
            (raw.skl014(), Self::Skl014),
            (raw.apl11(), Self::Apl11),
            (raw.apl12(), Self::Apl12),
            (raw.skl168(), Self::Skl168),
            (raw.skz84(), Self::Skz84),
        ];
        let known = known.into_iter().filter(|&(is_set, _)| is_set != 0);
        (code >= 0).then(|| known.map(|(_, erratum)| erratum).collect())
    }
}

/// How a trace was recorded. What is zero or empty is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Which defects of the processor to expect.
    pub errata: Vec<Erratum>,
    /// Where the processor was told to trace: first and last addresses, of which the first four count.
    pub filter: Vec<(u64, u64)>,
    /// MTCFreq.
    pub mtc_frequency: u8,
    /// Nominal frequency, as a multiple of the bus's.
    pub nominal_ratio: u8,
    /// EBX and EAX of CPUID's leaf 15H.
    pub tsc_per_crystal: (u32, u32),
}

impl Config {
    /// libipt's form of it, for a decoder of these bytes.
    fn raw(&self, trace: &[u8]) -> sys::pt_config {
        // SAFETY: a plain C structure; all of its fields are valid when zero, and zero means "not given".
        let mut config: sys::pt_config = unsafe { std::mem::zeroed() };
        config.size = size_of::<sys::pt_config>();
        let range = trace.as_ptr_range();
        // The decoders only read; the pointers are not const because the encoder shares the structure.
        config.begin = range.start.cast_mut();
        config.end = range.end.cast_mut();
        config.mtc_freq = self.mtc_frequency;
        config.nom_freq = self.nominal_ratio;
        (config.cpuid_0x15_ebx, config.cpuid_0x15_eax) = self.tsc_per_crystal;
        let filter = &mut config.addr_filter;
        let ranges = [
            (&mut filter.addr0_a, &mut filter.addr0_b),
            (&mut filter.addr1_a, &mut filter.addr1_b),
            (&mut filter.addr2_a, &mut filter.addr2_b),
            (&mut filter.addr3_a, &mut filter.addr3_b),
        ];
        let mut used = 0;
        for (index, ((first, last), given)) in ranges.into_iter().zip(&self.filter).enumerate() {
            (*first, *last) = *given;
            // Four bits a range: one stands for "trace only this".
            used |= 1 << (4 * index);
        }
        filter.config.addr_cfg = used;
        for erratum in &self.errata {
            match erratum {
                Erratum::Bdm70 => config.errata.set_bdm70(1),
                Erratum::Bdm64 => config.errata.set_bdm64(1),
                Erratum::Skd007 => config.errata.set_skd007(1),
                Erratum::Skd022 => config.errata.set_skd022(1),
                Erratum::Skd010 => config.errata.set_skd010(1),
                Erratum::Skl014 => config.errata.set_skl014(1),
                Erratum::Apl11 => config.errata.set_apl11(1),
                Erratum::Apl12 => config.errata.set_apl12(1),
                Erratum::Skl168 => config.errata.set_skl168(1),
                Erratum::Skz84 => config.errata.set_skz84(1),
            }
        }
        config
    }
}

//! What the kernel says of the processor's tracing unit: `/sys/bus/event_source/devices/intel_pt`.
//!
//! Its files, by `arch/x86/events/intel/pt.c`: `type`, `nr_addr_filters` and `max_nonturbo_ratio` are decimal numbers,
//! `tsc_art_ratio` is two of them with a colon between, and each file of `caps` is a *hexadecimal* number without a
//! prefix. What a kernel or processor does not have is missing or 0.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::path::Path;

use crate::perf::PerfError;
use crate::perf::event::try_open_pmu;

const DEVICE: &str = "/sys/bus/event_source/devices/intel_pt";

/// The tracing unit, as sysfs describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtPmu {
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// How many address filters an event can have; 0 when the processor has none.
    pub filters: usize,
    /// The nominal frequency as a multiple of the bus's.
    pub nominal_ratio: Option<NonZero<u8>>,
    /// Ticks of the timestamp counter for ticks of the crystal.
    pub tsc_per_crystal: Option<(NonZero<u32>, NonZero<u32>)>,
    formats: BTreeMap<String, Field>,
    capabilities: BTreeMap<String, u64>,
}

/// Which bits of `perf_event_attr.config` a term sets: the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    low: u32,
    high: u32,
}

impl PtPmu {
    /// This host's, if it has one that can be used.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn of_this_host() -> Result<Self, PerfError> {
        let pmu = Self::read(Path::new(DEVICE))?;
        try_open_pmu(pmu.kind)?;
        Ok(pmu)
    }

    /// What the files of a device say.
    ///
    /// # Errors
    /// When there is no such device, or it cannot do what is needed.
    pub fn read(device: &Path) -> Result<Self, PerfError> {
        let text = |name: &str| fs::read_to_string(device.join(name)).ok();
        let number = |name: &str| text(name)?.trim().parse::<u32>().ok();
        let kind = number("type").ok_or_else(|| missing("the kernel shows no intel_pt device"))?;
        let ratio = number("max_nonturbo_ratio").and_then(|ratio| u8::try_from(ratio).ok());
        let pmu = Self {
            kind,
            filters: number("nr_addr_filters").unwrap_or(0) as usize,
            nominal_ratio: ratio.and_then(NonZero::new),
            tsc_per_crystal: text("tsc_art_ratio").and_then(|text| {
                let (ticks, crystal) = text.trim().split_once(':')?;
                Some((ticks.parse().ok()?, crystal.parse().ok()?))
            }),
            formats: entries(&device.join("format"), Field::parse),
            capabilities: entries(&device.join("caps"), |text| {
                u64::from_str_radix(text.trim(), 16).ok()
            }),
        };
        // Without a table of buffer parts the kernel cannot have it write anywhere that we could map.
        if pmu.capability("topa_output") == 0 && pmu.capability("single_range_output") == 0 {
            return Err(missing("its tracing unit cannot write to memory"));
        }
        Ok(pmu)
    }

    /// A number among its capabilities; 0 when it does not say.
    #[must_use]
    pub fn capability(&self, name: &str) -> u64 {
        self.capabilities.get(name).copied().unwrap_or(0)
    }

    /// How often we have the crystal's clock written down, as MTCFreq: an MTC every 2^n of its ticks. `None` when the
    /// processor cannot.
    #[must_use]
    pub fn mtc_frequency(&self) -> Option<u8> {
        let period = self.period("mtc_periods", 3);
        let period = period.filter(|_| self.capability("mtc") != 0);
        period.and_then(|period| u8::try_from(period).ok())
    }

    /// The configuration that we trace with: branches, with the address of every return, and times. The kernel refuses
    /// an event that asks for what the processor does not have.
    #[must_use]
    pub fn tracing(&self) -> u64 {
        let mtc = self.mtc_frequency();
        // 2^(n+11) bytes between two PSBs: 4 KiB, or what is next to it.
        let psb = self.period("psb_periods", 1);
        let psb = psb.filter(|_| self.capability("psb_cyc") != 0);
        self.config(&[
            ("pt", 1),
            ("branch", 1),
            ("tsc", 1),
            ("noretcomp", 1),
            ("mtc", u64::from(mtc.is_some())),
            ("mtc_period", mtc.unwrap_or(0).into()),
            ("psb_period", psb.unwrap_or(0)),
        ])
    }

    /// The configuration for some terms, each with its value: those that the kernel does not know, and values that
    /// do not fit, are left out.
    #[must_use]
    pub fn config(&self, terms: &[(&str, u64)]) -> u64 {
        let fields = terms
            .iter()
            .filter_map(|(name, value)| self.formats.get(*name)?.put(*value));
        fields.fold(0, |config, bits| config | bits)
    }

    /// The largest value of a period (`psb_period`, `mtc_period`) that is at most `wanted`, or else the smallest one, by
    /// the bits of a capability (`psb_periods`, `mtc_periods`): bit n says that the value n may be asked for. `None` when
    /// none may.
    #[must_use]
    pub fn period(&self, capability: &str, wanted: u32) -> Option<u64> {
        let supported = self.capability(capability);
        let smallest = (supported != 0).then(|| supported.trailing_zeros());
        let below = supported & ((2_u64 << wanted.min(62)) - 1);
        below.checked_ilog2().or(smallest).map(u64::from)
    }
}

impl Field {
    /// `config:14-17` or `config:10`.
    fn parse(text: &str) -> Option<Self> {
        let bits = text.trim().strip_prefix("config:")?;
        let (low, high) = bits.split_once('-').unwrap_or((bits, bits));
        let field = Self {
            low: low.parse().ok()?,
            high: high.parse().ok()?,
        };
        (field.low <= field.high && field.high < 64).then_some(field)
    }

    fn put(self, value: u64) -> Option<u64> {
        let width = self.high - self.low + 1;
        let fits = width == 64 || value >> width == 0;
        fits.then(|| value << self.low)
    }
}

fn entries<T>(folder: &Path, parse: impl Fn(&str) -> Option<T>) -> BTreeMap<String, T> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let read = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name, parse(&fs::read_to_string(entry.path()).ok()?)?))
    });
    read.collect()
}

fn missing(what: &'static str) -> PerfError {
    PerfError::NotSupported {
        what: "Intel PT".to_owned(),
        remedy: what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device as sysfs shows it on a Kaby Lake, with some files changed.
    fn device(changed: &[(&str, &str)]) -> Result<PtPmu, PerfError> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("failsketch-pmu-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let files = [
            ("type", "8\n"),
            ("nr_addr_filters", "2\n"),
            ("max_nonturbo_ratio", "26\n"),
            ("tsc_art_ratio", "216:2\n"),
            ("caps/topa_output", "1\n"),
            ("caps/single_range_output", "1\n"),
            ("caps/mtc", "1\n"),
            ("caps/mtc_periods", "249\n"),
            ("caps/psb_cyc", "1\n"),
            ("caps/psb_periods", "3f\n"),
            ("caps/cycle_thresholds", "1fff\n"),
            ("format/pt", "config:0\n"),
            ("format/mtc", "config:9\n"),
            ("format/tsc", "config:10\n"),
            ("format/noretcomp", "config:11\n"),
            ("format/branch", "config:13\n"),
            ("format/mtc_period", "config:14-17\n"),
            ("format/psb_period", "config:24-27\n"),
        ];
        for (file, content) in files.iter().chain(changed) {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let read = PtPmu::read(&folder);
        fs::remove_dir_all(&folder).unwrap();
        read
    }

    #[test]
    fn capabilities_are_hexadecimal() {
        let pmu = device(&[]).unwrap();
        assert_eq!((pmu.kind, pmu.filters), (8, 2));
        assert_eq!(pmu.capability("psb_periods"), 0x3f);
        assert_eq!(pmu.capability("mtc_periods"), 0x249);
        assert_eq!(pmu.capability("unheard_of"), 0);
    }

    #[test]
    fn clocks_are_decimal_and_a_zero_is_none() {
        let pmu = device(&[]).unwrap();
        assert_eq!(pmu.nominal_ratio.map(NonZero::get), Some(26));
        let ratio = pmu
            .tsc_per_crystal
            .map(|(ticks, crystal)| (ticks.get(), crystal.get()));
        assert_eq!(ratio, Some((216, 2)));
        let pmu = device(&[("tsc_art_ratio", "0:0\n"), ("max_nonturbo_ratio", "0\n")]).unwrap();
        assert_eq!((pmu.nominal_ratio, pmu.tsc_per_crystal), (None, None));
    }

    #[test]
    fn a_period_is_one_that_the_processor_has() {
        let pmu = device(&[]).unwrap();
        assert_eq!(pmu.period("mtc_periods", 3), Some(3));
        assert_eq!(pmu.period("mtc_periods", 5), Some(3));
        assert_eq!(pmu.period("psb_periods", 1), Some(1));
        assert_eq!(pmu.period("psb_periods", 63), Some(5));
        let pmu = device(&[("caps/mtc_periods", "240\n"), ("caps/psb_periods", "0\n")]).unwrap();
        assert_eq!(pmu.period("mtc_periods", 3), Some(6), "none is smaller");
        assert_eq!(pmu.period("psb_periods", 1), None);
    }

    #[test]
    fn the_configuration_has_each_term_where_sysfs_says() {
        let pmu = device(&[]).unwrap();
        assert_eq!(pmu.config(&[("pt", 1), ("branch", 1), ("tsc", 1)]), 0x2401);
        assert_eq!(pmu.config(&[("mtc_period", 3), ("psb_period", 15)]), 0xf00_c000);
        assert_eq!(
            pmu.config(&[("mtc_period", 16), ("unheard_of", 1)]),
            0,
            "does not fit, is not known"
        );
        let other = device(&[("format/tsc", "config1:10\n"), ("format/branch", "config:9-3\n")]).unwrap();
        assert_eq!(
            other.config(&[("tsc", 1), ("branch", 1)]),
            0,
            "not of this word, and backwards"
        );
    }

    #[test]
    fn only_what_the_processor_has_is_asked_for() {
        let pt_branch_tsc_noretcomp = 1 | 1 << 13 | 1 << 10 | 1 << 11;
        let pmu = device(&[]).unwrap();
        assert_eq!(
            pmu.tracing(),
            pt_branch_tsc_noretcomp | 1 << 9 | 3 << 14 | 1 << 24
        );
        for without in [("caps/mtc", "0\n"), ("caps/mtc_periods", "0\n")] {
            let pmu = device(&[without, ("caps/psb_cyc", "0\n")]).unwrap();
            assert_eq!(
                (pmu.tracing(), pmu.mtc_frequency()),
                (pt_branch_tsc_noretcomp, None)
            );
        }
    }

    #[test]
    fn what_cannot_be_used_says_so() {
        let nowhere = PtPmu::read(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(nowhere.contains("no intel_pt device"), "{nowhere}");
        let unwritten = [("caps/topa_output", "0\n"), ("caps/single_range_output", "0\n")];
        let unwritten = device(&unwritten).unwrap_err().to_string();
        assert!(unwritten.contains("cannot write to memory"), "{unwritten}");
    }
}

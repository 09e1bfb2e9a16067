//! What the kernel says of the processor's tracing unit: `/sys/bus/event_source/devices/intel_pt`.

use std::collections::BTreeMap;
use std::fs;
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
        let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse().ok();
        let kind =
            number(&device.join("type")).ok_or_else(|| missing("the kernel shows no intel_pt device"))?;
        let pmu = Self {
            kind,
            filters: number(&device.join("nr_addr_filters")).unwrap_or(0) as usize,
            formats: entries(&device.join("format"), Field::parse),
            capabilities: entries(&device.join("caps"), |text| text.trim().parse().ok()),
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

    /// The configuration for some terms, each with its value: those that the kernel does not know, and values that
    /// do not fit, are left out.
    #[must_use]
    pub fn config(&self, terms: &[(&str, u64)]) -> u64 {
        let fields = terms
            .iter()
            .filter_map(|(name, value)| self.formats.get(*name)?.put(*value));
        fields.fold(0, |config, bits| config | bits)
    }

    /// The largest value of a period (`psb_period`, `mtc_period`) that is at most `wanted`, by the bits of a
    /// capability (`psb_periods`, `mtc_periods`): bit n says that the value n may be asked for.
    #[must_use]
    pub fn period(&self, capability: &str, wanted: u32) -> u64 {
        let supported = self.capability(capability) & ((2_u64 << wanted.min(62)) - 1);
        u64::from(supported.checked_ilog2().unwrap_or(0))
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

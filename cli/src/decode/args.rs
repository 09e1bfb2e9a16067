//! Options of `decode`: the trace, its code, and how it was recorded.

use std::num::NonZero;
use std::path::PathBuf;

use pt_driver_client::config::{Clock, Config, Errata, Processor};

/// Options of `decode`.
#[derive(clap::Args)]
pub struct DecodeArgs {
    /// The trace: Intel PT packets, nothing else
    #[arg(long, value_name = "FILE")]
    pub pt: PathBuf,

    /// The traced code, in pages of 4096 bytes
    #[arg(long, value_name = "FILE")]
    pub pages: PathBuf,

    /// The address of each page, as little-endian 64-bit numbers
    #[arg(long, value_name = "FILE")]
    pub addrs: PathBuf,

    /// Which decoder
    #[arg(long, value_enum, default_value_t = PtDecoder::Own)]
    pub decoder: PtDecoder,

    #[command(flatten)]
    pub recorded: RecordedArgs,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Decoders of Intel PT.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum PtDecoder {
    /// failsketch's own, made for speed
    Own,
    /// Intel's libipt, to compare with
    Libipt,
}

/// The processor that recorded the trace, and how. What is not given is not assumed.
#[derive(clap::Args)]
#[command(next_help_heading = "How the trace was recorded")]
pub struct RecordedArgs {
    /// The processor, whose known defects (errata) are then worked around: \"cpu family\", \"model\" and
    /// \"stepping\" of /proc/cpuinfo
    #[arg(long, value_name = "FAMILY/MODEL[/STEPPING]", value_parser = errata)]
    cpu: Option<Errata>,

    /// An MTC packet came every 2^N ticks of the crystal: perf's mtc_period
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=15))]
    mtc_freq: u8,

    /// The nominal frequency as a multiple of the bus's: bits 15 to 8 of MSR_PLATFORM_INFO, perf's max_nonturbo_ratio
    #[arg(long, value_name = "N")]
    nom_freq: Option<NonZero<u8>>,

    /// Ticks of the timestamp counter for ticks of the crystal, such as 168/2: EBX and EAX of CPUID leaf 15H
    #[arg(long, value_name = "EBX/EAX", value_parser = ratio)]
    tsc_ratio: Option<(NonZero<u32>, NonZero<u32>)>,
}

impl RecordedArgs {
    /// What the decoders need to know of it.
    pub fn config(&self) -> Config {
        Config {
            errata: self.cpu.unwrap_or_default(),
            clock: Clock {
                mtc_frequency: self.mtc_freq,
                tsc_per_crystal: self.tsc_ratio,
                nominal_ratio: self.nom_freq,
            },
            filter: None,
        }
    }
}

fn number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Which stepping it is makes no difference to what is known of a model: it is read, so that a whole name can be given.
fn errata(text: &str) -> Result<Errata, String> {
    const EXPECTED: &str = "expected numbers, such as 6/158 or 6/158/10";
    let numbers: Option<Vec<u16>> = text.split('/').map(number).collect();
    let (family, model) = match numbers.as_deref() {
        Some([family, model] | [family, model, _]) => (*family, *model),
        _ => return Err(EXPECTED.to_owned()),
    };
    let model = u8::try_from(model).map_err(|_| EXPECTED)?;
    Processor { family, model }.errata().ok_or_else(|| {
        format!(
            "no processor {family}/{model} is known to record Intel PT: without --cpu no defects are expected"
        )
    })
}

fn ratio(text: &str) -> Result<(NonZero<u32>, NonZero<u32>), String> {
    let parts = text.split_once('/');
    let parts = parts.and_then(|(ebx, eax)| Some((ebx.parse().ok()?, eax.parse().ok()?)));
    parts.ok_or_else(|| "expected two numbers from 1, such as 168/2".to_owned())
}

#[cfg(test)]
mod tests {
    use pt_driver_client::config::Erratum;

    use super::*;

    #[test]
    fn a_processor_is_family_model_and_perhaps_stepping() {
        let skylake = errata("6/0x5e/3").unwrap();
        assert!(skylake.has(Erratum::Skl014) && !skylake.has(Erratum::Apl11));
        assert_eq!(errata("6/94"), Ok(skylake));
        for wrong in ["6", "6/", "6/94/3/1", "6/300", "6/x", ""] {
            assert!(errata(wrong).unwrap_err().starts_with("expected"), "{wrong}");
        }
        assert!(errata("6/1").unwrap_err().contains("6/1 is known"));
    }

    #[test]
    fn a_ratio_is_two_numbers() {
        let numbers = |ebx, eax| (NonZero::new(ebx).unwrap(), NonZero::new(eax).unwrap());
        assert_eq!(ratio("168/2"), Ok(numbers(168, 2)));
        for wrong in ["168", "168/0", "0/2", "a/b", ""] {
            assert!(ratio(wrong).is_err(), "{wrong}");
        }
    }
}

//! Which processor of Intel's this is: its defects have to be known to whoever reads its traces.

use std::fs;

/// Family and model of this host's processor, with their extended bits, if Intel made it.
#[must_use]
pub fn family_and_model() -> Option<(u16, u8)> {
    parse(&fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// The same of the first processor in `/proc/cpuinfo`: all have the same model, also where they are of two kinds.
fn parse(cpuinfo: &str) -> Option<(u16, u8)> {
    let field = |name: &str| {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields
            .find(|(found, _)| found.trim_end() == name)
            .map(|(_, value)| value.trim())
    };
    let is_intel = field("vendor_id") == Some("GenuineIntel");
    let number = (field("cpu family")?.parse().ok()?, field("model")?.parse().ok()?);
    is_intel.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::parse;

    const KABY_LAKE: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 158\n\
                             model name\t: Intel(R) Core(TM) i7-7700 CPU @ 3.60GHz\nstepping\t: 9\n\n\
                             processor\t: 1\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 158\n";

    #[test]
    fn the_first_processor_counts_and_must_be_intel_s() {
        assert_eq!(parse(KABY_LAKE), Some((6, 158)));
        assert_eq!(parse(&KABY_LAKE.replace("GenuineIntel", "AuthenticAMD")), None);
        assert_eq!(parse("processor\t: 0\nmodel name\t: none\n"), None);
        assert_eq!(parse(""), None);
    }
}

//! Which values leave this host. Applied before anything is written to the spool, so that what may not leave is not even on
//! the disk.
//!
//! | | `full` | `scalars` | `none` |
//! |---|---|---|---|
//! | values of accesses | all | see below | none |
//! | a failure's message, a line of output, names of threads | yes | no | no |
//! | the address of a fault | yes | below 64 KiB: how far from null | no |
//! | allocations: address, size, stack | yes | yes | no |
//!
//! With `scalars` a value leaves if it is a number of 2, 4 or 8 bytes that can be neither text nor an address:
//! - of one byte, or of a width that no number has, nothing leaves: it is a character, or part of something;
//! - text is a value whose bytes, zeros left out, are all printable or space, or UTF-8 beyond ASCII: four characters of a
//!   string, but the number 65 as well. Numbers below 32 stay;
//! - an address is a value inside a mapped file, and of eight bytes everything from 64 KiB up to where addresses of
//!   programs end (2^47): heap, stacks and mappings are there, and nobody knows any more where they were. Zero, small
//!   and negative numbers stay.
//!
//! Which code ran, which places it accessed in which order, and where in memory these places were always leaves: that is
//! what a sketch is made of.

use std::str::FromStr;

use diagnosis::record::{ModuleRecord, RunEnd, RunRecord};
use failure::report::{Report, Sign};

/// Nothing is mapped below (`vm.mmap_min_addr`).
const LOWEST: u64 = 64 << 10;
/// Programs have no addresses from here on.
const HIGHEST: u64 = 1 << 47;

/// Which values leave this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Privacy {
    /// All that were seen.
    #[default]
    Full,
    /// Numbers that can be neither text nor addresses.
    Scalars,
    /// None.
    None,
}

impl FromStr for Privacy {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "full" => Ok(Self::Full),
            "scalars" => Ok(Self::Scalars),
            "none" => Ok(Self::None),
            _ => Err(()),
        }
    }
}

impl Privacy {
    /// What it is called in settings and in the protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Scalars => "scalars",
            Self::None => "none",
        }
    }

    /// Leaves in a run what may leave the host.
    pub fn apply(self, record: &mut RunRecord) {
        if let RunEnd::Failed(report) = &mut record.end {
            self.apply_to_report(report);
        }
        if self == Self::Full {
            return;
        }
        let RunRecord {
            hits,
            watched,
            modules,
            ..
        } = record;
        for hit in hits {
            let watched = watched.get(hit.location as usize);
            let width = watched.map_or(0, |watched| watched.width);
            let may = |value: &u64| self == Self::Scalars && is_scalar(*value, width, modules);
            hit.value = hit.value.filter(may);
            hit.before = hit.before.filter(may);
        }
        if self == Self::None {
            record.allocations = None;
        }
    }

    /// Leaves in a failure what may leave the host.
    pub fn apply_to_report(self, report: &mut Report) {
        if self == Self::Full {
            return;
        }
        report.message = None;
        report.sign = report.sign.take().filter(|sign| !matches!(sign, Sign::Output(_)));
        let near_null = |addr: &program::RunAddr| self == Self::Scalars && addr.0 < LOWEST;
        report.fault_address = report.fault_address.filter(near_null);
        for thread in &mut report.threads {
            thread.name = None;
        }
    }
}

fn is_scalar(value: u64, width: u32, modules: &[ModuleRecord]) -> bool {
    if !matches!(width, 2 | 4 | 8) {
        return false;
    }
    let is_mapped = |module: &ModuleRecord| (module.start.0..module.end.0).contains(&value);
    let is_address = width == 8 && (LOWEST..HIGHEST).contains(&value) || modules.iter().any(is_mapped);
    !is_address && !may_be_text(value)
}

fn may_be_text(value: u64) -> bool {
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r') || *byte >= 0xc2;
    // What follows the first byte of a character beyond ASCII.
    let goes_on = |byte: &u8| (0x80..0xc0).contains(byte);
    let bytes = value.to_le_bytes();
    let mut some = bytes.iter().filter(|byte| **byte != 0).peekable();
    let begins = some.peek().is_some();
    // A negative number is all ones in front: no text has these.
    let negative = bytes.contains(&0xff);
    begins && !negative && value >= 32 && some.all(|byte| is_text(byte) || goes_on(byte))
}

#[cfg(test)]
mod tests {
    use program::RunAddr;

    use super::*;

    fn leaves(value: u64, width: u32) -> bool {
        let module = ModuleRecord {
            path: "/bin/app".to_owned(),
            build_id: None,
            start: RunAddr(0x0040_0000),
            end: RunAddr(0x0040_8000),
            bias: 0,
            executable: true,
        };
        is_scalar(value, width, &[module])
    }

    #[test]
    fn numbers_leave() {
        for value in [0, 1, 2, 9, 10, 31, 127, 1000, 0xffff_ffff, 0xffff_fff0, 100_001] {
            assert!(leaves(value, 4), "{value:#x}");
        }
        for value in [0, 1, 17, 4096, u64::MAX, (-5_i64).cast_unsigned(), 1 << 60] {
            assert!(leaves(value, 8), "{value:#x}");
        }
        assert!(leaves(300, 2));
    }

    #[test]
    fn characters_and_parts_of_something_do_not() {
        for width in [0, 1, 3, 5, 6, 7, 16] {
            assert!(!leaves(1, width), "{width}");
        }
    }

    #[test]
    fn text_does_not() {
        for text in [
            "hunter2!", "pass", "ab", "ab\0\0", "a\0b\0", "Zürich", "日本", "x\ny",
        ] {
            let mut bytes = [0; 8];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            let value = u64::from_le_bytes(bytes);
            assert!(!leaves(value, 8), "{text:?} of eight");
            assert!(text.len() > 4 || !leaves(value, 4), "{text:?} of four");
        }
        // One character in a number is a character.
        assert!(!leaves(u64::from(b'A'), 4));
    }

    #[test]
    fn addresses_do_not() {
        for address in [0x5555_5555_4000, 0x7fff_ffff_e000, 0x7f00_0000_0000, 0x1_0000] {
            assert!(!leaves(address, 8), "{address:#x}");
        }
        assert!(!leaves(0x0040_1000, 4), "of a program that is not moved");
        assert!(leaves(0x0040_a005, 4), "beside it");
    }
}

//! Finding the debug information of a file: in it, beside it, or by its build-id.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};

use gimli::{EndianSlice, LittleEndian, LocationLists, Section as _, SectionId};
use object::read::elf::{ElfFile64, ElfSection64};
use object::{Object as _, ObjectSection as _};

use super::budget::Budget;
use super::near::NearSets;
use super::split::SplitUnits;
use super::units::{Dwarf, MainUnits, Reader};
use super::{DebugStatus, Sources};
use crate::addr::BuildId;
use crate::elf::{Elf, compressed};
use crate::files::{FileRequest, Files, Reading};

/// What even the smallest file may cost.
const SLACK: usize = 1 << 16;

pub(super) fn reader(bytes: &[u8]) -> Reader<'_> {
    EndianSlice::new(bytes, LittleEndian)
}

/// The sections of an ELF file by name. Debug files, split objects and packages are no programs, so
/// [`Elf`] does not take them.
pub(super) struct Sections<'a> {
    bytes: &'a [u8],
    elf: ElfFile64<'a, object::LittleEndian>,
}

impl<'a> Sections<'a> {
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        Some(Self {
            bytes,
            elf: ElfFile64::parse(bytes).ok()?,
        })
    }

    /// The content of a section, uncompressed. An object that was not linked has a section for each of its
    /// type units, all of one name: they are joined.
    pub fn data(&self, name: &str, files: &'a dyn Files) -> Option<&'a [u8]> {
        let mut same = self
            .elf
            .sections()
            .filter(|section| section.name_bytes() == Ok(name.as_bytes()));
        let first = same.next().or_else(|| self.elf.section_by_name(name))?;
        let data = uncompressed(&first, files)?;
        let rest: Vec<_> = same.filter_map(|section| uncompressed(&section, files)).collect();
        if rest.is_empty() {
            return Some(data);
        }
        let mut joined = data.to_vec();
        rest.iter().for_each(|more| joined.extend_from_slice(more));
        Some(files.keep(joined))
    }

    /// The sections of which a question needs the parts of one unit, and their headers.
    fn scattered(&self) -> impl Iterator<Item = &'a [u8]> {
        let names = [".debug_info", ".debug_line"].into_iter();
        names.filter_map(|name| self.elf.section_by_name(name)?.data().ok())
    }

    fn build_id(&self) -> Option<BuildId> {
        Some(BuildId(self.elf.build_id().ok()??.to_vec()))
    }

    fn has_debug_info(&self) -> bool {
        let filled = |name| {
            self.elf
                .section_by_name(name)
                .is_some_and(|section| section.size() > 0)
        };
        // A line table alone (assembly) is better than nothing, but a separate file may hold more.
        filled(".debug_info")
    }
}

fn uncompressed<'a>(
    section: &ElfSection64<'a, '_, object::LittleEndian>,
    files: &'a dyn Files,
) -> Option<&'a [u8]> {
    compressed::uncompressed(section.compressed_data().ok()?, files)
}

/// A file with debug information, and how it was found.
struct Found<'a> {
    sections: Sections<'a>,
    status: DebugStatus,
}

impl<'a> Sources<'a> {
    /// Finds the debug information of an ELF file. This reads headers only, except that compressed
    /// sections have to be uncompressed.
    #[must_use]
    pub fn load(elf: &Elf<'a>, files: &'a dyn Files) -> Self {
        let mut problems = Vec::new();
        let mut tried = Vec::new();
        let found = Sections::parse(elf.bytes())
            .and_then(|sections| find(sections, files, &mut tried, &mut problems));
        let mut images = vec![elf.bytes()];
        let separate = found.iter().filter(|found| found.status != DebugStatus::InFile);
        images.extend(separate.map(|found| found.sections.bytes));
        let scattered = found.iter().flat_map(|found| found.sections.scattered());
        scattered.for_each(|section| files.expect(section, Reading::Scattered));
        let (dwarf, status) = match found {
            Some(found) => (load_dwarf(&found.sections, files, &mut problems), found.status),
            None => (empty(), DebugStatus::Missing { tried }),
        };
        let size = |section: &Reader<'a>| section.len();
        let ranges =
            size(dwarf.ranges.debug_ranges().reader()) + size(dwarf.ranges.debug_rnglists().reader());
        let entries = size(dwarf.debug_info.reader());
        // Each list is read at most once for units and once for functions; an entry takes two bytes or more.
        let range_budget = Budget::new(SLACK + ranges + entries);
        let line_budget = Budget::new(SLACK + 4 * size(dwarf.debug_line.reader()));
        let entry_budget = Budget::new(SLACK + 8 * entries);
        let abbreviation_budget = Budget::new(SLACK + 4 * size(dwarf.debug_abbrev.reader()));
        Self {
            files,
            images,
            dwarf,
            status,
            problems: Mutex::new(problems),
            abbreviations: Mutex::default(),
            main: MainUnits::default(),
            types: OnceLock::new(),
            supplementary: OnceLock::new(),
            start: elf.entry(),
            near_sets: NearSets::default(),
            unit_ranges: OnceLock::new(),
            signatures: OnceLock::new(),
            split: SplitUnits::default(),
            package: OnceLock::new(),
            package_types: OnceLock::new(),
            globals: OnceLock::new(),
            data_symbols: OnceLock::new(),
            functions: None,
            function_symbols: OnceLock::new(),
            function_questions: AtomicU32::new(0),
            address_bases: OnceLock::new(),
            location_lists: OnceLock::new(),
            range_budget,
            line_budget,
            entry_budget,
            abbreviation_budget,
        }
    }
}

impl<'a> Sources<'a> {
    /// The location lists of the main units, uncompressed when first asked for.
    pub(super) fn location_lists(&self) -> &LocationLists<Reader<'a>> {
        self.location_lists.get_or_init(|| {
            let sections = self.images.last().and_then(|bytes| Sections::parse(bytes));
            let section = |id: SectionId| {
                let sections = sections.as_ref().filter(|_| self.has_information())?;
                sections.data(id.name(), self.files)
            };
            let [older, newer] = LATER.map(|id| section(id).unwrap_or_default());
            LocationLists::new(
                gimli::DebugLoc::new(older, LittleEndian),
                gimli::DebugLocLists::new(newer, LittleEndian),
            )
        })
    }

    fn has_information(&self) -> bool {
        !matches!(self.status, DebugStatus::Missing { .. })
    }
}

fn find<'a>(
    sections: Sections<'a>,
    files: &'a dyn Files,
    tried: &mut Vec<String>,
    problems: &mut Vec<String>,
) -> Option<Found<'a>> {
    if sections.has_debug_info() {
        return Some(Found {
            sections,
            status: DebugStatus::InFile,
        });
    }
    let build_id = sections.build_id();
    if let Some(build_id) = build_id.clone() {
        let request = FileRequest::DebugByBuildId(build_id.clone());
        match files.open(&request).map(Sections::parse) {
            Some(Some(debug)) if debug.build_id().as_ref() == Some(&build_id) && debug.has_debug_info() => {
                let how = format!("build-id {build_id}");
                return Some(Found {
                    sections: debug,
                    status: DebugStatus::Separate { how },
                });
            }
            Some(_) => problems.push(format!(
                "the debug file for build-id {build_id} is of another build"
            )),
            None => {}
        }
        tried.extend(files.tried(&request));
    }
    if let Ok(Some((name, crc))) = sections.elf.gnu_debuglink() {
        let name = String::from_utf8_lossy(name).into_owned();
        let request = FileRequest::DebugLink {
            name: name.clone(),
            crc,
        };
        if let Some(bytes) = files.open(&request) {
            match Sections::parse(bytes) {
                Some(debug) if debug.has_debug_info() && same_build(&debug, build_id.as_ref(), crc) => {
                    let how = format!("debug link {name}");
                    return Some(Found {
                        sections: debug,
                        status: DebugStatus::Separate { how },
                    });
                }
                _ => problems.push(format!("the debug file {name} is of another build")),
            }
        }
        tried.extend(files.tried(&request));
    }
    None
}

/// Equal build-ids are proof enough and cheap; without them the checksum has to be computed.
fn same_build(debug: &Sections<'_>, build_id: Option<&BuildId>, crc: u32) -> bool {
    match (debug.build_id(), build_id) {
        (Some(theirs), Some(ours)) => theirs == *ours,
        _ => crc32(debug.bytes) == crc,
    }
}

fn load_dwarf<'a>(sections: &Sections<'a>, files: &'a dyn Files, problems: &mut Vec<String>) -> Dwarf<'a> {
    let mut dwarf = dwarf_in(sections, files, &[UNUSED.as_slice(), &LATER].concat());
    if let Ok(Some((path, build_id))) = sections.elf.gnu_debugaltlink() {
        let path = String::from_utf8_lossy(path).into_owned();
        let build_id = BuildId(build_id.to_vec());
        let request = FileRequest::Supplementary {
            path: path.clone(),
            build_id: build_id.clone(),
        };
        match files.open(&request).map(Sections::parse) {
            Some(Some(sup)) if sup.build_id().is_none_or(|theirs| theirs == build_id) => {
                dwarf.sup = Some(Arc::new(dwarf_in(&sup, files, &UNUSED)));
            }
            Some(_) => problems.push(format!("the supplementary debug file {path} is of another build")),
            None => {
                let tried = files.tried(&request).join(", ");
                problems.push(format!(
                    "the supplementary debug file {path} was not found (tried {tried})"
                ));
            }
        }
    }
    dwarf
}

/// Sections that nothing here asks for.
const UNUSED: [SectionId; 3] = [
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugNames,
];

/// Sections that tell where variables are ([`Sources::location_lists`]). Nobody asks that of a library, and they are a
/// sixth of what would have to be uncompressed.
const LATER: [SectionId; 2] = [SectionId::DebugLoc, SectionId::DebugLocLists];

fn dwarf_in<'a>(sections: &Sections<'a>, files: &'a dyn Files, without: &[SectionId]) -> Dwarf<'a> {
    let load = |id: SectionId| -> Result<_, std::convert::Infallible> {
        let wanted = (!without.contains(&id)).then(|| sections.data(id.name(), files));
        Ok(reader(wanted.flatten().unwrap_or_default()))
    };
    match Dwarf::load(load) {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}

fn empty<'a>() -> Dwarf<'a> {
    match Dwarf::load(|_| Ok::<_, std::convert::Infallible>(reader(&[]))) {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}

/// The checksum of `.gnu_debuglink`: CRC-32 as in zlib, eight bits a step.
fn crc32(bytes: &[u8]) -> u32 {
    let mut table = [0u32; 256];
    for (index, slot) in (0u32..).zip(&mut table) {
        *slot = (0..8).fold(index, |crc, _| {
            if crc & 1 == 1 {
                0xedb8_8320 ^ (crc >> 1)
            } else {
                crc >> 1
            }
        });
    }
    let step = |crc: u32, byte: &u8| {
        let [low, ..] = (crc ^ u32::from(*byte)).to_le_bytes();
        table[usize::from(low)] ^ (crc >> 8)
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_the_one_of_zlib() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}

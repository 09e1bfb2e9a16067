//! Units: the headers of all of them, and the content of those that were asked for.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use elsa::sync::FrozenMap;
use gimli::{
    AttributeValue, DebugAbbrev, DebugInfoOffset, DebugLineOffset, DebuggingInformationEntry, EndianSlice,
    LittleEndian, Reader as _, Section as _, UnitHeader, UnitOffset, UnitType,
};

use super::Sources;
use super::budget::Budget;
use super::functions::UnitIndex;
use super::globals::Globals;
use super::lines::LineTable;
use super::passed::Passed;
use crate::addr::{LinkAddr, LinkRange};
use crate::files::Reading;

/// No header is longer.
const HEADER: usize = 64;

pub(super) type Reader<'a> = EndianSlice<'a, LittleEndian>;
pub(super) type Dwarf<'a> = gimli::Dwarf<Reader<'a>>;
pub(super) type Entry<'a> = DebuggingInformationEntry<Reader<'a>>;
pub(super) type Value<'a> = AttributeValue<Reader<'a>>;

/// One unit, by the place it was found in, and its offset or its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum UnitId {
    /// In `.debug_info` of the file that holds the debug information, by its offset: so that it is known without
    /// knowing those before it.
    Main(usize),
    /// In `.debug_types` of that file.
    Types(u32),
    /// In the file that `dwz` moved common parts to.
    Supplementary(u32),
    /// The split unit that belongs to a skeleton among the main ones.
    Split(usize),
    /// A type unit in the same split object.
    SplitType {
        /// The skeleton.
        of: usize,
        /// Which of the object's type units.
        nth: u32,
    },
    /// A type unit of the split package, by its row in the package's index.
    PackageType(u32),
}

/// One debugging information entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Die {
    pub unit: UnitId,
    pub offset: UnitOffset,
}

/// The last of the units in order that begins at or before an offset.
fn around<'h, 'a>(
    headers: &'h [UnitHeader<Reader<'a>>],
    offset: DebugInfoOffset,
) -> Option<(usize, &'h UnitHeader<Reader<'a>>)> {
    let after = headers.partition_point(|header| header.offset().0 <= offset.0);
    let index = after.checked_sub(1)?;
    Some((index, headers.get(index)?))
}

/// The headers of one section, and the units that were opened.
pub(super) struct UnitTable<'a> {
    pub headers: Vec<UnitHeader<Reader<'a>>>,
    opened: Vec<OnceLock<Option<Box<Unit<'a>>>>>,
}

impl<'a> UnitTable<'a> {
    pub fn new(headers: Vec<UnitHeader<Reader<'a>>>) -> Self {
        let opened = headers.iter().map(|_| OnceLock::new()).collect();
        Self { headers, opened }
    }

    /// The unit that holds an offset of the section.
    pub fn find(&self, offset: DebugInfoOffset) -> Option<(u32, UnitOffset)> {
        let (index, header) = around(&self.headers, offset)?;
        Some((u32::try_from(index).ok()?, offset.to_unit_offset(header)?))
    }

    pub fn get(
        &self,
        index: u32,
        open: impl FnOnce(UnitHeader<Reader<'a>>) -> Option<Unit<'a>>,
    ) -> Option<&Unit<'a>> {
        let index = usize::try_from(index).ok()?;
        let header = self.headers.get(index)?;
        self.opened
            .get(index)?
            .get_or_init(|| open(*header).map(Box::new))
            .as_deref()
    }
}

/// The units of `.debug_info`, by offset. One is opened without those before it; all are listed when somebody asks for
/// all of them.
#[derive(Default)]
pub(super) struct MainUnits<'a> {
    listed: OnceLock<Vec<UnitHeader<Reader<'a>>>>,
    opened: FrozenMap<usize, Box<OnceLock<Option<Box<Unit<'a>>>>>>,
}

/// A unit whose root entry was read. Lines and functions follow when asked for.
pub(super) struct Unit<'a> {
    pub id: UnitId,
    pub gimli: gimli::Unit<Reader<'a>>,
    /// A split unit brings the sections of its own object.
    pub own: Option<Box<Dwarf<'a>>>,
    pub line_offset: Option<DebugLineOffset>,
    pub dwo_name: Option<Value<'a>>,
    pub is_c: bool,
    pub is_rust: bool,
    pub lines: OnceLock<LineTable<'a>>,
    pub index: OnceLock<UnitIndex>,
    pub globals: OnceLock<Globals<'a>>,
    /// See `private`.
    pub code: OnceLock<Option<Arc<[LinkRange]>>>,
}

impl<'a> Unit<'a> {
    /// Reads the root entry. Unlike `gimli::Unit::new`, a broken line table does not make the unit
    /// unreadable.
    pub fn open(
        id: UnitId,
        dwarf: &Dwarf<'a>,
        header: UnitHeader<Reader<'a>>,
        abbreviations: Arc<gimli::Abbreviations>,
    ) -> gimli::Result<Self> {
        let encoding = header.encoding();
        let mut unit = gimli::Unit {
            abbreviations,
            name: None,
            comp_dir: None,
            low_pc: 0,
            str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(
                encoding,
                dwarf.file_type,
            ),
            addr_base: gimli::DebugAddrBase(0),
            loclists_base: gimli::DebugLocListsBase::default_for_encoding_and_file(encoding, dwarf.file_type),
            rnglists_base: gimli::DebugRngListsBase::default_for_encoding_and_file(encoding, dwarf.file_type),
            line_program: None,
            dwo_id: match header.type_() {
                UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id),
                _ => None,
            },
            header,
        };
        let root = unit.entry(header.root_offset())?;
        let mut line_offset = None;
        let mut dwo_name = None;
        let (mut is_c, mut is_rust) = (false, false);
        // Bases first: the other attributes may be indices that need them.
        for attr in root.attrs() {
            match (attr.name(), attr.value()) {
                (_, AttributeValue::DebugStrOffsetsBase(base)) => unit.str_offsets_base = base,
                (_, AttributeValue::DebugAddrBase(base)) => unit.addr_base = base,
                (_, AttributeValue::DebugLocListsBase(base)) => unit.loclists_base = base,
                (_, AttributeValue::DebugRngListsBase(base)) => unit.rnglists_base = base,
                (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => line_offset = Some(offset),
                (gimli::DW_AT_GNU_dwo_id, AttributeValue::DwoId(id)) => {
                    unit.dwo_id = unit.dwo_id.or(Some(id))
                }
                (gimli::DW_AT_GNU_dwo_name | gimli::DW_AT_dwo_name, value) => dwo_name = Some(value),
                (_, AttributeValue::Language(language)) => {
                    (is_c, is_rust) = (is_plain_c(language), language == gimli::DW_LANG_Rust);
                }
                _ => {}
            }
        }
        let string = |unit: &_, name| {
            let value = root.attr_value(name)?;
            dwarf.attr_string(unit, value).ok()
        };
        unit.name = string(&unit, gimli::DW_AT_name);
        unit.comp_dir = string(&unit, gimli::DW_AT_comp_dir);
        if let Some(value) = root.attr_value(gimli::DW_AT_low_pc) {
            unit.low_pc = dwarf.attr_address(&unit, value).ok().flatten().unwrap_or(0);
        }
        Ok(Self {
            id,
            gimli: unit,
            own: None,
            line_offset,
            dwo_name,
            is_c,
            is_rust,
            lines: OnceLock::new(),
            index: OnceLock::new(),
            globals: OnceLock::new(),
            code: OnceLock::new(),
        })
    }

    pub fn entry(&self, offset: UnitOffset) -> Option<Entry<'a>> {
        self.gimli.entry(offset).ok()
    }
}

fn is_plain_c(language: gimli::DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_C | gimli::DW_LANG_C89 | gimli::DW_LANG_C99 | gimli::DW_LANG_C11 | gimli::DW_LANG_C17
    )
}

impl<'a> Sources<'a> {
    /// The headers of all units of `.debug_info`.
    pub(super) fn main_units(&self) -> &[UnitHeader<Reader<'a>>] {
        self.main.listed.get_or_init(|| {
            self.bring_headers();
            self.headers(&self.dwarf, ".debug_info")
        })
    }

    /// The offsets of all units of `.debug_info`.
    pub(super) fn main_offsets(&self) -> Vec<usize> {
        let headers = self.main_units().iter();
        headers.map(|header| header.offset().0).collect()
    }

    /// The unit of `.debug_info` that holds an offset of it.
    pub(super) fn main_around(&self, offset: DebugInfoOffset) -> Option<(usize, UnitOffset)> {
        let header = around(self.main_units(), offset)?.1;
        Some((header.offset().0, offset.to_unit_offset(header)?))
    }

    /// The header of the unit at an offset that is one's.
    pub(super) fn main_header(&self, at: usize) -> Option<UnitHeader<Reader<'a>>> {
        match self.main.listed.get() {
            Some(listed) => {
                let index = listed.binary_search_by_key(&at, |header| header.offset().0);
                listed.get(index.ok()?).copied()
            }
            None => self.dwarf.debug_info.header_from_offset(DebugInfoOffset(at)).ok(),
        }
    }

    /// Has the headers of all units brought in at once, where a table tells where they are. Each says where the
    /// next one is, a page from the disk for every one of them, one after the other.
    fn bring_headers(&self) {
        let info = self.dwarf.debug_info.reader().slice();
        let table = self.dwarf.debug_aranges.reader().slice();
        self.files.expect(table, Reading::Through);
        let mut sets = self.dwarf.debug_aranges.headers();
        while let Ok(Some(set)) = sets.next() {
            let header = info.get(set.debug_info_offset().0..).unwrap_or_default();
            self.files
                .expect(header.get(..HEADER).unwrap_or(header), Reading::Through);
        }
    }

    pub(super) fn type_units(&self) -> &UnitTable<'a> {
        self.types.get_or_init(|| {
            let mut units = self.dwarf.type_units();
            let mut headers = Vec::new();
            while let Ok(Some(header)) = units.next() {
                headers.push(header);
            }
            UnitTable::new(headers)
        })
    }

    fn supplementary_units(&self) -> &UnitTable<'a> {
        self.supplementary.get_or_init(|| {
            let headers = self
                .dwarf
                .sup()
                .map(|sup| self.headers(sup, "supplementary .debug_info"));
            UnitTable::new(headers.unwrap_or_default())
        })
    }

    fn headers(&self, dwarf: &Dwarf<'a>, section: &str) -> Vec<UnitHeader<Reader<'a>>> {
        let mut headers = Vec::new();
        let mut units = dwarf.units();
        let mut passed = Passed::new(self.files, dwarf.debug_info.reader().slice());
        loop {
            match units.next() {
                Ok(Some(header)) => {
                    passed.up_to(header.offset().0);
                    headers.push(header);
                }
                Ok(None) => return headers,
                Err(error) => {
                    self.problem(format!(
                        "{section}: unit {} cannot be read: {error}",
                        headers.len()
                    ));
                    return headers;
                }
            }
        }
    }

    /// Opens a unit, once.
    pub(super) fn unit(&self, id: UnitId) -> Option<&Unit<'a>> {
        match id {
            UnitId::Main(at) => {
                let slot = self.main.opened.get(&at);
                let slot = slot.unwrap_or_else(|| self.main.opened.insert(at, Box::default()));
                let open = || self.open(id, &self.dwarf, self.main_header(at)?).map(Box::new);
                slot.get_or_init(open).as_deref()
            }
            UnitId::Types(index) => self
                .type_units()
                .get(index, |header| self.open(id, &self.dwarf, header)),
            UnitId::Supplementary(index) => {
                let dwarf = self.dwarf.sup()?;
                self.supplementary_units()
                    .get(index, |header| self.open(id, dwarf, header))
            }
            UnitId::Split(of) => self.split_unit(of),
            UnitId::SplitType { of, nth } => self.split_type(of, nth),
            UnitId::PackageType(row) => self.package_type(row),
        }
    }

    pub(super) fn open(
        &self,
        id: UnitId,
        dwarf: &Dwarf<'a>,
        header: UnitHeader<Reader<'a>>,
    ) -> Option<Unit<'a>> {
        let unit = self
            .abbreviations(id, dwarf, &header)
            .and_then(|abbreviations| Unit::open(id, dwarf, header, abbreviations));
        match unit {
            Ok(unit) => Some(unit),
            Err(error) => {
                self.problem(format!(
                    "unit at {:#x} cannot be read: {error}",
                    header.offset().0
                ));
                None
            }
        }
    }

    /// Link-time optimisation and `dwz` let many units share one table: parse it once.
    fn abbreviations(
        &self,
        id: UnitId,
        dwarf: &Dwarf<'a>,
        header: &UnitHeader<Reader<'a>>,
    ) -> gimli::Result<Arc<gimli::Abbreviations>> {
        let supplementary = match id {
            UnitId::Main(_) | UnitId::Types(_) => false,
            UnitId::Supplementary(_) => true,
            _ => return dwarf.abbreviations(header),
        };
        let key = (supplementary, header.debug_abbrev_offset().0);
        if let Ok(cache) = self.abbreviations.lock()
            && let Some(known) = cache.get(&key)
        {
            return Ok(Arc::clone(known));
        }
        let parsed = self.parse_abbreviations(dwarf, header)?;
        if let Ok(mut cache) = self.abbreviations.lock() {
            cache.insert(key, Arc::clone(&parsed));
        }
        Ok(parsed)
    }

    /// A table is as long as it is, whatever else the section has. What all of them are together is bounded, though a
    /// hostile file has units refer to any place of one that has no end.
    fn parse_abbreviations(
        &self,
        dwarf: &Dwarf<'a>,
        header: &UnitHeader<Reader<'a>>,
    ) -> gimli::Result<Arc<gimli::Abbreviations>> {
        let start = header.debug_abbrev_offset().0;
        let section = dwarf.debug_abbrev.reader().slice();
        let mut rest = EndianSlice::new(section.get(start..).unwrap_or_default(), LittleEndian);
        loop {
            let before = rest.len();
            let last = skip_abbreviation(&mut rest)?;
            if !self.abbreviation_budget.spend(before - rest.len()) {
                return Err(gimli::Error::TooManyIterations);
            }
            if last {
                return dwarf.abbreviations(header);
            }
        }
    }

    /// A main unit of which only the root entry can be read, without parsing the whole abbreviation table:
    /// the root's abbreviation is the first one in what every known compiler writes.
    pub(super) fn root_unit(&self, header: &UnitHeader<Reader<'a>>) -> Option<Unit<'a>> {
        let id = UnitId::Main(header.offset().0);
        let table = self.dwarf.debug_abbrev.reader().slice();
        let first = table
            .get(header.debug_abbrev_offset().0..)
            .and_then(first_abbreviation)
            .and_then(|bytes| {
                DebugAbbrev::new(&bytes, LittleEndian)
                    .abbreviations(gimli::DebugAbbrevOffset(0))
                    .ok()
            });
        let quick = first.and_then(|first| Unit::open(id, &self.dwarf, *header, Arc::new(first)).ok());
        quick.or_else(|| self.open(id, &self.dwarf, *header))
    }

    /// Header and entries of a unit of the file itself.
    pub(super) fn bytes_of(&self, unit: &Unit<'a>) -> &'a [u8] {
        let header = &unit.gimli.header;
        let section = self.dwarf_of(unit).debug_info.reader().slice();
        let start = header.offset().0;
        let end = start.saturating_add(header.length_including_self());
        section.get(start..end).unwrap_or_default()
    }

    /// The sections that a unit's forms refer to.
    pub(super) fn dwarf_of<'s>(&'s self, unit: &'s Unit<'a>) -> &'s Dwarf<'a> {
        match unit.id {
            UnitId::Supplementary(_) => self.dwarf.sup().unwrap_or(&self.dwarf),
            _ => unit.own.as_deref().unwrap_or(&self.dwarf),
        }
    }

    /// The entry that an attribute refers to.
    pub(super) fn follow(&self, from: UnitId, value: &Value<'a>) -> Option<Die> {
        match *value {
            AttributeValue::UnitRef(offset) => Some(Die { unit: from, offset }),
            AttributeValue::DebugInfoRef(offset) => match from {
                UnitId::Main(_) | UnitId::Types(_) => {
                    let (at, offset) = self.main_around(offset)?;
                    Some(Die {
                        unit: UnitId::Main(at),
                        offset,
                    })
                }
                UnitId::Supplementary(_) => self.in_supplementary(offset),
                UnitId::Split(_) | UnitId::SplitType { .. } | UnitId::PackageType(_) => {
                    let offset = offset.to_unit_offset(&self.unit(from)?.gimli.header)?;
                    Some(Die { unit: from, offset })
                }
            },
            AttributeValue::DebugInfoRefSup(offset) => self.in_supplementary(offset),
            AttributeValue::DebugTypesRef(signature) => self.type_by_signature(from, signature),
            _ => None,
        }
    }

    fn in_supplementary(&self, offset: DebugInfoOffset) -> Option<Die> {
        let (index, offset) = self.supplementary_units().find(offset)?;
        Some(Die {
            unit: UnitId::Supplementary(index),
            offset,
        })
    }

    pub(super) fn entry(&self, die: Die) -> Option<(&Unit<'a>, Entry<'a>)> {
        let unit = self.unit(die.unit)?;
        Some((unit, unit.entry(die.offset)?))
    }

    pub(super) fn text(&self, unit: &Unit<'a>, value: Value<'a>) -> Option<Cow<'a, str>> {
        let reader = self.dwarf_of(unit).attr_string(&unit.gimli, value).ok()?;
        Some(reader.to_string_lossy())
    }

    /// The address ranges of an entry. Ranges that the linker threw away (address 0 or the tombstones of
    /// newer linkers) are left out.
    pub(super) fn ranges_of(&self, unit: &Unit<'a>, entry: &Entry<'a>) -> Vec<LinkRange> {
        entry_ranges(self.dwarf_of(unit), &unit.gimli, entry, &self.range_budget)
    }
}

fn entry_ranges<'a>(
    dwarf: &Dwarf<'a>,
    unit: &gimli::Unit<Reader<'a>>,
    entry: &Entry<'a>,
    budget: &Budget,
) -> Vec<LinkRange> {
    if let Some(value) = entry.attr_value(gimli::DW_AT_ranges)
        && let Ok(Some(mut list)) = dwarf.attr_ranges(unit, value)
    {
        let mut ranges = Vec::new();
        while let Ok(Some(range)) = list.next()
            && budget.spend(1)
        {
            push_range(&mut ranges, range.begin, range.end);
        }
        return ranges;
    }
    let mut ranges = Vec::new();
    let low = entry.attr_value(gimli::DW_AT_low_pc);
    let low = low.and_then(|value| dwarf.attr_address(unit, value).ok().flatten());
    if let (Some(low), Some(high)) = (low, entry.attr_value(gimli::DW_AT_high_pc)) {
        let high = match high {
            AttributeValue::Udata(size) => low.checked_add(size),
            value => dwarf.attr_address(unit, value).ok().flatten(),
        };
        if let Some(high) = high
            && !unit.header.is_tombstone_address(low)
        {
            push_range(&mut ranges, low, high);
        }
    }
    ranges
}

fn push_range(ranges: &mut Vec<LinkRange>, begin: u64, end: u64) {
    if begin != 0 && begin < end {
        ranges.push(LinkAddr(begin)..LinkAddr(end));
    }
}

/// The bytes of the first abbreviation of a table, closed with the table's end mark.
fn first_abbreviation(table: &[u8]) -> Option<Vec<u8>> {
    let mut rest = EndianSlice::new(table, LittleEndian);
    skip_abbreviation(&mut rest).ok()?;
    let mut bytes = table.get(..table.len().checked_sub(rest.len())?)?.to_vec();
    bytes.push(0);
    Some(bytes)
}

/// Passes an abbreviation, or the mark at the end of the table: then it is `true`.
fn skip_abbreviation(rest: &mut Reader<'_>) -> gimli::Result<bool> {
    if rest.read_uleb128()? == 0 {
        return Ok(true);
    }
    rest.read_uleb128()?;
    rest.read_u8()?;
    loop {
        let name = rest.read_uleb128()?;
        let form = rest.read_uleb128()?;
        if form == u64::from(gimli::DW_FORM_implicit_const.0) {
            rest.read_sleb128()?;
        }
        if name == 0 && form == 0 {
            return Ok(false);
        }
    }
}

//! Line tables: one unit's program, run when first asked for.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use gimli::{ColumnType, LineProgramHeader};

use super::units::{Dwarf, Reader, Unit, UnitId};
use super::{LineRow, Sources, paths};
use crate::addr::{LinkAddr, LinkRange};
use crate::files::Reading;

/// Longer than any file system takes; what is longer is not a path.
const LONGEST_PIECE: usize = 4096;

/// The rows of one line program, and its files.
#[derive(Default)]
pub(super) struct LineTable<'a> {
    sequences: Vec<Sequence>,
    rows: Vec<Row>,
    files: Option<FileTable<'a>>,
}

/// Contiguous code: the linker places each sequence on its own.
struct Sequence {
    range: LinkRange,
    rows: std::ops::Range<usize>,
}

/// One row. It ends where the next row of its sequence with a greater address begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub addr: LinkAddr,
    pub file: u32,
    pub line: u32,
    pub column: u16,
    pub is_stmt: bool,
    pub prologue_end: bool,
}

/// The files that a line program names, rendered when asked for.
pub(super) struct FileTable<'a> {
    header: LineProgramHeader<Reader<'a>>,
    comp_dir: Option<Reader<'a>>,
    rendered: Vec<OnceLock<Arc<str>>>,
}

impl<'a> FileTable<'a> {
    pub fn new(header: LineProgramHeader<Reader<'a>>, comp_dir: Option<Reader<'a>>) -> Self {
        // Numbered from 1 until version 4, from 0 since.
        let rendered = (0..=header.file_names().len()).map(|_| OnceLock::new()).collect();
        Self {
            header,
            comp_dir,
            rendered,
        }
    }

    pub fn path(&self, dwarf: &Dwarf<'a>, unit: &gimli::Unit<Reader<'a>>, file: u64) -> Option<Arc<str>> {
        let slot = self.rendered.get(usize::try_from(file).ok()?)?;
        let entry = self.header.file(file)?;
        let path = slot.get_or_init(|| {
            let piece = |value| {
                let reader = dwarf.attr_string(unit, value).ok()?;
                (reader.len() <= LONGEST_PIECE).then(|| reader.to_string_lossy())
            };
            let name = piece(entry.path_name()).unwrap_or(Cow::Borrowed("?"));
            let directory = entry.directory(&self.header).and_then(piece);
            let comp_dir = self
                .comp_dir
                .filter(|dir| dir.len() <= LONGEST_PIECE)
                .map(|dir| dir.to_string_lossy());
            paths::join([comp_dir, directory, Some(name)].into_iter().flatten()).into()
        });
        Some(Arc::clone(path))
    }

    /// The MD5 of a file's content as it was compiled, where the compiler said it.
    fn md5(&self, file: u64) -> Option<[u8; 16]> {
        let entry = self.header.file(file).filter(|_| self.header.file_has_md5())?;
        // Whoever has none for one file writes nothing into its place.
        Some(*entry.md5()).filter(|md5| *md5 != [0; 16])
    }

    /// The numbers of the files whose last component is `base`, without rendering the others.
    pub fn with_base_name(&self, dwarf: &Dwarf<'a>, unit: &gimli::Unit<Reader<'a>>, base: &str) -> Vec<u64> {
        let first = u64::from(self.header.version() <= 4);
        let names = self.header.file_names().iter().map(|entry| entry.path_name());
        let matching = (first..).zip(names).filter(|(_, name)| {
            let Ok(name) = dwarf.attr_string(unit, *name) else {
                return false;
            };
            let last = name.slice().rsplit(|byte| *byte == b'/').next();
            last == Some(base.as_bytes())
        });
        matching.map(|(file, _)| file).collect()
    }

    /// All file numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let first = u64::from(self.header.version() <= 4);
        (first..).zip(self.header.file_names()).map(|(file, _)| file)
    }
}

impl<'a> LineTable<'a> {
    fn run(
        program: gimli::IncompleteLineProgram<Reader<'a>>,
        comp_dir: Option<Reader<'a>>,
    ) -> (Self, Option<gimli::Error>) {
        let mut table = Self::default();
        let mut rows = program.rows();
        let mut begin = 0;
        let mut failure = None;
        loop {
            let row = match rows.next_row() {
                Ok(Some((_, row))) => row,
                Ok(None) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            let addr = LinkAddr(row.address());
            if row.end_sequence() {
                if let Some(first) = table.rows.get(begin)
                    && first.addr.0 != 0
                    && first.addr < addr
                {
                    table.sequences.push(Sequence {
                        range: first.addr..addr,
                        rows: begin..table.rows.len(),
                    });
                    begin = table.rows.len();
                } else {
                    table.rows.truncate(begin);
                }
                continue;
            }
            table.rows.push(Row {
                addr,
                file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
                line: row
                    .line()
                    .map_or(0, |line| u32::try_from(line.get()).unwrap_or(0)),
                column: match row.column() {
                    ColumnType::LeftEdge => 0,
                    ColumnType::Column(column) => u16::try_from(column.get()).unwrap_or(0),
                },
                is_stmt: row.is_stmt(),
                prologue_end: row.prologue_end(),
            });
        }
        table.rows.truncate(begin);
        table.rows.shrink_to_fit();
        table.sequences.sort_by_key(|sequence| sequence.range.start);
        table.files = Some(FileTable::new(rows.header().clone(), comp_dir));
        (table, failure)
    }

    pub fn files(&self) -> Option<&FileTable<'a>> {
        self.files.as_ref()
    }

    /// The row that covers an address: the last one that starts at or before it.
    pub fn row_at(&self, addr: LinkAddr) -> Option<&Row> {
        let after = self
            .sequences
            .partition_point(|sequence| sequence.range.start <= addr);
        let sequence = self.sequences.get(after.checked_sub(1)?)?;
        if sequence.range.end <= addr {
            return None;
        }
        let rows = self.rows.get(sequence.rows.clone())?;
        rows.get(rows.partition_point(|row| row.addr <= addr).checked_sub(1)?)
    }

    /// The rows that overlap a range, each with its own range up to the next greater address, and whether a
    /// later row at the same address hides it.
    pub fn rows_in(&self, wanted: LinkRange) -> impl Iterator<Item = (LinkRange, &Row, bool)> {
        let first = self
            .sequences
            .partition_point(|sequence| sequence.range.start <= wanted.start);
        let sequences = self.sequences.get(first.saturating_sub(1)..).unwrap_or_default();
        sequences
            .iter()
            .take_while(move |sequence| sequence.range.start < wanted.end)
            .flat_map(move |sequence| self.rows_of(sequence, wanted.clone()))
    }

    fn rows_of(
        &self,
        sequence: &Sequence,
        wanted: LinkRange,
    ) -> impl Iterator<Item = (LinkRange, &Row, bool)> {
        let end = sequence.range.end;
        let rows = self.rows.get(sequence.rows.clone()).unwrap_or_default();
        let covering = rows.partition_point(|row| row.addr <= wanted.start);
        let start = covering
            .checked_sub(1)
            .and_then(|last| rows.get(last))
            .map(|row| row.addr);
        let skipped = start.map_or(0, |start| rows.partition_point(|row| row.addr < start));
        let rows = rows.get(skipped..).unwrap_or_default();
        let mut passed = 0;
        let groups = rows
            .chunk_by(|left, right| left.addr == right.addr)
            .map(move |group| {
                passed += group.len();
                (group, rows.get(passed).map_or(end, |next| next.addr))
            });
        groups
            .take_while(move |(group, _)| group.first().is_some_and(|row| row.addr < wanted.end))
            // A row at the very end of a sequence has no code.
            .filter(move |(group, end)| {
                *end > wanted.start && group.first().is_some_and(|row| row.addr < *end)
            })
            .flat_map(|(group, end)| {
                let shown = group.len() - 1;
                let rows = group.iter().enumerate();
                rows.map(move |(number, row)| (row.addr..end, row, number != shown))
            })
    }
}

impl<'a> Sources<'a> {
    /// Line and column of the function that is entered at an address: the first row there. An optimised function
    /// may begin with a statement, whose row comes after and hides it.
    #[must_use]
    pub fn opening_of(&self, entry: LinkAddr) -> Option<(u32, u16)> {
        let (unit, _) = self.find_function(entry)?;
        let (_, table) = self.lines_of(unit)?;
        let mut rows = table.rows_in(entry..entry.offset(1));
        rows.find(|(range, ..)| range.start == entry)
            .map(|(_, row, _)| (row.line, row.column))
    }

    /// The line table of a unit; a split unit uses its skeleton's.
    pub(super) fn lines_of(&self, unit: &Unit<'a>) -> Option<(&Unit<'a>, &LineTable<'a>)> {
        let unit = match unit.id {
            UnitId::Split(of) => self.unit(UnitId::Main(of))?,
            id => self.unit(id)?,
        };
        let table = unit.lines.get_or_init(|| {
            let Some(program) = self.line_program(unit) else {
                return LineTable::default();
            };
            if !self.line_budget.spend(program.header().unit_length()) {
                self.problem("line tables overlap: the rest is left out".to_owned());
                return LineTable::default();
            }
            let bytes = program.header().raw_program_buf().slice();
            self.files.expect(bytes, Reading::Through);
            let (table, failure) = LineTable::run(program, unit.gimli.comp_dir);
            if let Some(error) = failure {
                let name = unit
                    .gimli
                    .name
                    .map_or(Cow::Borrowed("?"), |name| name.to_string_lossy());
                self.problem(format!(
                    "the line table of {name} is corrupt and was read in part: {error}"
                ));
            }
            table
        });
        Some((unit, table))
    }

    pub(super) fn line_program(&self, unit: &Unit<'a>) -> Option<gimli::IncompleteLineProgram<Reader<'a>>> {
        let offset = unit.line_offset?;
        let (dwarf, unit) = (self.dwarf_of(unit), &unit.gimli);
        dwarf
            .debug_line
            .program(offset, unit.header.address_size(), unit.comp_dir, unit.name)
            .ok()
    }

    /// The path of a file by its number in a unit's line table.
    pub(super) fn file_path(&self, unit: &Unit<'a>, file: u64) -> Option<Arc<str>> {
        let (unit, table) = self.lines_of(unit)?;
        table.files()?.path(self.dwarf_of(unit), &unit.gimli, file)
    }

    /// The MD5 of the content that a source file had when the code at an address was compiled from it, where the compiler noted it
    /// (DWARF 5; clang and rustc do).
    #[must_use]
    pub fn md5_of(&self, file: &str, addr: LinkAddr) -> Option<[u8; 16]> {
        let units = self.units_overlapping(&(addr..addr.offset(1))).into_iter();
        let mut units = units.filter_map(|index| self.lines_of(self.unit(UnitId::Main(index))?));
        units.find_map(|(unit, table)| {
            let (files, dwarf) = (table.files()?, self.dwarf_of(unit));
            let named = files.with_base_name(dwarf, &unit.gimli, paths::base_name(file));
            let mut named = named.into_iter();
            let number =
                named.find(|&number| files.path(dwarf, &unit.gimli, number).as_deref() == Some(file))?;
            files.md5(number)
        })
    }

    /// The rows of the line tables that overlap a range, by address. Rows that another row at the same
    /// address hides are left out.
    #[must_use]
    pub fn line_rows(&self, wanted: &LinkRange) -> Vec<LineRow> {
        let mut found = Vec::new();
        for index in self.units_overlapping(wanted) {
            let Some(unit) = self.unit(UnitId::Main(index)) else {
                continue;
            };
            let Some((unit, table)) = self.lines_of(unit) else {
                continue;
            };
            for (range, row, hidden) in table.rows_in(wanted.clone()) {
                if !hidden {
                    found.push(self.public_row(unit, range, row));
                }
            }
        }
        found.sort_by_key(|row| (row.range.start, row.range.end, row.line));
        found.dedup();
        found
    }

    fn public_row(&self, unit: &Unit<'a>, range: LinkRange, row: &Row) -> LineRow {
        LineRow {
            range,
            file: self
                .file_path(unit, row.file.into())
                .unwrap_or_else(|| "?".into()),
            line: row.line,
            column: row.column,
            is_stmt: row.is_stmt,
            prologue_end: row.prologue_end,
        }
    }
}

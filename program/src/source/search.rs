//! From a file name and a line to addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use super::lines::FileTable;
use super::units::{Unit, UnitId};
use super::{LineError, LineMatch, LineMatches, Sources, paths};
use crate::addr::LinkAddr;

/// A message with more names than this helps nobody.
const MOST_SUGGESTIONS: usize = 8;

/// A unit whose line table names a wanted file.
struct Candidate {
    unit: UnitId,
    files: Vec<(u64, Arc<str>)>,
}

impl<'a> Sources<'a> {
    /// The code of a source line, in every unit, inlined copy and template instance.
    ///
    /// The file is matched by its last components: `main.c`, `src/main.c` or a whole path. Only the line
    /// tables that name the file are run.
    ///
    /// # Errors
    /// Says which file names are near, which files share the name, or which lines near it have code.
    pub fn addresses_of(&self, file: &str, line: u32) -> Result<LineMatches, LineError> {
        if matches!(self.status, super::DebugStatus::Missing { .. }) {
            return Err(LineError::NoDebugInformation);
        }
        let candidates = self.units_naming(file);
        if candidates.is_empty() {
            return Err(LineError::NoFile {
                file: file.to_owned(),
                similar: self.similar_files(file),
            });
        }
        let found: Vec<Found> = candidates
            .par_iter()
            .map(|candidate| self.search(candidate, line))
            .collect();
        let mut all = Found::default();
        for found in found {
            all.matches.extend(found.matches);
            all.hidden.extend(found.hidden);
            for (file, lines) in found.lines {
                let known = all.lines.entry(file).or_default();
                known.0 = known.0.max(lines.0);
                known.1 = known.1.min(lines.1);
            }
        }
        // A line whose every row is hidden behind another at the same address is still a place to stop.
        let mut matches = if all.matches.is_empty() {
            all.hidden
        } else {
            all.matches
        };
        if matches.is_empty() {
            // Optimised code may have nothing of a line but what was inlined there.
            let inlined = candidates
                .par_iter()
                .flat_map_iter(|candidate| self.inlined_on(candidate, line));
            matches = inlined.collect();
        }
        if matches.is_empty() {
            return Err(no_code(file, line, &candidates, &all.lines));
        }
        matches.sort_by(|a, b| {
            (a.range.start, a.range.end, &a.file).cmp(&(b.range.start, b.range.end, &b.file))
        });
        matches.dedup();
        let files: BTreeSet<Arc<str>> = matches.iter().map(|found| Arc::clone(&found.file)).collect();
        if files.len() > 1 && !whole_path(file) {
            let files = files.into_iter().collect();
            return Err(LineError::Ambiguous {
                file: file.to_owned(),
                files,
            });
        }
        Ok(LineMatches { matches })
    }

    fn units_naming(&self, file: &str) -> Vec<Candidate> {
        let base = paths::base_name(file);
        let units = self.units_with_lines();
        let candidates = units.into_par_iter().with_min_len(16).filter_map(|unit| {
            let program = self.line_program(&unit)?;
            let table = FileTable::new(program.header().clone(), unit.gimli.comp_dir);
            let dwarf = self.dwarf_of(&unit);
            let files = table
                .with_base_name(dwarf, &unit.gimli, base)
                .into_iter()
                .filter_map(|number| {
                    let path = table.path(dwarf, &unit.gimli, number)?;
                    paths::ends_with(&path, file).then_some((number, path))
                });
            let files: Vec<_> = files.collect();
            (!files.is_empty()).then_some(Candidate { unit: unit.id, files })
        });
        candidates.collect()
    }

    /// One unit for each line program, with nothing but its root entry read. Programs that overlap an
    /// earlier one are no programs.
    fn units_with_lines(&self) -> Vec<Unit<'a>> {
        let headers = self.main_units().par_iter().with_min_len(64);
        let units = headers.filter_map(|header| {
            let unit = self.root_unit(header)?;
            Some((unit.line_offset?.0, unit))
        });
        let mut units: Vec<_> = units.collect();
        units.sort_by_key(|(offset, unit)| (*offset, unit.id));
        let mut end = 0;
        units.retain(|(offset, unit)| {
            let Some(program) = (*offset >= end).then(|| self.line_program(unit)).flatten() else {
                return false;
            };
            end = offset.saturating_add(program.header().unit_length());
            true
        });
        units.into_iter().map(|(_, unit)| unit).collect()
    }

    fn search(&self, candidate: &Candidate, line: u32) -> Found {
        let mut found = Found::default();
        let Some((_, table)) = self.unit(candidate.unit).and_then(|unit| self.lines_of(unit)) else {
            return found;
        };
        for (range, row, hidden) in table.rows_in(LinkAddr(0)..LinkAddr(u64::MAX)) {
            let number = u64::from(row.file);
            let Some((_, path)) = candidate.files.iter().find(|(file, _)| *file == number) else {
                continue;
            };
            if row.line == line && line != 0 {
                let matched = LineMatch {
                    range,
                    file: Arc::clone(path),
                    is_stmt: row.is_stmt,
                };
                if !hidden {
                    found.matches.push(matched);
                } else if row.is_stmt {
                    found.hidden.push(matched);
                }
            } else if row.line != 0 {
                let lines = found.lines.entry(Arc::clone(path)).or_default();
                if row.line < line {
                    lines.0 = lines.0.max(Some(row.line));
                } else {
                    lines.1 = lines.1.min(row.line);
                }
            }
        }
        found
    }

    /// The code of calls on a line that were replaced by the callee's code.
    fn inlined_on(&self, candidate: &Candidate, line: u32) -> Vec<LineMatch> {
        let Some(unit) = self.unit(candidate.unit) else {
            return Vec::new();
        };
        // The entries of a skeleton unit are in its split unit, which has the same numbers for files.
        let unit = match candidate.unit {
            UnitId::Main(at) => self.code_unit(at).unwrap_or(unit),
            _ => unit,
        };
        let mut found = Vec::new();
        for function in &self.index_of(unit).functions {
            let body = self.body_of(unit, function);
            for (inlined, range) in body.inlined_ranges() {
                let of_file = candidate
                    .files
                    .iter()
                    .find(|(file, _)| *file == inlined.call_file);
                if let Some((_, path)) = of_file.filter(|_| inlined.call_line == line) {
                    found.push(LineMatch {
                        range: range.clone(),
                        file: Arc::clone(path),
                        is_stmt: true,
                    });
                }
            }
        }
        found
    }

    fn similar_files(&self, file: &str) -> Vec<Arc<str>> {
        let base = paths::base_name(file);
        let mut similar = BTreeSet::new();
        for unit in self.units_with_lines() {
            let Some(program) = self.line_program(&unit) else {
                continue;
            };
            let table = FileTable::new(program.header().clone(), unit.gimli.comp_dir);
            for number in table.numbers() {
                if let Some(path) = table.path(self.dwarf_of(&unit), &unit.gimli, number)
                    && paths::similar(paths::base_name(&path), base)
                {
                    similar.insert(path);
                    if similar.len() == MOST_SUGGESTIONS {
                        return similar.into_iter().collect();
                    }
                }
            }
        }
        similar.into_iter().collect()
    }
}

/// The nearest lines with code before and after the wanted one.
#[derive(Clone, Copy)]
struct Nearest(Option<u32>, u32);

impl Default for Nearest {
    fn default() -> Self {
        Self(None, u32::MAX)
    }
}

/// What one unit has to say about a line.
#[derive(Default)]
struct Found {
    matches: Vec<LineMatch>,
    hidden: Vec<LineMatch>,
    lines: BTreeMap<Arc<str>, Nearest>,
}

fn whole_path(file: &str) -> bool {
    file.starts_with('/')
}

fn no_code(
    file: &str,
    line: u32,
    candidates: &[Candidate],
    lines: &BTreeMap<Arc<str>, Nearest>,
) -> LineError {
    let mut nearest: Vec<u32> = lines
        .values()
        .flat_map(|nearest| {
            nearest
                .0
                .into_iter()
                .chain((nearest.1 != u32::MAX).then_some(nearest.1))
        })
        .collect();
    nearest.sort_unstable_by_key(|found| (found.abs_diff(line), *found));
    nearest.dedup();
    nearest.truncate(MOST_SUGGESTIONS);
    nearest.sort_unstable();
    let path = candidates
        .iter()
        .flat_map(|candidate| &candidate.files)
        .map(|(_, path)| Arc::clone(path))
        .min();
    LineError::NoCode {
        file: path.unwrap_or_else(|| file.into()),
        line,
        nearest,
    }
}

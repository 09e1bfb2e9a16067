//! Split DWARF: units whose content is in a `.dwo` object or a `.dwp` package.

use std::collections::HashMap;
use std::sync::OnceLock;

use elsa::sync::FrozenMap;
use gimli::{DebugTypeSignature, Section as _, UnitHeader, UnitType};

use super::Sources;
use super::load::{Sections, reader};
use super::units::{Die, Dwarf, Reader, Unit, UnitId, UnitTable};
use crate::files::FileRequest;

pub(super) type Package<'a> = gimli::DwarfPackage<Reader<'a>>;

/// The split units that were asked for, by the offset of their skeleton.
pub(super) type SplitUnits<'a> = FrozenMap<usize, Box<OnceLock<Option<Box<SplitUnit<'a>>>>>>;

/// What a skeleton unit stands for.
pub(super) struct SplitUnit<'a> {
    unit: Unit<'a>,
    /// The type units of the same object. A package has one index for all of them instead.
    types: UnitTable<'a>,
}

impl<'a> Sources<'a> {
    /// The split unit of a main unit, if that is a skeleton and the object was found.
    pub(super) fn split_unit(&self, of: usize) -> Option<&Unit<'a>> {
        self.split(of).map(|split| &split.unit)
    }

    fn split(&self, of: usize) -> Option<&SplitUnit<'a>> {
        let slot = self.split.get(&of);
        let slot = slot.unwrap_or_else(|| self.split.insert(of, Box::default()));
        slot.get_or_init(|| self.load_split(of).map(Box::new)).as_deref()
    }

    fn load_split(&self, of: usize) -> Option<SplitUnit<'a>> {
        let skeleton = self.unit(UnitId::Main(of))?;
        let id = skeleton.gimli.dwo_id?;
        let name = skeleton.dwo_name?;
        if let Some(package) = self.package()
            && let Ok(Some(dwarf)) = package.find_cu(id, &self.dwarf)
        {
            return self.split_in(of, skeleton, dwarf);
        }
        let request = FileRequest::SplitObject {
            path: self.text(skeleton, name)?.into_owned(),
            comp_dir: skeleton
                .gimli
                .comp_dir
                .map(|dir| dir.to_string_lossy().into_owned()),
        };
        let Some(bytes) = self.files.open(&request) else {
            let tried = self.files.tried(&request).join(", ");
            self.problem(format!(
                "the split debug object of a unit was not found (tried {tried})"
            ));
            return None;
        };
        let Some(sections) = Sections::parse(bytes) else {
            self.problem("a split debug object is not an ELF file of this kind".to_owned());
            return None;
        };
        let mut dwarf = Dwarf::load(|id| {
            let name = id.dwo_name().unwrap_or_default();
            Ok::<_, gimli::Error>(reader(sections.data(name, self.files).unwrap_or_default()))
        })
        .ok()?;
        dwarf.make_dwo(&self.dwarf);
        self.split_in(of, skeleton, dwarf)
    }

    /// Finds the unit with the skeleton's id among the units of a split object.
    fn split_in(&self, of: usize, skeleton: &Unit<'a>, dwarf: Dwarf<'a>) -> Option<SplitUnit<'a>> {
        let mut types = Vec::new();
        let mut found = None;
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            if matches!(header.type_(), UnitType::Type { .. } | UnitType::SplitType { .. }) {
                types.push(header);
            } else if found.is_none() {
                let unit = self.open(UnitId::Split(of), &dwarf, header);
                found = unit.filter(|unit| unit.gimli.dwo_id == skeleton.gimli.dwo_id);
            }
        }
        let mut type_units = dwarf.type_units();
        while let Ok(Some(header)) = type_units.next() {
            types.push(header);
        }
        let Some(mut unit) = found else {
            self.problem("a split debug object belongs to another build and was left out".to_owned());
            return None;
        };
        self.range_budget
            .extend(dwarf.ranges.debug_rnglists().reader().len());
        self.entry_budget.extend(8 * dwarf.debug_info.reader().len());
        unit.gimli.copy_relocated_attributes(&skeleton.gimli);
        unit.own = Some(Box::new(dwarf));
        Some(SplitUnit {
            unit,
            types: UnitTable::new(types),
        })
    }

    fn package(&self) -> Option<&Package<'a>> {
        let package = self.package.get_or_init(|| {
            let bytes = self.files.open(&FileRequest::SplitPackage)?;
            let sections = Sections::parse(bytes);
            let package = sections.and_then(|sections| {
                let load = |id: gimli::SectionId| {
                    let name = id.dwo_name().unwrap_or_default();
                    Ok::<_, gimli::Error>(reader(sections.data(name, self.files).unwrap_or_default()))
                };
                Package::load(load, reader(&[])).ok()
            });
            if package.is_none() {
                self.problem("the package of split debug objects (.dwp) cannot be read".to_owned());
            }
            package.map(Box::new)
        });
        package.as_deref()
    }

    pub(super) fn split_type(&self, of: usize, nth: u32) -> Option<&Unit<'a>> {
        let split = self.split(of)?;
        let dwarf = split.unit.own.as_deref()?;
        split.types.get(nth, |header| {
            self.open_split_type(UnitId::SplitType { of, nth }, dwarf, header)
        })
    }

    pub(super) fn package_type(&self, row: u32) -> Option<&Unit<'a>> {
        let package = self.package()?;
        let slots = self.package_types.get_or_init(|| {
            // Each row takes bytes of the index, so this is no larger than the file.
            (0..package.tu_index.unit_count())
                .map(|_| OnceLock::new())
                .collect()
        });
        let slot = slots.get(usize::try_from(row.checked_sub(1)?).ok()?)?;
        let unit = slot.get_or_init(|| {
            let dwarf = package.tu_sections(row, &self.dwarf).ok()?;
            let header = match dwarf.units().next() {
                Ok(Some(header)) => Some(header),
                _ => dwarf.type_units().next().ok().flatten(),
            };
            self.open_split_type(UnitId::PackageType(row), &dwarf, header?)
                .map(Box::new)
        });
        unit.as_deref()
    }

    fn open_split_type(
        &self,
        id: UnitId,
        dwarf: &Dwarf<'a>,
        header: UnitHeader<Reader<'a>>,
    ) -> Option<Unit<'a>> {
        let mut unit = self.open(id, dwarf, header)?;
        let mut own = Dwarf::load(|_| Ok::<_, gimli::Error>(reader(&[]))).ok()?;
        own.debug_abbrev = dwarf.debug_abbrev;
        own.debug_info = dwarf.debug_info;
        own.debug_types = dwarf.debug_types;
        own.debug_str = dwarf.debug_str;
        own.debug_str_offsets = dwarf.debug_str_offsets;
        own.debug_line = dwarf.debug_line;
        own.file_type = dwarf.file_type;
        unit.own = Some(Box::new(own));
        Some(unit)
    }

    /// The type that a signature stands for.
    pub(super) fn type_by_signature(&self, from: UnitId, signature: DebugTypeSignature) -> Option<Die> {
        match from {
            UnitId::Main(_) | UnitId::Types(_) | UnitId::Supplementary(_) => {
                self.signatures().get(&signature.0).copied()
            }
            UnitId::Split(of) | UnitId::SplitType { of, .. } => {
                let types = &self.split(of)?.types;
                let local = (0..).zip(&types.headers).find_map(|(nth, header)| {
                    signed(header, signature).map(|offset| Die {
                        unit: UnitId::SplitType { of, nth },
                        offset,
                    })
                });
                local.or_else(|| self.type_in_package(signature))
            }
            UnitId::PackageType(_) => self.type_in_package(signature),
        }
    }

    fn type_in_package(&self, signature: DebugTypeSignature) -> Option<Die> {
        let row = self.package()?.tu_index.find(signature.0)?;
        let unit = self.package_type(row)?;
        let offset = signed(&unit.gimli.header, signature)?;
        Some(Die {
            unit: UnitId::PackageType(row),
            offset,
        })
    }

    fn signatures(&self) -> &HashMap<u64, Die> {
        self.signatures.get_or_init(|| {
            let mut signatures = HashMap::new();
            let main = self.main_units().iter();
            let main = main.map(|header| (UnitId::Main(header.offset().0), header));
            let types = (0..)
                .zip(&self.type_units().headers)
                .map(|(index, header)| (UnitId::Types(index), header));
            for (unit, header) in main.chain(types) {
                if let UnitType::Type {
                    type_signature,
                    type_offset,
                } = header.type_()
                {
                    signatures.entry(type_signature.0).or_insert(Die {
                        unit,
                        offset: type_offset,
                    });
                }
            }
            signatures
        })
    }
}

fn signed(header: &UnitHeader<Reader<'_>>, wanted: DebugTypeSignature) -> Option<gimli::UnitOffset> {
    match header.type_() {
        UnitType::Type {
            type_signature,
            type_offset,
        }
        | UnitType::SplitType {
            type_signature,
            type_offset,
        } => (type_signature == wanted).then_some(type_offset),
        _ => None,
    }
}

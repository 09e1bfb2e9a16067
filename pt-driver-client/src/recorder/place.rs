//! The modules of the program in a process.

use std::path::{Path, PathBuf};

use program::{BuildId, FileOffset, LinkAddr, LinkRange, ModuleId, Program};
use tracee::perf::Mapping;
use tracee::process::{Module, ModuleMap};

use super::layout::{At, Layout};

/// Where the modules of a layout are in the process: what to add to a link-time address, if it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement(pub Vec<Option<u64>>);

impl Placement {
    /// The run-time address of a place.
    pub fn run(&self, at: At) -> u64 {
        let bias = self.0.get(at.module).copied().flatten();
        bias.unwrap_or_default().wrapping_add(at.addr)
    }

    /// The place in the ranges that a run-time address is.
    pub fn find(&self, layout: &Layout, addr: u64) -> Option<At> {
        let mut biases = self.0.iter().enumerate();
        biases.find_map(|(module, bias)| {
            let addr = addr.wrapping_sub((*bias)?);
            layout.modules.get(module)?.pieces.at(addr)?;
            Some(At { module, addr })
        })
    }
}

/// What is needed to find a module of the program among those of a process.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub module: ModuleId,
    name: PathBuf,
    pub build_id: Option<BuildId>,
    code: Vec<(LinkRange, FileOffset)>,
}

impl Known {
    pub fn of(program: &Program<'_>, module: ModuleId) -> Option<Self> {
        let file = program.module(module)?;
        let segments = file.elf().segments();
        let code = segments.executable().into_iter();
        let code = code.filter_map(|range| Some((range.clone(), segments.to_file_offset(range.start)?)));
        Some(Self {
            module,
            name: PathBuf::from(file.name()),
            build_id: file.elf().build_id(),
            code: code.collect(),
        })
    }

    /// Where in the file an instruction is.
    pub fn offset(&self, addr: u64) -> Option<FileOffset> {
        let addr = LinkAddr(addr);
        let (range, offset) = self.code.iter().find(|(range, _)| range.contains(&addr))?;
        Some(FileOffset(offset.0 + (addr.0 - range.start.0)))
    }

    /// The module in a process: by its build-id, or else by what it is and what it is called.
    pub fn find<'m>(&self, map: &'m ModuleMap) -> Option<&'m Module> {
        let same_id = |module: &Module| match (&self.build_id, &module.mapped.build_id) {
            (Some(known), Some(found)) => Some(known == found),
            _ => None,
        };
        if let Some(module) = map.modules().iter().find(|module| same_id(module) == Some(true)) {
            return Some(module);
        }
        let candidate = |module: &&Module| same_id(module).is_none();
        if self.module == ModuleId(0) {
            return map.executable().filter(candidate);
        }
        let called = |module: &Module| Path::new(&module.mapped.path).file_name() == self.name.file_name();
        map.modules()
            .iter()
            .find(|module| candidate(module) && called(module))
    }

    /// What is added to its link-time addresses, if some of its code is what was mapped.
    pub fn bias_of(&self, mapping: &Mapping) -> Option<u64> {
        let is_other = match (&self.build_id, &mapping.build_id) {
            (Some(known), Some(found)) => known != found,
            _ => mapping.path.file_name() != self.name.file_name(),
        };
        let mapped = mapping.offset.0..mapping.offset.0.saturating_add(mapping.len);
        let (range, offset) = self.code.iter().find(|(range, offset)| {
            let end = offset.0.saturating_add(range.end.0.saturating_sub(range.start.0));
            !is_other && offset.0 < mapped.end && mapped.start < end
        })?;
        let file_at = mapping.addr.0.wrapping_sub(mapping.offset.0);
        Some(file_at.wrapping_add(offset.0).wrapping_sub(range.start.0))
    }

    /// Whether any of its code would be in a range of addresses.
    pub fn has_code(&self, bias: u64, addresses: std::ops::Range<u64>) -> bool {
        let mut code = self.code.iter();
        code.any(|(range, _)| {
            let (start, end) = (bias.wrapping_add(range.start.0), bias.wrapping_add(range.end.0));
            start < addresses.end && addresses.start < end
        })
    }

    /// The file to probe when the process has not mapped it yet.
    pub fn file(&self) -> Option<&Path> {
        self.name.is_absolute().then_some(self.name.as_path())
    }

    #[cfg(test)]
    pub fn made_up(module: ModuleId, name: &str, code: LinkRange, offset: FileOffset) -> Self {
        Self {
            module,
            name: name.into(),
            build_id: None,
            code: vec![(code, offset)],
        }
    }
}

//! Where frames lie inside their files, as far as the text tells.

use std::collections::HashMap;

use program::{BuildId, FileOffset, LinkAddr};

use super::facts::{Facts, Mapping};
use super::scan::base_name;
use crate::report::{Frame, ModuleRef};

/// Position-independent files of a 64-bit process are loaded above this, others where they were linked.
pub(super) const LOWEST_MOVED: u64 = 1 << 32;

/// The text's knowledge about modules, applied to frames.
pub(super) struct Modules<'a> {
    mappings: Vec<&'a Mapping>,
    bases: HashMap<&'a str, u64>,
    build_ids: HashMap<&'a str, &'a BuildId>,
}

impl<'a> Modules<'a> {
    pub fn new(facts: &'a Facts) -> Self {
        let mut mappings: Vec<_> = facts.mappings.iter().collect();
        mappings.sort_by_key(|mapping| mapping.start);
        let mut bases = HashMap::new();
        for mapping in &mappings {
            let base = mapping.start.saturating_sub(mapping.file_offset);
            bases.entry(mapping.path.as_str()).or_insert(base);
        }
        let mut build_ids = HashMap::new();
        for (name, id) in &facts.build_ids {
            build_ids.entry(name.as_str()).or_insert(id);
        }
        Self {
            mappings,
            bases,
            build_ids,
        }
    }

    /// The build-id that the text gives for a file of this name.
    pub fn build_id(&self, path: &str) -> Option<&'a BuildId> {
        self.build_ids.get(base_name(path)).copied()
    }

    /// Completes a frame's module.
    pub fn complete(&self, frame: &mut Frame) {
        self.locate(frame);
        let Some(module) = &mut frame.module else { return };
        if module.build_id.is_none() {
            module.build_id = self.build_id(&module.path).cloned();
        }
        // A file that is loaded where it was linked. Some reports count from its first byte in memory
        // instead, which is no link-time address.
        if let Some(address) = frame.address.filter(|address| address.0 < LOWEST_MOVED) {
            module.addr = Some(LinkAddr(address.0));
        }
    }

    /// Finds a frame's file in the memory map.
    fn locate(&self, frame: &mut Frame) {
        let Some(address) = frame.address else { return };
        let after = self
            .mappings
            .partition_point(|mapping| mapping.start <= address.0);
        let Some(mapping) = after.checked_sub(1).and_then(|at| self.mappings.get(at)) else {
            return;
        };
        if address.0 >= mapping.end {
            return;
        }
        let Some(base) = self.bases.get(mapping.path.as_str()) else {
            return;
        };
        let link = if *base < LOWEST_MOVED {
            address.0
        } else {
            address.0.saturating_sub(*base)
        };
        let module = frame.module.get_or_insert_with(|| ModuleRef {
            path: mapping.path.clone(),
            ..ModuleRef::default()
        });
        module.addr.get_or_insert(LinkAddr(link));
        let inside = address.0.saturating_sub(mapping.start);
        module.file_offset = mapping.file_offset.checked_add(inside).map(FileOffset);
    }
}

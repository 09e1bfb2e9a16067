//! A thread at a moment that is over: its registers then, and the top of its stack.

use std::borrow::Cow;

use failure::image::{
    self, Limits, MappedModule, Memory, ModuleFiles, ProcessImage, ProcessState, Region, Registers,
    StoppedThread,
};
use failure::report::Source;
use program::RunAddr;
use tracee::process::ModuleMap;

use crate::stacks::addresses;

struct Snapshot<'b> {
    state: ProcessState,
    modules: Vec<MappedModule>,
    start: u64,
    stack: &'b [u8],
}

/// Where the thread was, and where the calls return to that led there, innermost first, as far as the stack was kept.
pub(crate) fn calls(
    registers: &Registers,
    stack: &[u8],
    map: &ModuleMap,
    files: &dyn ModuleFiles,
    frames: usize,
) -> Vec<RunAddr> {
    let thread = StoppedThread {
        tid: 0,
        name: None,
        registers: *registers,
        signal: None,
    };
    let snapshot = Snapshot {
        state: ProcessState {
            threads: vec![thread],
            ..ProcessState::default()
        },
        modules: map.modules().iter().map(|module| module.mapped.clone()).collect(),
        start: registers.rsp,
        stack,
    };
    let limits = Limits {
        frames,
        ..Limits::default()
    };
    addresses(&image::report(&snapshot, files, limits), 0)
}

impl Memory for Snapshot<'_> {
    fn region_at(&self, addr: u64) -> Option<Region> {
        let range = self.start..self.start.saturating_add(self.stack.len() as u64);
        range.contains(&addr).then_some(Region {
            range,
            executable: false,
            writable: true,
        })
    }

    fn read(&self, addr: RunAddr, len: usize) -> Option<Cow<'_, [u8]>> {
        let from = usize::try_from(addr.0.checked_sub(self.start)?).ok()?;
        Some(Cow::Borrowed(self.stack.get(from..from.checked_add(len)?)?))
    }

    fn bytes_from(&self, addr: RunAddr, most: usize) -> Option<&[u8]> {
        let from = usize::try_from(addr.0.checked_sub(self.start)?).ok()?;
        let rest = self.stack.get(from..)?;
        Some(rest.get(..most).unwrap_or(rest))
    }
}

impl ProcessImage for Snapshot<'_> {
    fn state(&self) -> &ProcessState {
        &self.state
    }

    fn modules(&self) -> &[MappedModule] {
        &self.modules
    }

    fn notes(&self) -> &[String] {
        &[]
    }

    fn source(&self) -> Source {
        Source::Live
    }
}

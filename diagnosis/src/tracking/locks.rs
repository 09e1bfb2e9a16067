//! The locks that threads waited for.
//!
//! A process that hangs tells where the locks are that its threads wait for. In the data of a file they are at the same place in
//! the next run, and can be watched there from the start on: all of a cycle at once, whichever statements take them.

use std::path::PathBuf;

use failure::Failure;
use failure::report::{Report, Wanted};
use failure::resolve::{Waiting, waiting};
use program::{LinkAddr, ModuleId, Program, RunAddr};
use watchpoint::{Address, Trigger, WatchSpec};

use super::REGISTERS;
use super::given_up::{Access, GivenUp};
use crate::fixed::Place;
use crate::record::WatchedRecord;

/// Bytes of a lock that say whether it is taken, in the C libraries and in Rust's: what the kernel lets wait for.
pub(super) const WIDTH: u32 = 4;

/// Locks at known places.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// Each place once, with the last call that waited for it.
    known: Vec<(Place, Access)>,
}

impl Locks {
    /// Takes in where the locks were that the threads of a report waited for.
    pub(super) fn learn(&mut self, report: &Report, failure: &Failure, program: &Program<'_>) {
        for (thread, resolved) in report.threads.iter().zip(&failure.threads) {
            let at = match thread.wants {
                Some(Wanted::Lock { at, .. }) => at,
                Some(Wanted::Word { at }) if waiting(resolved) == Waiting::Lock => at,
                _ => continue,
            };
            let call = resolved.frames.iter().find(|frame| frame.own);
            let call = call.and_then(|frame| program.instruction_at(frame.executing()?));
            let Some((call, place)) = call.zip(place(report, at, program)) else {
                continue;
            };
            let module = program.module(call.module).filter(|_| call.module != ModuleId(0));
            let access = Access {
                module: module.map(|module| module.name().to_owned()),
                addr: call.addr,
                passed: Some((0, 0)),
                within: 0,
            };
            self.known.retain(|(known, _)| *known != place);
            self.known.push((place, access));
        }
    }

    /// What to watch for them. More than there are registers are some of many, and others next time: these are found where they are
    /// taken.
    pub(super) fn watches(&self, given_up: &GivenUp) -> impl Iterator<Item = (WatchedRecord, WatchSpec)> {
        let known = self.known.iter().filter(|_| self.known.len() <= REGISTERS);
        let known = known.filter(|(_, access)| !given_up.contains(access));
        known.map(|(place, access)| {
            let (file, addr) = place.clone();
            let watched = WatchedRecord {
                module: access.module.clone(),
                access: access.addr,
                passed: access.passed,
                width: WIDTH,
                within: access.within,
                always_at: None,
                fixed: Some(place.clone()),
                late: false,
                given_up: false,
                stores: false,
                result: false,
                found: 0,
            };
            let spec = WatchSpec {
                address: Address::Static {
                    module: file.map(PathBuf::from),
                    addr,
                },
                len: WIDTH,
                trigger: Trigger::ReadWrite,
                places: 1,
            };
            (watched, spec)
        })
    }
}

/// The file whose data an address is in. Where the files were mapped, the frames tell.
fn place(report: &Report, addr: RunAddr, program: &Program<'_>) -> Option<Place> {
    let frames = report.threads.iter().flat_map(|thread| &thread.frames);
    let mut mapped = frames.filter_map(|frame| {
        let module = frame.module.as_ref()?;
        Some((module, frame.address?.0.wrapping_sub(module.addr?.0)))
    });
    mapped.find_map(|(mapped, bias)| {
        let link = LinkAddr(addr.0.wrapping_sub(bias));
        let is_executable = report.program.as_deref() == Some(mapped.path.as_str());
        let (_, module) = program.modules().find(|(id, module)| match is_executable {
            true => *id == ModuleId(0),
            false => module.name() == mapped.path,
        })?;
        let path = (!is_executable).then(|| mapped.path.clone());
        module.elf().segments().is_writable(link).then_some((path, link))
    })
}

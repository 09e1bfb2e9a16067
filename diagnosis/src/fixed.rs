//! Where failing runs had what was found too late.
//!
//! The element of a global table that a hash chose has an address that no analysis of the code knows, and that a probe
//! finds when somebody asks for the element: perhaps after the race. But where failing runs had it, the next ones can
//! watch from the start on.

use std::collections::{BTreeMap, BTreeSet};

use program::{LinkAddr, Module, ModuleId, Program, RunAddr};

use crate::record::{ModuleRecord, RunEnd, RunRecord, WatchedRecord};

/// The access that a location is watched for.
type Accessed = (Option<String>, LinkAddr);
/// With how far into what is accessed the location begins.
type Watched = (Accessed, u32);
/// A file (`None` for the executable) and an address in its data: what is on the heap or a stack is elsewhere next time.
pub(crate) type Place = (Option<String>, LinkAddr);

/// Places that are remembered of a location: one for each debug register but the one that follows it.
const MOST: usize = 3;

/// What was learnt.
#[derive(Debug, Default)]
pub(crate) struct Fixed {
    known: BTreeMap<Watched, Vec<Place>>,
    /// Accesses to the data of a file, at whichever address.
    in_files: BTreeSet<Accessed>,
}

impl Fixed {
    /// Where failing runs had a location, the latest first.
    pub(crate) fn places(&self, watched: &WatchedRecord) -> impl Iterator<Item = &Place> {
        let accessed = (watched.module.clone(), watched.access);
        let known = self.known.get(&(accessed, watched.within));
        known.into_iter().flatten().rev()
    }

    /// Whether they had it somewhere.
    pub(crate) fn is_known(&self, module: Option<&str>, access: LinkAddr, within: u32) -> bool {
        let accessed = (module.map(str::to_owned), access);
        self.known.contains_key(&(accessed, within))
    }

    /// Whether failing runs had what an access is watched for in the data of a file: whatever led there, it has a name.
    pub(crate) fn is_static(&self, module: Option<&str>, access: LinkAddr) -> bool {
        self.in_files.contains(&(module.map(str::to_owned), access))
    }

    /// Takes in where a failing run had what it watched, above all what it found late.
    pub(crate) fn learn(&mut self, record: &RunRecord, program: &Program<'_>) {
        for (number, watched) in record.watched.iter().enumerate() {
            let addr = last_access(record, number);
            let Some(place) = addr.and_then(|addr| place(record, addr, program)) else {
                continue;
            };
            let accessed = (watched.module.clone(), watched.access);
            self.in_files.insert(accessed.clone());
            if !watched.late || watched.fixed.is_some() {
                continue;
            }
            let known = self.known.entry((accessed, watched.within)).or_default();
            known.retain(|other| *other != place);
            known.push(place);
            if known.len() > MOST {
                known.remove(0);
            }
        }
    }
}

/// The last access to a location: the failing thread's, if it has one.
fn last_access(record: &RunRecord, location: usize) -> Option<RunAddr> {
    let RunEnd::Failed(report) = &record.end else {
        return None;
    };
    let failing = report.threads.get(report.failing).and_then(|thread| thread.id);
    let own = record
        .hits
        .iter()
        .rev()
        .filter(|hit| usize::try_from(hit.location).is_ok_and(|at| at == location));
    let by_failing = own.clone().find(|hit| Some(u64::from(hit.tid)) == failing);
    by_failing.or_else(|| own.clone().next()).map(|hit| hit.addr)
}

/// The file whose data an address is in: what it initialises to zero lies behind what is mapped of it. Tables of functions are no data.
pub(crate) fn place(record: &RunRecord, addr: RunAddr, program: &Program<'_>) -> Option<Place> {
    in_files(record, addr, program).find_map(|(mapped, module, link)| {
        let path = (!mapped.executable).then(|| mapped.path.clone());
        module.is_variable(link).then_some((path, link))
    })
}

/// Whether nobody writes at an address, once the program runs: where a file has its constants, and tables of virtual functions.
pub(crate) fn is_constant(record: &RunRecord, addr: RunAddr, program: &Program<'_>) -> bool {
    let mut places = in_files(record, addr, program);
    places.any(|(_, module, link)| module.elf().segments().contains(link) && !module.is_variable(link))
}

/// An address in the files of a process, as linked: in which of them it is, their segments tell.
fn in_files<'r, 'p, 'a>(
    record: &'r RunRecord,
    addr: RunAddr,
    program: &'p Program<'a>,
) -> impl Iterator<Item = (&'r ModuleRecord, &'p Module<'a>, LinkAddr)> {
    record.modules.iter().filter_map(move |mapped| {
        let link = LinkAddr(addr.0.wrapping_sub(mapped.bias));
        let (_, module) = program.modules().find(|(id, module)| match mapped.executable {
            true => *id == ModuleId(0),
            false => module.name() == mapped.path,
        })?;
        Some((mapped, module, link))
    })
}

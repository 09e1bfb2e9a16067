//! Probes of a process that runs already, at places that tell where locations are.
//!
//! Those of a location and a file go together: the kernel takes some 100 ms to let go of one of perf's probes, and one after the
//! other, while threads are trapped on. For many that are linked it waits once, after no thread is trapped any more.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use program::FileOffset;
use tracee::Pid;
use tracee::bpf::{HitProgram, ManyProbes, Then};
use tracee::perf::{Delivery, PerfError, ProbeEnd, ProbeFile, ProbeTarget, Uprobe};
use tracee::process::ModuleMap;

use super::source::Source;
use crate::error::WatchError;
use crate::exact::owner::{ProbeId, probe_cookie};
use crate::watcher::{Address, Probe, WatchSpec, module_at};

/// How long probes are set before somebody else has his turn: the program is trapped by those that are there already, and
/// whoever looks after the cost is to see it.
const AT_ONCE: Duration = Duration::from_millis(10);

/// The probes of a process.
pub(super) struct Probes {
    /// Kept for as long as they are to report.
    set: Vec<Set>,
    unset: VecDeque<Group>,
}

/// Places of a location in one file.
struct Group {
    location: ProbeId,
    file: ProbeFile,
    offsets: Vec<FileOffset>,
}

struct Set {
    location: ProbeId,
    probes: Kind,
}

enum Kind {
    Many(#[expect(dead_code, reason = "its drop takes the probes away")] ManyProbes),
    Single(Uprobe),
}

impl Probes {
    /// Those that the locations need. None is set yet.
    pub(super) fn of(specs: &[WatchSpec], modules: &ModuleMap) -> Self {
        let mut groups: VecDeque<Group> = VecDeque::new();
        for (location, spec) in specs.iter().enumerate() {
            let (Address::Probed(places), Some(location)) = (&spec.address, ProbeId::of(location, 0)) else {
                continue;
            };
            let first = groups.len();
            for place in places {
                let Some(file) = file_of(place, modules) else {
                    continue;
                };
                match groups.range_mut(first..).find(|group| group.file == file) {
                    Some(group) if group.offsets.contains(&place.offset) => {}
                    Some(group) => group.offsets.push(place.offset),
                    None => groups.push_back(Group {
                        location,
                        file,
                        offsets: vec![place.offset],
                    }),
                }
            }
        }
        Self {
            set: Vec::new(),
            unset: groups,
        }
    }

    /// Sets probes that are still to be set, for a moment.
    pub(super) fn set(&mut self, pid: Pid, source: &Source) -> Result<(), WatchError> {
        let started = Instant::now();
        while started.elapsed() < AT_ONCE
            && let Some(group) = self.unset.pop_front()
        {
            self.open(group, pid, source)?;
        }
        Ok(())
    }

    /// All at once; where that is refused, in halves; the last one as a probe of perf, which older kernels have as well.
    fn open(&mut self, mut group: Group, pid: Pid, source: &Source) -> Result<(), WatchError> {
        let location = group.location;
        let cookie = probe_cookie(location);
        let many = source.program(|ring| HitProgram::for_many_probes(ring, cookie, &[], Then::GoOn));
        let Some(many) = many else { return Ok(()) };
        let many = many.and_then(|program| ManyProbes::open(&program, &group.file, &group.offsets, pid));
        if let Ok(many) = many {
            let probes = Kind::Many(many);
            self.set.push(Set { location, probes });
            return Ok(());
        }
        if let [offset] = group.offsets[..] {
            let probe = open_single(&group.file, offset, pid, cookie, source)?;
            self.set.extend(probe.map(|probe| Set {
                location,
                probes: Kind::Single(probe),
            }));
            return Ok(());
        }
        let rest = Group {
            location,
            file: group.file.clone(),
            offsets: group.offsets.split_off(group.offsets.len() / 2),
        };
        self.unset.push_front(rest);
        self.unset.push_front(group);
        Ok(())
    }

    /// Takes away those of a location. Nobody waits until the kernel is done with them.
    pub(super) fn leave(&mut self, location: usize) {
        let is_of = |id: &ProbeId| usize::from(id.location) == location;
        self.unset.retain(|group| !is_of(&group.location));
        let gone = self.set.extract_if(.., |set| is_of(&set.location));
        let singles = gone.filter_map(|set| match set.probes {
            Kind::Many(_) => None,
            Kind::Single(probe) => Some(probe),
        });
        let singles: Vec<Uprobe> = singles.collect();
        if !singles.is_empty() {
            Uprobe::close_all(singles);
        }
    }
}

fn file_of(place: &Probe, modules: &ModuleMap) -> Option<ProbeFile> {
    let module = match &place.module {
        None => modules.executable(),
        Some(path) => module_at(modules, path),
    };
    module
        .and_then(|module| modules.file(module))
        .map(|path| ProbeFile::at(&path))
}

/// A probe of perf; `None` where the instruction takes none: the location has other places, or says that it was not watched.
fn open_single(
    file: &ProbeFile,
    offset: FileOffset,
    pid: Pid,
    cookie: u64,
    source: &Source,
) -> Result<Option<Uprobe>, WatchError> {
    let Some(program) = source.program(|ring| HitProgram::for_probes(ring, cookie, &[])) else {
        return Ok(None);
    };
    let program = program?;
    let target = ProbeTarget::Thread(pid.first_thread());
    match Uprobe::open(file, offset, ProbeEnd::Entry, target, Delivery::Bpf(&program)) {
        Ok(probe) => Ok(Some(probe)),
        Err(PerfError::ProbeRefused { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

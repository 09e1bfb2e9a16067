//! Stops at places in the code, where addresses become known: uprobes, owned by the kernel.

use std::collections::BTreeMap;

use program::FileOffset;
use tracee::Tid;
use tracee::perf::{Delivery, PerfError, ProbeEnd, ProbeFile, ProbeTarget, Uprobe};
use tracee::process::ModuleMap;

use super::linked::{Linked, place};
use super::owner::{ProbeId, probe_cookie};

/// A place to stop at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) file: ProbeFile,
    pub(crate) offset: FileOffset,
    /// What the stop is for.
    pub(crate) what: ProbeId,
}

/// The probes of a process. The kernel does not hand them down to new threads; each gets its own.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    points: Vec<Point>,
    open: BTreeMap<Tid, Vec<(ProbeId, Uprobe)>>,
    /// The same for all threads at once, where that is safe.
    linked: Option<Linked>,
}

impl Probes {
    /// Sets probes as links from now on.
    pub(crate) fn link(&mut self, linked: Linked) {
        self.linked = Some(linked);
    }

    /// What a thread that got a SIGTRAP was caught for; `None` when it was not caught at all.
    pub(crate) fn caught(&mut self, tid: Tid, modules: &ModuleMap) -> Option<Vec<ProbeId>> {
        let at = self.linked.as_mut()?.caught(tid)?;
        let Some((file, offset)) = place(at, modules) else {
            return Some(Vec::new());
        };
        let here = self.points.iter();
        let here = here.filter(|point| point.offset == offset && point.file == file);
        Some(here.map(|point| point.what).collect())
    }

    /// Adds places, for all threads from now on.
    pub(crate) fn add_all(&mut self, points: Vec<Point>, threads: &[Tid]) -> Result<(), PerfError> {
        if let Some(linked) = &mut self.linked {
            linked.add(&points);
            self.points.extend(points);
            return Ok(());
        }
        points.into_iter().try_for_each(|point| self.add(point, threads))
    }

    /// Adds a place, for all threads from now on.
    fn add(&mut self, point: Point, threads: &[Tid]) -> Result<(), PerfError> {
        for &tid in threads {
            let probe = open(tid, &point)?;
            self.open.entry(tid).or_default().extend(probe);
        }
        self.points.push(point);
        Ok(())
    }

    /// A thread that has none yet.
    pub(crate) fn arm(&mut self, tid: Tid) -> Result<(), PerfError> {
        let mut opened = Vec::new();
        if self.linked.is_some() {
            return Ok(());
        }
        for point in &self.points {
            opened.extend(open(tid, point)?);
        }
        if !opened.is_empty() {
            self.open.insert(tid, opened);
        }
        Ok(())
    }

    /// A thread that has ended. Nobody waits until the kernel is done with its probes: the others run on.
    pub(crate) fn forget(&mut self, tid: Tid) {
        let probes = self.open.remove(&tid).unwrap_or_default();
        Uprobe::close_all(probes.into_iter().map(|(_, probe)| probe).collect());
    }

    /// Another program runs, or nothing is to be found out any more.
    pub(crate) fn clear(&mut self) {
        self.points.clear();
        self.open.clear();
        self.linked.iter_mut().for_each(Linked::clear);
    }

    /// Takes away the probes that are for something.
    pub(crate) fn remove(&mut self, what: ProbeId) {
        self.points.retain(|point| point.what != what);
        self.linked
            .iter_mut()
            .for_each(|linked| linked.remove(|of| of == what));
        for opened in self.open.values_mut() {
            opened.retain(|(for_what, _)| *for_what != what);
        }
    }

    /// Takes away the probes of a location.
    pub(crate) fn remove_of(&mut self, location: usize) {
        let is_of = |what: ProbeId| what != ProbeId::LIBRARIES && usize::from(what.location) == location;
        self.points.retain(|point| !is_of(point.what));
        self.linked.iter_mut().for_each(|linked| linked.remove(is_of));
        for opened in self.open.values_mut() {
            opened.retain(|(what, _)| !is_of(*what));
        }
    }
}

impl Drop for Probes {
    /// The process has ended, or whoever left it has cleared them.
    fn drop(&mut self) {
        let probes = std::mem::take(&mut self.open).into_values().flatten();
        Uprobe::close_all(probes.map(|(_, probe)| probe).collect());
    }
}

fn open(tid: Tid, point: &Point) -> Result<Option<(ProbeId, Uprobe)>, PerfError> {
    let delivery = Delivery::stop(probe_cookie(point.what));
    let target = ProbeTarget::Thread(tid);
    match Uprobe::open(&point.file, point.offset, ProbeEnd::Entry, target, delivery) {
        Ok(probe) => Ok(Some((point.what, probe))),
        // An instruction that takes no probe: the location has others, or says that it was not watched.
        Err(PerfError::ProbeRefused { .. }) => Ok(None),
        Err(error) if error.is_gone() => Ok(None),
        Err(error) => Err(error),
    }
}

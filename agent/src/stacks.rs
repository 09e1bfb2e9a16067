//! The stacks of threads that touch watched memory: where a thread makes an access for the first time, which tells what
//! kind of thread it is and how it got there, and at each access that a library makes, which tells for whom.

use std::collections::{BTreeMap, BTreeSet};

use diagnosis::tracking::LibraryCode;
use failure::image::{self, Limits, ModuleFiles, StoppedThread};
use failure::report::Report;
use program::RunAddr;
use tracee::bpf::STOPPED_BY;
use tracee::process::{ModuleMap, StoppedProcess};
use tracee::ptrace::{Launched, SigInfo, Stop, Tracer};
use tracee::run::{Handled, TrackError, Tracker};
use tracee::{Tid, is_system_path};

/// Frames that are taken.
const FRAMES: usize = 64;
/// Accesses of libraries whose callers are looked for, in one run: each holds its thread up.
const MOST_LOOKS: usize = 2000;

/// Accesses of a thread whose stacks are taken to learn what kind of thread it is and by which calls it came there, each by
/// another instruction or at another depth. One is not enough to tell its kind: the first may be made on the way to its
/// routine, by code of the language's library.
const LOOKS_AT_THREAD: usize = 24;
/// The same for all threads of a run together.
const LOOKS_AT_THREADS: usize = 400;

/// What a thread stopped for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It touched what is watched.
    Access,
    /// It came by a probe.
    Probe,
}

/// Looks at stacks; rides along before the one who watches.
pub(crate) struct Stacks<'m> {
    files: &'m (dyn ModuleFiles + Sync),
    modules: Option<ModuleMap>,
    /// Code of a library in the program's own files.
    library: Vec<LibraryCode>,
    /// The stacks at the first access of each thread by an instruction and at a depth.
    pub(crate) first: BTreeMap<u32, Vec<Vec<RunAddr>>>,
    /// For each thread, where accesses of libraries were reported, and the stack then.
    pub(crate) of_libraries: BTreeMap<u32, Vec<(RunAddr, Vec<RunAddr>)>>,
    looks: usize,
    /// Thread, instruction and stack pointer of the accesses that were looked at.
    seen: BTreeSet<(u32, u64, u64)>,
}

impl<'m> Stacks<'m> {
    pub(crate) fn new(files: &'m (dyn ModuleFiles + Sync), library: Vec<LibraryCode>) -> Self {
        Self {
            files,
            modules: None,
            library,
            first: BTreeMap::new(),
            of_libraries: BTreeMap::new(),
            looks: 0,
            seen: BTreeSet::new(),
        }
    }

    /// What was mapped at the last look.
    pub(crate) fn modules(&self) -> Option<&ModuleMap> {
        self.modules.as_ref()
    }

    fn look(&mut self, tracer: &Tracer<Launched>, tid: Tid, why: Why) -> Option<()> {
        let registers = tracer.registers(tid).ok()?;
        let at = RunAddr(registers.rip);
        let in_library = why == Why::Access && self.is_in_library(tracer, at);
        let looked = self.first.get(&tid.0).map_or(0, Vec::len);
        let allowed = looked == 0 || looked < LOOKS_AT_THREAD && self.seen.len() < LOOKS_AT_THREADS;
        let is_new = allowed && self.seen.insert((tid.0, registers.rip, registers.rsp));
        if !is_new && (!in_library || self.looks >= MOST_LOOKS) {
            return None;
        }
        let thread = StoppedThread {
            tid: tid.0,
            name: None,
            registers,
            signal: None,
        };
        let stopped = StoppedProcess::new(tracer.pid(), vec![thread], None, Vec::new()).ok()?;
        let limits = Limits {
            frames: FRAMES,
            ..Limits::default()
        };
        let stack = addresses(&image::report(&stopped, self.files, limits), 0);
        if in_library {
            self.looks += 1;
            let seen = self.of_libraries.entry(tid.0).or_default();
            seen.push((at, stack.clone()));
        }
        if is_new {
            self.first.entry(tid.0).or_default().push(stack);
        }
        Some(())
    }

    /// Keeps the stacks of a failure.
    fn keep(&mut self, report: &Report) {
        for (number, thread) in report.threads.iter().enumerate() {
            let tid = thread.id.and_then(|id| u32::try_from(id).ok());
            if let Some(tid) = tid {
                self.first.entry(tid).or_default().push(addresses(report, number));
            }
        }
    }

    fn is_in_library(&mut self, tracer: &Tracer<Launched>, at: RunAddr) -> bool {
        let library = &self.library;
        let known = |map: &ModuleMap| {
            let (module, addr) = map.find(at)?;
            let here = |code: &LibraryCode| match &code.module {
                None => map.executable() == Some(module),
                Some(path) => *path == module.mapped.path,
            };
            let of_library = |code: &LibraryCode| code.range.contains(&addr) && here(code);
            Some(is_system_path(&module.mapped.path) || library.iter().any(of_library))
        };
        if let Some(found) = self.modules.as_ref().and_then(known) {
            return found;
        }
        self.modules = ModuleMap::of(tracer.pid()).ok().or(self.modules.take());
        self.modules.as_ref().and_then(known).unwrap_or(false)
    }
}

/// Whether a probe of ours stopped the thread.
fn is_of_probe(info: &SigInfo) -> bool {
    info.signal().0 == STOPPED_BY && info.sender().is_none()
}

/// The addresses of a thread's frames, innermost first.
pub(crate) fn addresses(report: &Report, thread: usize) -> Vec<RunAddr> {
    let frames = report
        .threads
        .get(thread)
        .map_or(&[][..], |thread| &thread.frames);
    frames
        .iter()
        .filter(|frame| !frame.inlined)
        .filter_map(|frame| frame.address)
        .collect()
}

impl Tracker for Stacks<'_> {
    fn signal(
        &mut self,
        tracer: &mut Tracer<Launched>,
        stop: &Stop,
        info: &SigInfo,
    ) -> Result<Handled, TrackError> {
        // Where hits are no stops, those of probes are all that there is to learn a thread's kind from.
        if info.perf().is_some() {
            self.look(tracer, stop.tid, Why::Access);
        } else if is_of_probe(info) {
            self.look(tracer, stop.tid, Why::Probe);
        }
        Ok(Handled::Passed)
    }

    fn failing(&mut self, tracer: &mut Tracer<Launched>, report: &Report) -> Result<(), TrackError> {
        // Libraries may have been loaded since.
        self.modules = ModuleMap::of(tracer.pid()).ok().or(self.modules.take());
        // Accesses whose stops were not told yet are taken in now.
        for (tid, info) in tracer.undelivered() {
            if info.perf().is_some() {
                self.look(tracer, tid, Why::Access);
            }
        }
        self.keep(report);
        Ok(())
    }

    fn panicking(&mut self, tracer: &mut Tracer<Launched>, report: &Report) -> Result<(), TrackError> {
        self.modules = ModuleMap::of(tracer.pid()).ok().or(self.modules.take());
        self.keep(report);
        Ok(())
    }
}

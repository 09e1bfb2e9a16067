//! The stacks of threads that touch watched memory: where a thread makes an access for the first time, which tells what
//! kind of thread it is and how it got there, and at each access that a library makes, which tells for whom.
//!
//! A thread is held up as long as somebody looks, and that decides races. So only a copy of its stack is taken, with one read of
//! its memory; unwinding, which reads tables of every module on the way, waits until the run is over.

use std::collections::{BTreeMap, BTreeSet};

use diagnosis::tracking::LibraryCode;
use failure::image::{ModuleFiles, Registers};
use failure::report::Report;
use program::RunAddr;
use tracee::process::{Memory, ModuleMap};
use tracee::ptrace::{Launched, SigInfo, Stop, Tracer};
use tracee::run::{Handled, TrackError, Tracker};
use tracee::{Tid, is_system_path};

use crate::snapshot::calls;

/// Frames that are taken.
const FRAMES: usize = 64;
/// Bytes of a stack that are kept: nearly always all that is in use.
const LONGEST: usize = 128 << 10;
/// Bytes of all stacks together; of further ones only what is nearest.
const MOST_BYTES: usize = 64 << 20;
const NEAREST: usize = 4 << 10;
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

/// A stack that was looked at.
enum Taken {
    /// As it was: the registers, and the bytes from the stack pointer on.
    Kept(Box<Registers>, Vec<u8>),
    /// Unwound already.
    Unwound(Vec<RunAddr>),
}

/// Looks at stacks; rides along before the one who watches.
pub(crate) struct Stacks<'m> {
    files: &'m (dyn ModuleFiles + Sync),
    modules: Option<ModuleMap>,
    /// Code of a library in the program's own files.
    library: Vec<LibraryCode>,
    taken: Vec<Taken>,
    bytes: usize,
    /// Which stacks were taken at the first access of each thread by an instruction and at a depth.
    first: BTreeMap<u32, Vec<usize>>,
    /// For each thread, where accesses of libraries were reported, and which stack was taken then.
    of_libraries: BTreeMap<u32, Vec<(RunAddr, usize)>>,
    looks: usize,
    /// Thread, instruction and stack pointer of the accesses that were looked at.
    seen: BTreeSet<(u32, u64, u64)>,
}

/// The stacks of a run that is over.
#[derive(Default)]
pub(crate) struct Unwound {
    /// What was mapped at the last look.
    pub(crate) modules: Option<ModuleMap>,
    /// The stacks at the first access of each thread by an instruction and at a depth.
    pub(crate) first: BTreeMap<u32, Vec<Vec<RunAddr>>>,
    /// For each thread, where accesses of libraries were reported, and the stack then.
    pub(crate) of_libraries: BTreeMap<u32, Vec<(RunAddr, Vec<RunAddr>)>>,
}

impl<'m> Stacks<'m> {
    pub(crate) fn new(files: &'m (dyn ModuleFiles + Sync), library: Vec<LibraryCode>) -> Self {
        Self {
            files,
            modules: None,
            library,
            taken: Vec::new(),
            bytes: 0,
            first: BTreeMap::new(),
            of_libraries: BTreeMap::new(),
            looks: 0,
            seen: BTreeSet::new(),
        }
    }

    /// Unwinds what was kept, when the run is over.
    pub(crate) fn finish(self) -> Unwound {
        let unwound = self.taken.iter().map(|taken| match (taken, &self.modules) {
            (Taken::Unwound(stack), _) => stack.clone(),
            (Taken::Kept(registers, stack), Some(map)) => calls(registers, stack, map, self.files, FRAMES),
            (Taken::Kept(registers, _), None) => vec![RunAddr(registers.rip)],
        });
        let unwound: Vec<Vec<RunAddr>> = unwound.collect();
        let stack = |number: &usize| unwound.get(*number).cloned().unwrap_or_default();
        let first = self.first.iter();
        let of_libraries = self.of_libraries.iter();
        Unwound {
            first: first
                .map(|(tid, taken)| (*tid, taken.iter().map(stack).collect()))
                .collect(),
            of_libraries: of_libraries
                .map(|(tid, seen)| {
                    let seen = seen.iter().map(|(at, number)| (*at, stack(number)));
                    (*tid, seen.collect())
                })
                .collect(),
            modules: self.modules,
        }
    }

    fn look(&mut self, tracer: &Tracer<Launched>, tid: Tid, why: Why) -> Option<()> {
        let registers = tracer.registers(tid).ok()?;
        let at = RunAddr(registers.rip);
        let looked = self.first.get(&tid.0).map_or(0, Vec::len);
        if looked == 0 {
            // A thread may run code that was not there when the last one began.
            self.read_modules(tracer);
        }
        let in_library = why == Why::Access && self.is_in_library(tracer, at);
        let allowed = looked == 0 || looked < LOOKS_AT_THREAD && self.seen.len() < LOOKS_AT_THREADS;
        let is_new = allowed && self.seen.insert((tid.0, registers.rip, registers.rsp));
        if !is_new && (!in_library || self.looks >= MOST_LOOKS) {
            return None;
        }
        let number = self.take(tracer, registers);
        if in_library {
            self.looks += 1;
            self.of_libraries.entry(tid.0).or_default().push((at, number));
        }
        if is_new {
            self.first.entry(tid.0).or_default().push(number);
        }
        Some(())
    }

    fn take(&mut self, tracer: &Tracer<Launched>, registers: Registers) -> usize {
        let len = match self.bytes < MOST_BYTES {
            true => LONGEST,
            false => NEAREST,
        };
        let mut stack = vec![0; len];
        let memory = Memory::of(tracer.pid());
        let found = memory.read_some(RunAddr(registers.rsp), &mut stack).unwrap_or(0);
        stack.truncate(found);
        stack.shrink_to_fit();
        self.bytes = self.bytes.saturating_add(found);
        self.push(Taken::Kept(Box::new(registers), stack))
    }

    fn push(&mut self, taken: Taken) -> usize {
        self.taken.push(taken);
        self.taken.len() - 1
    }

    /// Keeps the stacks of a failure.
    fn keep(&mut self, report: &Report) {
        for (number, thread) in report.threads.iter().enumerate() {
            let tid = thread.id.and_then(|id| u32::try_from(id).ok());
            if let Some(tid) = tid {
                let taken = self.push(Taken::Unwound(addresses(report, number)));
                self.first.entry(tid).or_default().push(taken);
            }
        }
    }

    fn read_modules(&mut self, tracer: &Tracer<Launched>) {
        match &mut self.modules {
            // What is known is not read again; of a process that is gone, what was there last remains.
            Some(map) if map.pid() == tracer.pid() => drop(map.refresh()),
            _ => self.modules = ModuleMap::of(tracer.pid()).ok().or(self.modules.take()),
        }
    }

    fn is_in_library(&mut self, tracer: &Tracer<Launched>, at: RunAddr) -> bool {
        if let Some(found) = self.known_library(at) {
            return found;
        }
        self.read_modules(tracer);
        self.known_library(at).unwrap_or(false)
    }

    /// Whether an address is in a library, by what was mapped at the last look.
    fn known_library(&self, at: RunAddr) -> Option<bool> {
        let map = self.modules.as_ref()?;
        let (module, addr) = map.find(at)?;
        let here = |code: &LibraryCode| match &code.module {
            None => map.executable() == Some(module),
            Some(path) => *path == module.mapped.path,
        };
        let of_library = |code: &LibraryCode| code.range.contains(&addr) && here(code);
        Some(is_system_path(&module.mapped.path) || self.library.iter().any(of_library))
    }
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
        } else if info.is_of_probe() {
            self.look(tracer, stop.tid, Why::Probe);
        }
        Ok(Handled::Passed)
    }

    fn failing(&mut self, tracer: &mut Tracer<Launched>, report: &Report) -> Result<(), TrackError> {
        // Libraries may have been loaded since.
        self.read_modules(tracer);
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
        self.read_modules(tracer);
        self.keep(report);
        Ok(())
    }
}

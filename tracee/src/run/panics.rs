//! The first panic of a Rust program that goes on after it.
//!
//! A panic unwinds its thread. Whoever waits for that thread, or takes a lock that it left poisoned, panics in turn, and the
//! process ends with a status when `main` was unwound or returned: nothing of the failure is left then. So the thread that
//! panics first is stopped on its way, when its stack and those of the others are still there. A probe does it, which costs
//! nothing until somebody panics. Where there can be none, what was written to standard error has to do.

use std::path::Path;

use failure::image::{ModuleFiles, panic_message};
use failure::report::Report;
use program::elf::Elf;
use program::{FileOffset, LinkAddr, RunAddr};

use super::follow::{Follow, RunError};
use super::stacks;
use crate::bpf::{HitProgram, HitRing, ManyProbes, RawHit, Then};
use crate::ids::{Pid, Tid};
use crate::perf::ProbeFile;
use crate::process::{Memory, Module, ModuleMap, ProcessError};
use crate::ptrace::{SigInfo, Stop, TraceError};

/// Room for the panics of many threads at once.
const RING: usize = 1 << 16;

/// A panic that the program went on after.
#[derive(Debug)]
pub(super) struct Panicked {
    /// The thread, until it has told what it panics about.
    untold: Option<Tid>,
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub(super) time_ns: u64,
    /// The stacks then, and what it said.
    pub(super) report: Report,
}

/// Stops the first thread that panics.
#[derive(Debug, Default)]
pub(super) struct Panics {
    probes: Option<Probes>,
}

#[derive(Debug)]
struct Probes {
    ring: HitRing,
    program: HitProgram,
    links: Vec<ManyProbes>,
    /// The program's entry: when it gets there, its libraries are loaded.
    entry: Option<RunAddr>,
    /// Where panics come by last, with what they say.
    told_at: Vec<RunAddr>,
    /// Hits of threads whose stops are still to come.
    hits: Vec<RawHit>,
}

/// Where panics come by in a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Places {
    /// `rust_begin_unwind`, to which `core` hands them over: nothing was done about them yet.
    begun: Option<LinkAddr>,
    /// `rust_panic`, which the standard library has for debuggers: whatever hook there is has run.
    told: Option<LinkAddr>,
}

impl Panics {
    /// For a process that is about to execute its first instruction.
    pub(super) fn of(pid: Pid, files: &dyn ModuleFiles) -> Self {
        Self {
            probes: Probes::of(pid, files),
        }
    }
}

impl Probes {
    fn of(pid: Pid, files: &dyn ModuleFiles) -> Option<Self> {
        let modules = ModuleMap::of(pid).ok()?;
        let executable = modules.executable()?;
        let elf = elf(executable, files)?;
        let places = Places::of(&elf);
        let in_library = places == Places::default() && links_library(&elf);
        if places == Places::default() && !in_library {
            return None;
        }
        let ring = HitRing::new(RING, 8).ok()?;
        ring.only(Some(pid));
        let program = HitProgram::for_many_probes(&ring, 0, &[], Then::Stop).ok()?;
        let mut probes = Self {
            ring,
            program,
            links: Vec::new(),
            entry: None,
            told_at: Vec::new(),
            hits: Vec::new(),
        };
        if in_library {
            let offset = elf.segments().to_file_offset(elf.entry())?;
            probes.link(&modules, executable, &[offset])?;
            probes.entry = executable.to_run(elf.entry());
        } else {
            probes.set(&modules, executable, &elf, &places)?;
        }
        Some(probes)
    }

    /// The libraries are there: sets the probes in that of the language.
    fn enter(&mut self, pid: Pid, files: &dyn ModuleFiles) -> Option<()> {
        self.links.clear();
        let modules = ModuleMap::of(pid).ok()?;
        let mut all = modules.modules().iter();
        let library = all.find(|module| is_library(&module.mapped.path))?;
        let elf = elf(library, files)?;
        self.set(&modules, library, &elf, &Places::of(&elf))
    }

    fn set(&mut self, modules: &ModuleMap, module: &Module, elf: &Elf<'_>, places: &Places) -> Option<()> {
        let places_of = [places.begun, places.told].into_iter().flatten();
        let offsets = places_of.filter_map(|place| elf.segments().to_file_offset(place));
        let mut offsets: Vec<FileOffset> = offsets.collect();
        offsets.sort_unstable();
        self.told_at
            .extend(places.told.and_then(|told| module.to_run(told)));
        self.link(modules, module, &offsets)
    }

    fn link(&mut self, modules: &ModuleMap, module: &Module, offsets: &[FileOffset]) -> Option<()> {
        let file = ProbeFile::at(&modules.file(module)?);
        let link = ManyProbes::open(&self.program, &file, offsets, modules.pid()).ok()?;
        self.links.push(link);
        Some(())
    }

    /// The hit that a thread was stopped for.
    fn caught(&mut self, tid: Tid) -> Option<RawHit> {
        let hits = &mut self.hits;
        self.ring.read(|hit| hits.push(hit));
        let found = self.hits.iter().position(|hit| hit.tid == tid)?;
        Some(self.hits.remove(found))
    }
}

impl Places {
    fn of(elf: &Elf<'_>) -> Self {
        let mut places = Self::default();
        for symbol in elf.symtab().defined().chain(elf.dynsym().defined()) {
            let place = match symbol.name {
                name if is_named(name, "rust_panic", "10rust_panic") => &mut places.told,
                name if is_named(name, "rust_begin_unwind", "17rust_begin_unwind") => &mut places.begun,
                _ => continue,
            };
            place.get_or_insert(symbol.addr);
        }
        places
    }
}

/// Symbols that the standard library and the compiler agree on were not mangled once, and are `__rustc::NAME` now.
fn is_named(symbol: &str, plain: &str, mangled: &str) -> bool {
    let of_compiler = |symbol: &str| symbol.starts_with("_RNvC") && symbol.ends_with("7___rustc");
    symbol == plain || symbol.strip_suffix(mangled).is_some_and(of_compiler)
}

fn elf<'f>(module: &Module, files: &'f dyn ModuleFiles) -> Option<Elf<'f>> {
    let bytes = files.module(&module.mapped.path, module.mapped.build_id.as_ref())?;
    let elf = Elf::parse(bytes).ok()?;
    // A file that was replaced has its functions elsewhere.
    (elf.build_id() == module.mapped.build_id).then_some(elf)
}

/// The standard library as a shared one, whose name has a hash in it.
const LIBRARY: &str = "libstd-";

fn is_library(path: &str) -> bool {
    let name = Path::new(path).file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(LIBRARY))
}

fn links_library(elf: &Elf<'_>) -> bool {
    let names = elf.section(".dynstr").map_or(&[][..], |(_, names)| names);
    names
        .split(|&byte| byte == 0)
        .any(|name| name.starts_with(LIBRARY.as_bytes()))
}

impl Follow<'_, '_, '_> {
    /// Whether a thread was stopped because it panics, or because the program begins; then it is to go on without the
    /// signal.
    pub(super) fn panicking(&mut self, stop: &Stop, info: &SigInfo) -> Result<bool, RunError> {
        let Some(probes) = self.panics.probes.as_mut().filter(|_| info.is_of_probe()) else {
            return Ok(false);
        };
        let Some(hit) = probes.caught(stop.tid) else {
            return Ok(false);
        };
        if probes.entry == Some(hit.addr) {
            probes.entry = None;
            // Without the library there are no probes, and what was written has to do.
            let _set = probes.enter(stop.pid, self.options.modules);
            return Ok(true);
        }
        let tells = probes.told_at.contains(&hit.addr);
        if self.evidence.panicked.is_none() && self.evidence.failure.is_none() {
            let taken = stacks::of_all(&mut self.tracer, stop.pid, Some(stop.tid), None, self.options);
            let mut report = match taken {
                // Another thread ended the process, and was faster.
                Err(TraceError::Process(ProcessError::Gone(_))) => return Ok(true),
                other => other?,
            };
            report.message = None;
            self.each_tracker(|tracker, tracer| tracker.panicking(tracer, &report))?;
            self.tracer.resume_interrupted()?;
            // The others may go on for ever, and the process be killed.
            self.subject = self.processes.find_other(stop.pid, self.launched);
            self.evidence.panicked = Some(Panicked {
                untold: Some(stop.tid),
                time_ns: hit.time_ns,
                report,
            });
        }
        let is_it = |first: &&mut Panicked| tells && first.untold == Some(stop.tid);
        if let Some(first) = self.evidence.panicked.as_mut().filter(is_it) {
            let memory = Memory::of(stop.pid);
            let (payload, vtable) = (RunAddr(hit.registers.rdi), RunAddr(hit.registers.rsi));
            first.report.message = panic_message(payload, vtable, &|addr, len| memory.read(addr, len));
            first.untold = None;
            // Those that follow are of no interest. Who comes by before the probes are gone is still to be let go.
            if let Some(probes) = &mut self.panics.probes {
                probes.links.clear();
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_old_and_new_compilers() {
        let panics = |symbol| is_named(symbol, "rust_panic", "10rust_panic");
        assert!(panics("rust_panic"));
        assert!(panics("_RNvCsfLfy6EI15iL_7___rustc10rust_panic"));
        assert!(!panics("_RNvCsfLfy6EI15iL_7___rustc20___rust_panic_cleanup"));
        assert!(!panics("_RNvCs1234_7my_rust10rust_panic"), "a program's own");
        assert!(
            !panics("_ZN4demo10rust_panic17h0123456789abcdefE"),
            "a program's own"
        );
    }
}

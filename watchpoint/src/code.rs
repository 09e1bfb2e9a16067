//! The code of a process, read from the files that it has mapped.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use elsa::FrozenMap;
use program::RunAddr;
use program::code::Code;
use program::elf::Elf;
use tracee::MappedFile;
use tracee::process::ModuleMap;

use crate::access::CodeMap;
use crate::watcher::{Probe, module_at};

/// Files of code, kept for as long as something is looked up in them.
#[derive(Default)]
pub struct CodeFiles {
    files: FrozenMap<PathBuf, Box<MappedFile>>,
}

impl CodeFiles {
    fn open(&self, path: PathBuf) -> Option<&[u8]> {
        if let Some(known) = self.files.get(&path) {
            return Some(known);
        }
        let file = MappedFile::open(&path).ok()?;
        Some(self.files.insert(path, Box::new(file)))
    }
}

/// The code of one process: its modules as they are mapped now.
pub struct ProcessCode<'f> {
    files: &'f CodeFiles,
    codes: FrozenMap<String, Box<Option<Code<'f>>>>,
    modules: RefCell<Option<ModuleMap>>,
    /// What the process had mapped before it ran another program, and again another.
    former: Vec<ModuleMap>,
}

/// How many programs that a process ran before are remembered.
const FORMER: usize = 8;

impl<'f> ProcessCode<'f> {
    /// Code of files that `files` keeps.
    #[must_use]
    pub fn new(files: &'f CodeFiles) -> Self {
        Self {
            files,
            codes: FrozenMap::new(),
            modules: RefCell::new(None),
            former: Vec::new(),
        }
    }

    /// What the process has mapped, now.
    pub fn set_modules(&mut self, modules: ModuleMap) {
        // The files are opened now: a process that has ended has none to show.
        for module in modules.modules() {
            if let Some(path) = modules.file(module) {
                self.load(&module.mapped.path, path);
            }
        }
        let program = |map: &ModuleMap| {
            let module = map.executable().map(|module| &module.mapped);
            module.map(|mapped| (mapped.path.clone(), mapped.bias))
        };
        let now = program(&modules);
        let before = self.modules.replace(Some(modules));
        if let Some(before) = before.filter(|before| program(before) != now) {
            self.former.push(before);
            let surplus = self.former.len().saturating_sub(FORMER);
            self.former.drain(..surplus);
        }
    }

    /// What it had mapped when it ran other programs, the first of them first. Hits are told a moment after they happened.
    #[must_use]
    pub fn former_modules(&self) -> &[ModuleMap] {
        &self.former
    }

    /// What the process has mapped, as it was told last.
    #[must_use]
    pub fn modules(&self) -> Option<ModuleMap> {
        self.modules.borrow().clone()
    }

    fn load(&self, name: &str, path: PathBuf) -> Option<&Code<'f>> {
        if let Some(known) = self.codes.get(name) {
            return known.as_ref();
        }
        let bytes = self.files.open(path);
        let elf = bytes.and_then(|bytes| Elf::parse(bytes).ok());
        let code = elf.map(|elf| Code::new(Arc::new(elf)));
        self.codes.insert(name.to_owned(), Box::new(code)).as_ref()
    }

    fn find(&self, at: RunAddr) -> Option<(&Code<'f>, u64)> {
        let modules = self.modules.borrow();
        let (module, _) = modules.as_ref()?.find(at)?;
        let bias = module.mapped.bias?;
        Some((self.codes.get(&module.mapped.path)?.as_ref()?, bias))
    }

    /// The address after the instruction that a probe stands on.
    pub(crate) fn next_after(&self, probe: &Probe) -> Option<RunAddr> {
        let at = {
            let modules = self.modules.borrow();
            let modules = modules.as_ref()?;
            let module = match &probe.module {
                None => modules.executable()?,
                Some(path) => module_at(modules, path)?,
            };
            module.to_run(probe.addr)?
        };
        let (code, bias) = self.find(at)?;
        let flow = code.flow(code.functions().at(probe.addr)?);
        let instruction = flow.instruction(flow.at(probe.addr)?)?;
        Some(RunAddr(instruction.next_ip().wrapping_add(bias)))
    }

    /// Looks again at what a live process has mapped.
    pub fn refresh(&self) {
        let mut modules = self.modules.borrow_mut();
        let Some(map) = modules.as_mut() else {
            return;
        };
        // A process that is ending has nothing mapped any more; what it had is still what its hits are about.
        let mut now = map.clone();
        if now.refresh().is_err() || now.modules().is_empty() {
            return;
        }
        *map = now;
        for module in map.modules() {
            if let Some(path) = map.file(module) {
                self.load(&module.mapped.path, path);
            }
        }
    }
}

impl<'f> CodeMap<'f> for ProcessCode<'f> {
    fn code_at(&self, at: RunAddr) -> Option<(&Code<'f>, u64)> {
        self.find(at)
    }
}

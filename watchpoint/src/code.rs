//! The code of a process, read from the files that it has mapped.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use elsa::FrozenMap;
use program::RunAddr;
use program::code::Code;
use program::elf::Elf;
use tracee::MappedFile;
use tracee::process::ModuleMap;

use crate::access::CodeMap;
use crate::watcher::Probe;

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
    /// Pages of code that is in no module, and when they were looked for.
    missed: RefCell<HashMap<u64, Instant>>,
}

const PAGE: u64 = 4096;
/// How often it is looked whether code that was in no module is in one.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Pages that are remembered.
const MOST_MISSED: usize = 4096;

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
            missed: RefCell::default(),
        }
    }

    /// What the process has mapped, now.
    pub fn set_modules(&mut self, modules: ModuleMap) {
        // The files are opened now: a process that has ended has none to show.
        for module in modules.modules() {
            self.load(&module.mapped.path, || modules.file(module));
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

    fn load(&self, name: &str, path: impl FnOnce() -> Option<PathBuf>) {
        if self.codes.get(name).is_some() {
            return;
        }
        let Some(path) = path() else { return };
        let bytes = self.files.open(path);
        let elf = bytes.and_then(|bytes| Elf::parse(bytes).ok());
        let code = elf.map(|elf| Code::new(Arc::new(elf)));
        self.codes.insert(name.to_owned(), Box::new(code));
    }

    fn find(&self, at: RunAddr) -> Option<(&Code<'f>, u64)> {
        let modules = self.modules.borrow();
        let (module, _) = modules.as_ref()?.find(at)?;
        let bias = module.mapped.bias?;
        Some((self.codes.get(&module.mapped.path)?.as_ref()?, bias))
    }

    /// Where a probe stands.
    pub(crate) fn place_of(&self, probe: &Probe) -> Option<RunAddr> {
        probe.in_process(self.modules.borrow().as_ref()?)
    }

    /// Looks again at what a live process has mapped, for code that is in no module. Code that was made at run time never is, and
    /// neither is what the kernel runs in place of probed instructions: it is looked for when it is first met, and then now and then.
    pub(crate) fn look_for(&self, at: RunAddr) {
        let page = at.0 / PAGE;
        let now = Instant::now();
        let mut missed = self.missed.borrow_mut();
        let lately = missed.get(&page).is_some_and(|last| now - *last < LOOK_AGAIN);
        if lately {
            return;
        }
        if missed.len() >= MOST_MISSED {
            missed.clear();
        }
        missed.insert(page, now);
        self.refresh();
    }

    fn refresh(&self) {
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
            self.load(&module.mapped.path, || map.file(module));
        }
    }
}

impl<'f> CodeMap<'f> for ProcessCode<'f> {
    fn code_at(&self, at: RunAddr) -> Option<(&Code<'f>, u64)> {
        self.find(at)
    }
}

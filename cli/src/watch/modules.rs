//! The modules of a watched process, opened when an access or a name leads there.

use std::cell::RefCell;
use std::path::PathBuf;

use elsa::FrozenMap;
use program::{Module, ModuleId, Pc, Program, RunAddr};
use tracee::process::ModuleMap;
use tracee::{ProgramFiles, is_system_path};

/// Every program that is opened here has one module.
const ONLY: ModuleId = ModuleId(0);

/// The modules of one process.
pub struct ProcessModules<'o> {
    files: &'o ProgramFiles,
    map: RefCell<Option<ModuleMap>>,
    /// What it had mapped before it ran another program: accesses are shown a moment after they happened.
    former: RefCell<Vec<ModuleMap>>,
    programs: FrozenMap<String, Box<Option<Program<'o>>>>,
}

impl<'o> ProcessModules<'o> {
    /// Of a process whose mappings are not known yet.
    pub fn new(files: &'o ProgramFiles) -> Self {
        Self {
            files,
            map: RefCell::new(None),
            former: RefCell::default(),
            programs: FrozenMap::new(),
        }
    }

    /// What the process has mapped now.
    pub fn set(&self, map: ModuleMap) {
        self.map.replace(Some(map));
    }

    /// What it had mapped when it ran other programs.
    pub fn set_former(&self, maps: &[ModuleMap]) {
        self.former.replace(maps.to_vec());
    }

    /// The executable, as a program.
    pub fn executable(&self) -> Option<&Program<'o>> {
        let path = self.map.borrow().as_ref()?.executable()?.mapped.path.clone();
        self.program(&path)
    }

    /// Every module but the executable, with its path, in address order.
    pub fn libraries(&self) -> impl Iterator<Item = (PathBuf, &Program<'o>)> {
        let map = self.map.borrow();
        let executable = map.as_ref().and_then(ModuleMap::executable);
        let modules = map.as_ref().map_or(&[][..], ModuleMap::modules);
        let others = modules.iter().filter(|&module| Some(module) != executable);
        let paths: Vec<String> = others.map(|module| module.mapped.path.clone()).collect();
        paths
            .into_iter()
            .filter_map(|path| Some((PathBuf::from(&path), self.program(&path)?)))
    }

    /// The program that has its code at an address, and the address there.
    pub fn find(&self, at: RunAddr) -> Option<(&Program<'o>, Pc)> {
        let (path, addr) = {
            let (map, former) = (self.map.borrow(), self.former.borrow());
            let mut maps = map.iter().chain(former.iter().rev());
            let (module, addr) = maps.find_map(|map| map.find(at))?;
            (module.mapped.path.clone(), addr)
        };
        Some((self.program(&path)?, Pc { module: ONLY, addr }))
    }

    fn program(&self, path: &str) -> Option<&Program<'o>> {
        if let Some(known) = self.programs.get(path) {
            return known.as_ref();
        }
        let file = {
            let (map, former) = (self.map.borrow(), self.former.borrow());
            let mut maps = map.iter().chain(former.iter().rev());
            let (map, module) = maps.find_map(|map| {
                let mut modules = map.modules().iter();
                Some((map, modules.find(|module| module.mapped.path == path)?))
            })?;
            // A process that has ended has no files to show; the one at the path is most likely the same.
            map.file(module).unwrap_or_else(|| PathBuf::from(path))
        };
        let module = self.files.module(&file).ok();
        let program = module.map(|module| {
            Program::new(vec![if is_system_path(path) {
                module.as_library()
            } else {
                module
            }])
        });
        self.programs.insert(path.to_owned(), Box::new(program)).as_ref()
    }
}

/// The module of a program that has one.
pub fn only_module<'p, 'o>(program: &'p Program<'o>) -> Option<&'p Module<'o>> {
    program.module(ONLY)
}

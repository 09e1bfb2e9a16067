//! Addresses of a process as places in the program.

use program::{Attribution, ModuleId, Pc, Program, RunAddr};
use slicer::dependence::locks;

use crate::record::ModuleRecord;

/// The modules of a process, matched with those of the program.
pub(crate) struct Places<'r, 'p, 'a> {
    pub(crate) program: &'p Program<'a>,
    mapped: &'r [ModuleRecord],
    modules: Vec<(&'r ModuleRecord, ModuleId)>,
}

impl<'r, 'p, 'a> Places<'r, 'p, 'a> {
    pub(crate) fn new(program: &'p Program<'a>, mapped: &'r [ModuleRecord]) -> Self {
        let modules = mapped.iter().filter_map(|record| {
            let same = |&(id, module): &(ModuleId, &program::Module<'_>)| {
                let named = match record.executable {
                    true => id == ModuleId(0),
                    false => module.name() == record.path,
                };
                // Another host may have another build of a library at the same path: its addresses mean something else.
                let (here, there) = (module.elf().build_id(), record.build_id.as_ref());
                named && here.as_ref().zip(there).is_none_or(|(here, there)| here == there)
            };
            let (id, _) = program.modules().find(same)?;
            Some((record, id))
        });
        Self {
            program,
            mapped,
            modules: modules.collect(),
        }
    }

    /// Whether an address of the process is in a file at all.
    pub(crate) fn is_mapped(&self, addr: RunAddr) -> bool {
        self.mapped.iter().any(|record| record.to_link(addr).is_some())
    }

    /// An address of the process in the program, if the program has the file.
    pub(crate) fn place(&self, addr: RunAddr) -> Option<Pc> {
        self.modules.iter().find_map(|(record, module)| {
            let addr = record.to_link(addr)?;
            Some(Pc {
                module: *module,
                addr,
            })
        })
    }

    /// Where the program's own code made an access, or called whoever made it.
    pub(crate) fn own(&self, pc: RunAddr, callers: &[RunAddr]) -> Option<Pc> {
        let calls = callers.iter().map(|back| back.offset(-1));
        let places = std::iter::once(pc).chain(calls);
        places
            .filter_map(|addr| self.place(addr))
            .find(|&pc| self.is_own(pc))
    }

    /// How many calls led from the program's own code to whoever made an access: 0 if that was itself.
    pub(crate) fn calls_to(&self, pc: RunAddr, callers: &[RunAddr]) -> u32 {
        let calls = callers.iter().map(|back| back.offset(-1));
        let places = std::iter::once(pc).chain(calls);
        let own = |addr| self.place(addr).is_some_and(|pc| self.is_own(pc));
        u32::try_from(places.take_while(|&addr| !own(addr)).count()).unwrap_or(u32::MAX)
    }

    /// Whether an access was made for a lock, or for a count of references: in the code of one that the program was compiled with, or in a
    /// library that was called for it.
    pub(crate) fn keeps_order(&self, pc: RunAddr, callers: &[RunAddr]) -> bool {
        let calls = callers.iter().map(|back| back.offset(-1));
        let places = std::iter::once((pc, false)).chain(calls.map(|call| (call, true)));
        for (pc, calls) in places.filter_map(|(addr, calls)| Some((self.place(addr)?, calls))) {
            if calls && locks::is_called(self.program, pc) {
                return true;
            }
            let module = self.program.module(pc.module);
            if module.is_some_and(|module| locks::keeps_order(module, pc.addr)) {
                return true;
            }
            if self.is_own(pc) {
                break;
            }
        }
        false
    }

    /// Whether an address is in the program's own code, and not in that of a library.
    pub(crate) fn is_own(&self, pc: Pc) -> bool {
        let own_module = self
            .program
            .module(pc.module)
            .is_some_and(|module| !module.is_library());
        own_module && self.program.statement_at(pc) != Attribution::Library
    }
}

//! A program: the executable and those shared objects that are looked into.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::addr::{ModuleId, Pc};
use crate::code::{FunctionId, InstrIx};
use crate::module::Module;
use crate::statement::{Attribution, Statement, is_library_path};

/// A function of a program of several modules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FunctionRef {
    /// The module.
    pub module: ModuleId,
    /// The function in it.
    pub function: FunctionId,
}

/// Several modules that run as one program; the executable is the first.
pub struct Program<'a> {
    modules: Vec<Module<'a>>,
    /// Attribution asks the line table and the inline tree; a slice asks for the same instruction often.
    attributions: Mutex<HashMap<Pc, Attribution>>,
}

impl<'a> Program<'a> {
    /// A program of these modules, executable first.
    #[must_use]
    pub fn new(modules: Vec<Module<'a>>) -> Self {
        Self {
            modules,
            attributions: Mutex::new(HashMap::new()),
        }
    }

    /// A module.
    #[must_use]
    pub fn module(&self, id: ModuleId) -> Option<&Module<'a>> {
        self.modules.get(id.0 as usize)
    }

    /// All modules with their numbers.
    pub fn modules(&self) -> impl Iterator<Item = (ModuleId, &Module<'a>)> {
        (0..).map(ModuleId).zip(&self.modules)
    }

    /// The function that an address is in.
    #[must_use]
    pub fn function_at(&self, pc: Pc) -> Option<FunctionRef> {
        let function = self.module(pc.module)?.code().functions().at(pc.addr)?;
        Some(FunctionRef {
            module: pc.module,
            function,
        })
    }

    /// The start of the instruction that an address is in.
    #[must_use]
    pub fn instruction_at(&self, pc: Pc) -> Option<Pc> {
        let function = self.function_at(pc)?;
        let flow = self.module(pc.module)?.code().flow(function.function);
        let addr = flow.addr(flow.containing(pc.addr)?)?;
        Some(Pc { addr, ..pc })
    }

    /// The function that an import of this name means, if one of the modules defines it.
    #[must_use]
    pub fn exported(&self, symbol: &str) -> Option<FunctionRef> {
        self.modules().find_map(|(module, file)| {
            let addr = file.exported(symbol)?;
            let function = file.code().functions().at(addr)?;
            Some(FunctionRef { module, function })
        })
    }

    /// A function's symbol, as it stands in the file.
    #[must_use]
    pub fn symbol(&self, id: FunctionRef) -> Option<&'a str> {
        self.module(id.module)?
            .code()
            .functions()
            .get(id.function)?
            .symbol
    }

    /// Whether a function is the program's own: written by its people, not a library's.
    #[must_use]
    pub fn is_own(&self, id: FunctionRef) -> bool {
        let Some(module) = self.module(id.module) else {
            return false;
        };
        let Some(function) = module.code().functions().get(id.function) else {
            return false;
        };
        if module.is_library() {
            return false;
        }
        if !module.has_debug_information() {
            return true;
        }
        let described = module.sources().function_at(function.entry);
        let file = described.and_then(|described| described.decl_file);
        match file {
            Some(file) => !is_library_path(&file),
            // Closures and other compiler-named functions have no declaration of their own: go by a line.
            None => matches!(
                self.statement_at(Pc {
                    module: id.module,
                    addr: module.body_of(function.entry)
                }),
                Attribution::Statement(_)
            ),
        }
    }

    /// How many parameters a function was declared with.
    #[must_use]
    pub fn parameter_count(&self, id: FunctionRef) -> Option<usize> {
        let module = self.module(id.module)?;
        let function = module.code().functions().get(id.function)?;
        module
            .sources()
            .function_at(function.entry)
            .map(|described| described.parameters.len())
    }

    /// Every instruction that calls a function, by address.
    #[must_use]
    pub fn callers_of(&self, id: FunctionRef) -> Vec<Pc> {
        let Some(module) = self.module(id.module) else {
            return Vec::new();
        };
        let sites = module.callers_of(id.function);
        let mut callers: Vec<Pc> = sites
            .into_iter()
            .map(|site| Pc {
                module: id.module,
                addr: site.at,
            })
            .collect();
        callers.sort_unstable();
        callers.dedup();
        callers
    }

    /// Whom an instruction belongs to.
    #[must_use]
    pub fn statement_at(&self, pc: Pc) -> Attribution {
        let known = || self.attributions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(&pc) {
            return found.clone();
        }
        // Found out without holding the lock: twice at worst, with the same result.
        let found = self.attribute(pc);
        known().insert(pc, found.clone());
        found
    }

    /// The last instruction before `pc`, in its function, that a compiler gave a line. Code that serves several
    /// lines at once has none of its own (clang's line 0), but a failure in it is shown where it happened.
    #[must_use]
    pub fn with_line_before(&self, pc: Pc) -> Option<Pc> {
        const FAR: usize = 64;
        let function = self.function_at(pc)?;
        let module = self.module(pc.module)?;
        let flow = module.code().flow(function.function);
        let at = flow.containing(pc.addr)?;
        let innermost = |addr| module.sources().frames_at(addr).into_iter().next();
        let wanted = innermost(pc.addr)?.function;
        let earlier = (0..at.0).rev().take(FAR).filter_map(|ix| flow.addr(InstrIx(ix)));
        let found = earlier
            .filter_map(|addr| Some((addr, innermost(addr)?)))
            .find(|(_, frame)| frame.line > 0 && frame.function == wanted);
        found.map(|(addr, _)| Pc { addr, ..pc })
    }

    fn attribute(&self, pc: Pc) -> Attribution {
        let Some(module) = self.module(pc.module) else {
            return Attribution::Library;
        };
        if module.is_library() {
            return Attribution::Library;
        }
        let frames = module.sources().frames_at(pc.addr);
        if frames.is_empty() {
            if module.has_debug_information() {
                return Attribution::Library;
            }
            let function = module
                .name_of_function_at(pc.addr)
                .unwrap_or_else(|| Arc::from("??"));
            return Attribution::Statement(Statement {
                function,
                file: None,
                line: None,
                pc,
            });
        }
        let own = frames
            .iter()
            .enumerate()
            .filter(|(_, frame)| !frame.implicit)
            .find(|(_, frame)| frame.file.as_deref().is_some_and(|file| !is_library_path(file)));
        match own {
            None => Attribution::Library,
            Some((_, frame)) if frame.line == 0 => Attribution::CompilerMade,
            Some((0, frame))
                if !frame.inlined && module.is_entry_or_exit(pc.addr, frame.line, frame.column) =>
            {
                Attribution::CompilerMade
            }
            Some((_, frame)) => Attribution::Statement(Statement {
                // Line tables without functions leave the symbols: a split object that is not there.
                function: frame
                    .function
                    .clone()
                    .or_else(|| module.name_of_function_at(pc.addr))
                    .unwrap_or_else(|| Arc::from("??")),
                file: frame.file.clone(),
                line: Some(frame.line),
                pc,
            }),
        }
    }
}

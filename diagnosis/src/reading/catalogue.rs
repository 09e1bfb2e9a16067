//! Numbers for what the runs of a bug have in common.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use program::code::{AccessKind, InstrIx, Target};
use program::expression::Shape as TypeShape;
use program::naming::{AccessName, Namer, name_in_callee};
use program::values::{Gpr, PlacedAccess, Values};
use program::{Attribution, LinkAddr, ModuleId, Pc, Program, Statement, StatementKey, is_library_path};

use super::alike::same_member;
use super::globals::Globals;
use crate::fixed::Place;
use crate::record::WatchedRecord;
use crate::run::{
    Because, BranchId, BranchInfo, Catalogue, Gave, LocationId, LocationInfo, Shape, SlicePlace, StatementId,
    StatementInfo,
};
use crate::tracking::results;

/// The module of the access that a location is watched for, its instruction, the argument, which of its bytes and how many; or the module
/// and the call of a result.
type LocationKey = (Option<String>, u64, Option<(u8, i64)>, u32, u32, bool);

/// Fills a [`Catalogue`]: what comes for the first time gets the next number.
#[derive(Default)]
pub struct Cataloguer {
    catalogue: Catalogue,
    statements: HashMap<StatementKey, StatementId>,
    locations: HashMap<LocationKey, LocationId>,
    /// What code calls them exactly.
    names: HashMap<LocationId, String>,
    branches: HashMap<Pc, BranchId>,
    /// Locations that were put together with one that was known before.
    together: HashMap<LocationId, LocationId>,
    /// Accesses that were asked for a location's name.
    tried: HashSet<(LocationId, Pc)>,
    /// Reads that were looked at as a check and its use.
    checked: HashSet<(Pc, Pc)>,
    globals: Globals,
    /// What is put into which variable, of locations that have no other name.
    received: BTreeMap<LocationId, Arc<str>>,
}

impl Cataloguer {
    /// What there is so far.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Says whether threads wait for news in the failure.
    pub(crate) fn waits_for_news(&mut self, waits: bool) {
        self.catalogue.waits = waits;
    }

    /// The same with the names of globals, and of the copies of what no access has a name for, for people: numbers go by what code calls
    /// them.
    #[must_use]
    pub fn with_globals(&self) -> Cow<'_, Catalogue> {
        let other = |&(location, name): &(LocationId, &Arc<str>)| {
            let info = self.catalogue.locations.get(location.0 as usize);
            info.is_some_and(|info| info.variable.as_ref() != Some(name))
        };
        let mut named = Cow::Borrowed(&self.catalogue);
        for (location, name) in self.globals.names().filter(other) {
            if let Some(info) = named.to_mut().locations.get_mut(location.0 as usize) {
                info.variable = Some(Arc::clone(name));
            }
        }
        let nameless = |&(location, _): &(&LocationId, &Arc<str>)| {
            let info = self.catalogue.locations.get(location.0 as usize);
            info.is_some_and(|info| info.variable.is_none())
        };
        for (location, name) in self.received.iter().filter(nameless) {
            let info = named.to_mut().locations.get_mut(location.0 as usize);
            if let Some(info) = info.filter(|info| info.variable.is_none()) {
                info.variable = Some(Arc::clone(name));
            }
        }
        named
    }

    /// A run had a location in a place of a file's data, or elsewhere.
    pub(crate) fn was_at(
        &mut self,
        location: LocationId,
        place: Option<Place>,
        access: Pc,
        program: &Program<'_>,
    ) {
        let info = self.catalogue.locations.get(location.0 as usize);
        if let Some(width) = info.map(|info| info.width) {
            self.globals.was_at(location, place, access, width, program);
        }
    }

    /// The number of a statement.
    pub fn statement(&mut self, statement: &Statement, program: &Program<'_>) -> StatementId {
        let next = StatementId(count(self.catalogue.statements.len()));
        let number = *self.statements.entry(statement.key()).or_insert(next);
        if number == next {
            let module = program.module(statement.pc.module);
            let module = module.filter(|_| statement.pc.module != ModuleId(0));
            self.catalogue.statements.push(StatementInfo {
                function: statement.function.clone(),
                file: statement.file.clone(),
                line: statement.line,
                pc: statement.pc.addr.0,
                module: module.map(|module| module.name().into()),
                text: None,
                slice: None,
                because: None,
                creates: false,
                takes: false,
                gave: None,
            });
        }
        number
    }

    /// The number of the statement that an instruction belongs to; code that nobody wrote belongs to whatever
    /// leads there.
    pub fn statement_at(&mut self, pc: Pc, program: &Program<'_>) -> Option<StatementId> {
        let pc = program.instruction_at(pc).unwrap_or(pc);
        match slicer::slice::failing_statement(program, pc) {
            Attribution::Statement(statement) => Some(self.statement(&statement, program)),
            Attribution::CompilerMade => {
                let function = program.module(pc.module)?.name_of_function_at(pc.addr)?;
                let statement = Statement {
                    function,
                    file: None,
                    line: None,
                    pc,
                };
                Some(self.statement(&statement, program))
            }
            Attribution::Library => None,
        }
    }

    /// The number of the statement that an instruction belongs to, and those of the calls that were inlined around it, innermost
    /// first.
    pub fn statements_at(&mut self, pc: Pc, program: &Program<'_>) -> Vec<StatementId> {
        let mut statements: Vec<StatementId> = self.statement_at(pc, program).into_iter().collect();
        let Some(module) = program.module(pc.module) else {
            return statements;
        };
        let frames = module.sources().frames_at(pc.addr);
        let own = frames
            .into_iter()
            .filter(|frame| frame.file.as_deref().is_some_and(|file| !is_library_path(file)));
        for frame in own.skip(1).filter(|frame| frame.line > 0) {
            let Some(function) = frame.function else {
                continue;
            };
            let call = Statement {
                function,
                file: frame.file,
                line: Some(frame.line),
                pc,
            };
            statements.push(self.statement(&call, program));
        }
        statements.dedup();
        statements
    }

    /// What is known of the statement that an instruction belongs to, if it has a number.
    #[must_use]
    pub fn known_at(&self, pc: Pc, program: &Program<'_>) -> Option<&StatementInfo> {
        let number = self.number_at(pc, program)?;
        self.catalogue.statements.get(number.0 as usize)
    }

    /// Its number.
    #[must_use]
    pub fn number_at(&self, pc: Pc, program: &Program<'_>) -> Option<StatementId> {
        let pc = program.instruction_at(pc).unwrap_or(pc);
        let Attribution::Statement(statement) = slicer::slice::failing_statement(program, pc) else {
            return None;
        };
        self.statements.get(&statement.key()).copied()
    }

    /// One of a statement's instructions.
    #[must_use]
    pub fn pc_of(&self, statement: StatementId, program: &Program<'_>) -> Option<Pc> {
        let info = self.catalogue.statements.get(statement.0 as usize)?;
        Some(Pc {
            module: module_named(info.module.as_deref(), program)?,
            addr: LinkAddr(info.pc),
        })
    }

    /// The number of the statement that an instruction belongs to, if it is in the slice.
    #[must_use]
    pub fn in_slice_at(&self, pc: Pc, program: &Program<'_>) -> Option<StatementId> {
        let Attribution::Statement(statement) = program.statement_at(pc) else {
            return None;
        };
        let number = *self.statements.get(&statement.key())?;
        let info = self.catalogue.statements.get(number.0 as usize)?;
        info.slice.is_some().then_some(number)
    }

    /// Notes where a statement stands in the slice, and what it is there for.
    pub fn place_in_slice(&mut self, statement: StatementId, place: SlicePlace, because: Option<Because>) {
        if let Some(info) = self.catalogue.statements.get_mut(statement.0 as usize)
            && info.slice.is_none()
        {
            info.slice = Some(place);
            info.because = because;
        }
    }

    /// Notes that a statement creates a thread.
    pub fn creates_thread(&mut self, statement: StatementId) {
        if let Some(info) = self.catalogue.statements.get_mut(statement.0 as usize) {
            info.creates = true;
        }
    }

    /// Notes that a statement takes a lock.
    pub fn takes_lock(&mut self, statement: StatementId) {
        if let Some(info) = self.catalogue.statements.get_mut(statement.0 as usize) {
            info.takes = true;
        }
    }

    /// Notes that a statement loaded what the failing thread failed of.
    pub fn gave(&mut self, statement: StatementId, what: Gave) {
        if let Some(info) = self.catalogue.statements.get_mut(statement.0 as usize) {
            info.gave = Some(what);
        }
    }

    /// Notes what a statement outside the slice is there for, unless that is known.
    pub fn is_there_for(&mut self, statement: StatementId, because: Because) {
        if let Some(info) = self.catalogue.statements.get_mut(statement.0 as usize)
            && info.slice.is_none()
            && because.of != statement
        {
            info.because.get_or_insert(because);
        }
    }

    /// The number of a watched location.
    pub fn location(&mut self, watched: &WatchedRecord, program: &Program<'_>) -> LocationId {
        let key = (
            watched.module.clone(),
            watched.access.0,
            watched.passed,
            watched.within,
            watched.width,
            watched.result,
        );
        if let Some(&known) = self.locations.get(&key) {
            return known;
        }
        if watched.result {
            let number = LocationId(count(self.catalogue.locations.len()));
            self.catalogue.locations.push(LocationInfo {
                variable: results::name(watched, program).map(Into::into),
                width: watched.width,
                shape: Shape::Pointer,
                of_library: false,
            });
            self.locations.insert(key, number);
            return number;
        }
        let name = access_name(watched, program);
        // The same field that several statements access is one location.
        let mut numbered = (0..).map(LocationId).zip(&self.catalogue.locations);
        let same = |(number, info): &(LocationId, &LocationInfo)| {
            let exact = name.as_ref().map(|name| &name.exact);
            exact.is_some() && self.names.get(number) == exact && info.width == watched.width
        };
        if let Some((number, _)) = numbered.find(same) {
            let number = self.together.get(&number).copied().unwrap_or(number);
            self.locations.insert(key, number);
            return number;
        }
        let number = LocationId(count(self.catalogue.locations.len()));
        let received = match name {
            Some(_) => None,
            None => name_received(watched, program),
        };
        let is_named = name.is_some() || received.is_some();
        self.catalogue.locations.push(LocationInfo {
            variable: name.as_ref().map(|name| name.path.as_str().into()),
            width: watched.width,
            shape: name
                .as_ref()
                .or(received.as_ref())
                .map_or(Shape::Unknown, |name| shape(&name.shape)),
            of_library: !is_named
                && accessed_at(watched, program).is_some_and(|pc| is_of_library(pc, program)),
        });
        if let Some(name) = name {
            self.names.insert(number, name.exact);
        }
        if let Some(received) = received {
            self.received.insert(number, received.path.into());
        }
        self.locations.insert(key, number);
        number
    }

    /// Takes in that an instruction came by where a location was. If it accesses a member of the same name, and is what another location is
    /// watched for, the two are one from now on: the one that was known first, which is returned, and the other.
    pub(crate) fn put_together(
        &mut self,
        watched: &WatchedRecord,
        at: Pc,
        program: &Program<'_>,
    ) -> Option<(LocationId, LocationId)> {
        let module = program.module(at.module).filter(|_| at.module != ModuleId(0));
        let module = module.map(|module| module.name().to_owned());
        let key = (module, at.addr.0, None, 0, watched.width, false);
        let known = *self.locations.get(&key)?;
        let here = self.location(watched, program);
        if known == here || watched.within != 0 || watched.result {
            return None;
        }
        let other = WatchedRecord {
            module: key.0,
            access: at.addr,
            passed: None,
            fixed: None,
            always_at: None,
            ..watched.clone()
        };
        if !same_member(watched, &other, program) {
            return None;
        }
        let (kept, gone) = (known.min(here), known.max(here));
        for number in self.locations.values_mut().filter(|number| **number == gone) {
            *number = kept;
        }
        for into in self.together.values_mut().filter(|into| **into == gone) {
            *into = kept;
        }
        self.together.insert(gone, kept);
        Some((kept, gone))
    }

    /// The accesses that a location was watched for: the module (`None` for the executable) and the instruction.
    #[must_use]
    pub fn accesses_of(&self, location: LocationId) -> BTreeSet<(Option<&str>, LinkAddr)> {
        let keys = self
            .locations
            .iter()
            .filter(|(key, number)| **number == location && !key.5);
        keys.map(|((module, access, ..), _)| (module.as_deref(), LinkAddr(*access)))
            .collect()
    }

    /// Names a location that has no name where it is watched for, by an access to it that has: the result of a call is
    /// in no variable there, and in one somewhere else.
    pub fn name_by(&mut self, location: LocationId, pc: Pc, program: &Program<'_>) {
        let Some(info) = self.catalogue.locations.get_mut(location.0 as usize) else {
            return;
        };
        let is_result = self
            .locations
            .iter()
            .any(|(key, number)| key.5 && *number == location);
        if is_result || info.variable.is_some() || !self.tried.insert((location, pc)) {
            return;
        }
        // Which bytes of a wider access the location is, its name does not tell.
        let width = info.width;
        let name = with_namer(pc, program, |namer, ix, values| {
            let mut accesses = values.accesses(ix).iter();
            namer.name(ix, accesses.find(|access| access.width == Some(width))?)
        });
        if let Some(name) = name {
            info.variable = Some(name.path.as_str().into());
            info.shape = shape(&name.shape);
            self.names.insert(location, name.exact);
        }
    }

    /// A thread made two reads of the same memory, one after the other: the first may be the check of the second.
    pub(crate) fn read_again(
        &mut self,
        first: (Pc, StatementId),
        second: (Pc, StatementId),
        program: &Program<'_>,
    ) {
        let (pair, statements) = ((first.0, second.0), (first.1, second.1));
        let known = first.1 == second.1 || self.catalogue.guards.contains(&statements);
        if !known && self.checked.insert(pair) && slicer::checks::guards(pair.0, pair.1, program) {
            self.catalogue.guards.insert(statements);
        }
    }

    /// The number of a branch.
    pub fn branch(&mut self, pc: Pc, program: &Program<'_>) -> Option<BranchId> {
        if let Some(&known) = self.branches.get(&pc) {
            return Some(known);
        }
        let statement = self.statement_at(pc, program)?;
        let number = BranchId(count(self.catalogue.branches.len()));
        self.catalogue.branches.push(BranchInfo {
            statement,
            pc: pc.addr.0,
            of_library: is_of_library(pc, program),
        });
        self.branches.insert(pc, number);
        Some(number)
    }
}

fn accessed_at(watched: &WatchedRecord, program: &Program<'_>) -> Option<Pc> {
    Some(Pc {
        module: module_named(watched.module.as_deref(), program)?,
        addr: watched.access,
    })
}

/// Whether the innermost function that an instruction belongs to is a library's.
fn is_of_library(pc: Pc, program: &Program<'_>) -> bool {
    let frames = program
        .module(pc.module)
        .map(|module| module.sources().frames_at(pc.addr));
    let innermost = frames.and_then(|frames| frames.into_iter().next());
    let file = innermost.and_then(|frame| frame.file);
    file.is_some_and(|file| is_library_path(&file))
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// The module of a name; the executable has none.
pub(crate) fn module_named(name: Option<&str>, program: &Program<'_>) -> Option<ModuleId> {
    let mut modules = program.modules();
    let (id, _) = modules.find(|(id, module)| match name {
        None => *id == ModuleId(0),
        Some(name) => module.name() == name,
    })?;
    Some(id)
}

/// The source's name of the memory that an access is about.
pub(crate) fn access_name(watched: &WatchedRecord, program: &Program<'_>) -> Option<AccessName> {
    let (id, _) = program.modules().find(|(id, module)| match &watched.module {
        None => *id == ModuleId(0),
        Some(path) => module.name() == path,
    })?;
    let pc = Pc {
        module: id,
        addr: watched.access,
    };
    let by_place = || global_name(pc, watched.always_at?, watched.width, program);
    let by_access = || name_at(pc, watched.passed, watched.within, watched.width, program);
    by_place()
        .or_else(by_access)
        .or_else(|| fixed_name(pc, watched, program))
}

/// The name of what was at a place in a failing run. The next run may find another element there than the access is about: what is one
/// of many is not named by its place.
fn fixed_name(pc: Pc, watched: &WatchedRecord, program: &Program<'_>) -> Option<AccessName> {
    let (module, addr) = watched.fixed.as_ref()?;
    let here = *module == watched.module;
    let name = here.then(|| global_name(pc, *addr, watched.width, program))??;
    (!name.path.contains('[')).then_some(name)
}

/// The name of a variable that is always at one place: everybody who is passed a pointer to it calls it otherwise.
pub(super) fn global_name(pc: Pc, addr: LinkAddr, width: u32, program: &Program<'_>) -> Option<AccessName> {
    with_namer(pc, program, |namer, ix, _| namer.name_static(ix, addr, width))
}

/// The name of bytes that an instruction accesses, or the callee of a call behind an argument.
pub(crate) fn name_at(
    pc: Pc,
    passed: Option<(u8, i64)>,
    within: u32,
    width: u32,
    program: &Program<'_>,
) -> Option<AccessName> {
    with_namer(pc, program, |namer, ix, values| {
        if let Some((argument, offset)) = passed {
            let argument = *Gpr::ARGUMENTS.get(usize::from(argument))?;
            let named = namer.name_passed(ix, argument, offset, width);
            return named.or_else(|| name_where_passed(pc, argument, offset, width, program));
        }
        let fits = |access: &&PlacedAccess| access.width == Some(width);
        let accesses = values.accesses(ix);
        if let Some(access) = accesses.iter().find(fits) {
            return namer.name(ix, access);
        }
        let access = accesses.first()?;
        let part = |access: &PlacedAccess| access.width.is_some_and(|whole| whole > width);
        match part(access) {
            true => namer.name_part(ix, access, within, width),
            false => namer.name(ix, access),
        }
    })
}

/// The name of the variable that a call's result is put into.
pub(crate) fn name_of_result(call: Pc, width: u32, program: &Program<'_>) -> Option<AccessName> {
    with_namer(call, program, |namer, ix, _| namer.name_received(ix, width))
}

/// The same of what an access loads.
fn name_received(watched: &WatchedRecord, program: &Program<'_>) -> Option<AccessName> {
    let pc = accessed_at(watched, program)?;
    if watched.passed.is_some() || watched.within != 0 {
        return None;
    }
    with_namer(pc, program, |namer, ix, values| {
        let mut loads = values.accesses(ix).iter();
        let loads =
            loads.any(|access| access.kind == AccessKind::Read && access.width == Some(watched.width));
        namer.name_received(ix, watched.width).filter(|_| loads)
    })
}

/// The name that the callee of a call has for what is behind an argument.
fn name_where_passed(
    call: Pc,
    argument: Gpr,
    offset: i64,
    width: u32,
    program: &Program<'_>,
) -> Option<AccessName> {
    let module = program.module(call.module)?;
    let function = program.function_at(call)?;
    let flow = module.code().flow(function.function);
    let at = flow.at(call.addr)?;
    let mut calls = flow.calls();
    match calls.find(|(ix, ..)| *ix == at)? {
        (_, Target::Function(callee), _) => name_in_callee(module, callee, argument, offset, width),
        _ => None,
    }
}

/// Asks for a name at an instruction.
fn with_namer(
    pc: Pc,
    program: &Program<'_>,
    name: impl FnOnce(&Namer<'_, '_>, InstrIx, &Values) -> Option<AccessName>,
) -> Option<AccessName> {
    let module = program.module(pc.module)?;
    let function = program.function_at(pc)?;
    let flow = module.code().flow(function.function);
    let constants = |slot| module.constant_pointer(slot);
    let values = Values::analyse(&flow, &constants);
    let namer = Namer::new(module, &flow, &values);
    name(&namer, flow.at(pc.addr)?, &values)
}

fn shape(shape: &TypeShape) -> Shape {
    match shape {
        TypeShape::Signed => Shape::Signed,
        TypeShape::Unsigned | TypeShape::Character => Shape::Unsigned,
        TypeShape::Bool => Shape::Bool,
        TypeShape::Float => Shape::Float,
        TypeShape::Pointer => Shape::Pointer,
        TypeShape::Enum(_) => Shape::Signed,
        TypeShape::Bytes => Shape::Unknown,
    }
}

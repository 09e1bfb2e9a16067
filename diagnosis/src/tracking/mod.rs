//! What to track: from a failure to its slice, and from the slice to what each run watches.
//!
//! The slice is what the code says; statements that a watchpoint caught at a tracked location join it with what they
//! depend on, because no analysis of the code could have found them.

mod ahead;
mod allocators;
mod assignment;
mod given_up;
mod givers;
mod hot;
mod kin;
mod locks;
mod provenance;
pub(crate) mod results;
pub(crate) mod shares;
mod tested;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use failure::Failure;
use failure::report::Report;
use program::values::Gpr;
use program::{FunctionRef, ModuleId, Pc, Program};
use slicer::plan::{Plan, WatchSite};
use slicer::pointer::Bad;
use slicer::slice::{Criterion, Slice, SliceStatement};
use slicer::threads::ThreadModel;
use watchpoint::arm::{self, Armament, Armed};
use watchpoint::rotation::Rotation;
use watchpoint::{Address, WatchSpec, registers_for};

use crate::assemble::Giving;
use crate::fixed::{Fixed, is_constant};
use crate::reading::Cataloguer;
use crate::record::{RunEnd, RunRecord, WatchedRecord};
use crate::run::{Because, BranchId, Gave, LocationId, SlicePlace, StatementId};
use crate::sketch::Why;
pub use allocators::{Allocator, SizeArgument};
pub use assignment::{Assignment, LibraryCode, ModuleName};
use given_up::{Access, GivenUp};
use givers::Givers;
use hot::Hot;
use kin::Kin;
use locks::Locks;
use provenance::Provenance;
pub use results::ResultProbe;
use results::Results;
use tested::Tested;

/// Debug registers of a processor.
const REGISTERS: usize = 4;
/// Statements that are tracked of what a joined one depends on, however small σ is.
const LEAST_JOINED: usize = 8;
/// Statements that runs showed whose own dependences are followed.
const MOST_JOINED: usize = 16;

/// An access that the best explanation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promising {
    /// Its statement.
    pub statement: StatementId,
    /// To what; all that the statement accesses where that is not known.
    pub location: Option<LocationId>,
}

/// What should be watched first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// In every run: the accesses of the best explanation.
    pub promising: Vec<Promising>,
    /// Whether that is hardly chance. As long as it may be, the nearest locations have their turn beside it.
    pub convincing: bool,
    /// Until enough failing runs have: what these statements access, which make the value at which runs part.
    pub deciding: Vec<StatementId>,
    /// Until enough runs have that succeed: what these accesses are to.
    pub open: Vec<Promising>,
    /// The program has one thread.
    pub alone: bool,
}

/// The slice of a failure, and the plans made of it.
pub struct Tracking<'p, 'a> {
    program: &'p Program<'a>,
    threads: ThreadModel<'p, 'a>,
    slice: Slice<'p, 'a>,
    /// Whether the failure is about locks: what is caught in the act is about them as well.
    blocked: bool,
    /// The numbers of the slice's statements in the catalogue.
    statements: Vec<StatementId>,
    exhausted: bool,
    joined: Vec<Joined<'p, 'a>>,
    /// Locations that are touched too often to be watched.
    given_up: GivenUp,
    planned: Option<Planned>,
    hot: Hot,
    fixed: Fixed,
    /// Library functions that accessed what was watched.
    library: BTreeSet<FunctionRef>,
    givers: Givers,
    tested: Tested,
    provenance: Provenance,
    kin: Kin,
    /// Empty where nobody may look at them.
    allocators: Vec<Allocator>,
    locks: Locks,
    /// The instructions that loaded the pointer which a crash went through.
    suspects: Vec<Pc>,
    results: Results,
}

/// A statement that a run showed, and what it depends on.
struct Joined<'p, 'a> {
    at: Pc,
    slice: Slice<'p, 'a>,
    /// The numbers of its statements in the catalogue, itself first.
    statements: Vec<StatementId>,
    /// How many of them are tracked.
    tracked: usize,
    exhausted: bool,
}

impl Joined<'_, '_> {
    fn read(&mut self, most: usize, program: &Program<'_>, catalogue: &mut Cataloguer) {
        while !self.exhausted && self.statements.len() < most {
            let Some(found) = self.slice.next() else {
                self.exhausted = true;
                return;
            };
            let id = catalogue.statement(&found.statement, program);
            if found.creates {
                catalogue.creates_thread(id);
            }
            if let Some(because) = because(&found, &self.statements) {
                catalogue.is_there_for(id, because);
            }
            self.statements.push(id);
        }
    }
}

/// The plan for a number of statements.
struct Planned {
    sigma: u32,
    joined: usize,
    given_up: (usize, usize),
    plan: Plan,
    armament: Armament,
    rotation: Rotation,
}

impl<'p, 'a> Tracking<'p, 'a> {
    /// Of a failure.
    #[must_use]
    pub fn new(program: &'p Program<'a>, criterion: &Criterion) -> Self {
        Self {
            program,
            threads: ThreadModel::new(program),
            slice: Slice::new(program, criterion),
            blocked: criterion.blocked,
            statements: Vec::new(),
            exhausted: false,
            joined: Vec::new(),
            given_up: GivenUp::default(),
            planned: None,
            hot: Hot::default(),
            fixed: Fixed::default(),
            library: BTreeSet::new(),
            givers: Givers::default(),
            locks: Locks::default(),
            tested: Tested::default(),
            provenance: Provenance::default(),
            kin: Kin::default(),
            allocators: allocators::allocators(program),
            suspects: Vec::new(),
            results: Results::default(),
        }
    }

    /// Has the memory watched first that the failing thread had the pointer from which it failed over, or what it divided by.
    pub fn suspect(&mut self, failure: &Failure, catalogue: &mut Cataloguer) {
        self.suspects = slicer::pointer::loads(failure, self.program);
        let gave = match slicer::pointer::bad(failure) {
            Some(Bad::Divisor) => Gave::Divisor,
            _ => Gave::Pointer,
        };
        for &load in &self.suspects {
            if let Some(statement) = catalogue.statement_at(load, self.program) {
                catalogue.gave(statement, gave);
            }
        }
        self.results = Results::of(failure, self.program);
    }

    /// Leaves the allocators alone if one of these functions is theirs: whoever waits for the return of a function takes the
    /// place of its caller on the stack, and a failure in an allocator could not be told from others.
    pub fn spare_allocators<'n>(&mut self, mut failing: impl Iterator<Item = &'n str>) {
        if failing.any(allocators::is_allocator) {
            self.allocators.clear();
        }
    }

    /// Leaves out of the next plans what a run did too often.
    pub fn leave_out(&mut self, branches: &BTreeMap<Pc, u64>) {
        if self.hot.learn(branches, self.program) {
            self.planned = None;
        }
    }

    /// Takes in where a run had what it watched from.
    pub fn learn_provenance(&mut self, record: &RunRecord, alone: bool) {
        self.provenance.learn(record, self.program);
        if alone {
            self.kin.learn(record, self.program);
        }
    }

    /// Takes in where a failing run had what it watched.
    pub fn learn(&mut self, record: &RunRecord) {
        self.fixed.learn(record, self.program);
    }

    /// Takes in where the locks were that the threads of a program that hangs waited for: they are watched from now on.
    pub fn learn_locks(&mut self, report: &Report, failure: &Failure) {
        self.locks.learn(report, failure, self.program);
    }

    /// Takes in by which calls the threads of a program that hangs may have taken what others of them wait for: what these calls
    /// take is watched from now on.
    pub fn join_locks(&mut self, failure: &Failure, catalogue: &mut Cataloguer) {
        let calls = slicer::locks::taking(self.program, failure);
        for &call in &calls {
            if let Some(statement) = catalogue.statement_at(call, self.program) {
                catalogue.takes_lock(statement);
            }
        }
        self.join(calls);
    }

    /// Takes in by which calls the threads of a program that hangs would have been woken: what decides on these is tracked from now on.
    pub fn join_wakes(&mut self, failure: &Failure) {
        self.join(slicer::wakes::waking(self.program, failure));
    }

    /// Takes in which library functions accessed what was watched: next time their callers are looked for.
    pub fn called(&mut self, library: BTreeSet<FunctionRef>) {
        self.library.extend(library);
    }

    /// The code of a library in the program whose accesses are somebody's else.
    fn library_code(&self) -> Vec<LibraryCode> {
        let slices = std::iter::once(&self.slice).chain(self.joined.iter().map(|joined| &joined.slice));
        let mut functions: BTreeSet<FunctionRef> = slices.flat_map(Slice::library_functions).collect();
        functions.extend(&self.library);
        let code = functions.into_iter().filter_map(|function| {
            let parts = self.program.module(function.module)?.code().functions();
            let parts = parts.parts(function.function);
            let module = self.path(function.module);
            Some(parts.into_iter().map(move |range| LibraryCode {
                module: module.clone(),
                range,
            }))
        });
        code.flatten().collect()
    }

    /// What is left out, in words.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        self.hot.left_out(self.program).collect()
    }

    /// The statements of the slice that were asked for so far, nearest first.
    #[must_use]
    pub fn statements(&self) -> &[StatementId] {
        &self.statements
    }

    /// What threads start with.
    #[must_use]
    pub fn threads(&self) -> &ThreadModel<'p, 'a> {
        &self.threads
    }

    /// Whether several threads accessed what runs watched.
    #[must_use]
    pub fn saw_threads(&self) -> bool {
        self.given_up.saw_threads()
    }

    /// Whether the slice has no more statements.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.exhausted && self.joined.iter().all(|joined| joined.exhausted)
    }

    /// Whether failing runs have watched every location of the plan that can be watched and is not quiet.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        let Some(planned) = &self.planned else {
            return true;
        };
        let left_out: BTreeSet<usize> = planned.rotation.left_out().collect();
        let locations = planned.armament.locations.iter().enumerate();
        let mut open = locations.filter(|(number, _)| !left_out.contains(number));
        open.all(|(_, armed)| {
            let site = armed
                .sites
                .first()
                .and_then(|&site| planned.plan.watch_sites.get(site));
            site.is_none_or(|site| {
                let access = self.access(site);
                let seen = self.seen_well(&access) > 0 || self.given_up.is_quiet(&access);
                seen && !self.is_elsewhere(&access)
            })
        })
    }

    /// Reads the slice up to so many statements.
    pub fn extend(&mut self, sigma: u32, catalogue: &mut Cataloguer) {
        self.read(sigma, catalogue);
        // Half as many of what depends on what was found: it is at least as far away. What decides on it is near.
        let half = (sigma.div_ceil(2) as usize).max(LEAST_JOINED);
        for joined in &mut self.joined {
            joined.read(half, self.program, catalogue);
            joined.tracked = half.min(joined.statements.len());
        }
    }

    /// Reads so many statements of every slice into the catalogue without tracking more: a sketch shows how the tracked
    /// ones were reached.
    pub fn read_ahead(&mut self, statements: u32, catalogue: &mut Cataloguer) {
        self.read(statements, catalogue);
        for joined in &mut self.joined {
            joined.read(statements as usize, self.program, catalogue);
        }
    }

    fn read(&mut self, statements: u32, catalogue: &mut Cataloguer) {
        while !self.exhausted && self.statements.len() < statements as usize {
            match self.slice.next() {
                Some(found) => self.enter(&found, catalogue),
                None => self.exhausted = true,
            }
        }
    }

    fn enter(&mut self, found: &SliceStatement, catalogue: &mut Cataloguer) {
        let id = catalogue.statement(&found.statement, self.program);
        let place = SlicePlace {
            number: found.number,
            distance: found.distance,
        };
        let because = because(found, &self.statements);
        catalogue.place_in_slice(id, place, because);
        if found.creates {
            catalogue.creates_thread(id);
        }
        self.statements.push(id);
    }

    /// Takes in statements of the program that were seen to write what is tracked: what they depend on is tracked
    /// from now on.
    pub fn join(&mut self, writers: impl IntoIterator<Item = Pc>) {
        let known: BTreeSet<Pc> = self.joined.iter().map(|joined| joined.at).collect();
        for at in writers {
            if known.contains(&at) || self.joined.len() >= MOST_JOINED {
                continue;
            }
            self.joined.push(Joined {
                at,
                slice: Slice::new(
                    self.program,
                    &Criterion {
                        blocked: self.blocked,
                        ..Criterion::instruction(at)
                    },
                ),
                statements: Vec::new(),
                tracked: 0,
                exhausted: false,
            });
        }
    }

    /// Takes in what a run gave up: what is hopeless, the next ones do without, and with what there was no register for.
    pub fn give_up(&mut self, record: &RunRecord) {
        let failed = matches!(record.end, RunEnd::Failed(_));
        let is_findable = |watched: &WatchedRecord| {
            self.fixed
                .is_known(watched.module.as_deref(), watched.access, watched.within)
        };
        self.given_up
            .take(failed, &record.watched, &record.hits, is_findable, |addr| {
                is_constant(record, addr, self.program)
            });
        self.results.learn(record);
    }

    /// Watches less, where watching seems to keep the failure away: what is touched most goes, unless the best explanation is
    /// about it. Says whether there was anything to go.
    pub fn calm(&mut self, promising: &[Promising], catalogue: &mut Cataloguer) -> bool {
        let Some(planned) = &self.planned else {
            return false;
        };
        let wanted = self.locations_of(planned, promising, catalogue);
        let kept = self.accesses_of(planned, &wanted);
        self.given_up.spare_busiest(|access| kept.contains(access))
    }

    /// Finds out what makes the value that a branch tests.
    pub fn look_for_tested(&mut self, branch: BranchId, catalogue: &mut Cataloguer) {
        self.tested.look_for(branch, self.program, catalogue);
    }

    /// What makes it, as far as somebody looked for it.
    #[must_use]
    pub fn tested(&self, branch: BranchId) -> &[StatementId] {
        self.tested.of(branch)
    }

    /// Finds out where the pointers come from behind which locations are.
    pub fn look_for_givers(&mut self, locations: &[LocationId], catalogue: &mut Cataloguer) {
        for &location in locations {
            self.givers
                .look_for(location, self.program, &self.threads, catalogue);
        }
    }

    /// The statements that gave out the pointers behind which a location is, as far as somebody looked for them. What is in
    /// a global needs none.
    #[must_use]
    pub fn givers(&self, location: LocationId, catalogue: &Cataloguer) -> Vec<Giving> {
        let mut accesses = catalogue.accesses_of(location).into_iter();
        match accesses.any(|(module, addr)| self.fixed.is_static(module, addr)) {
            true => Vec::new(),
            false => self.givers.of(location).cloned().collect(),
        }
    }

    /// Where threads take the arguments through which they reach a location, as far as the compiler made no code of it and somebody
    /// looked for them.
    pub fn arguments(&self, location: LocationId) -> impl Iterator<Item = StatementId> {
        self.givers.arguments(location)
    }

    /// What a run is to track. It takes what the best explanation is about; which of the other locations follows from its
    /// number.
    pub fn assignment(
        &mut self,
        sigma: u32,
        run: u64,
        wanted: &Wanted,
        catalogue: &mut Cataloguer,
    ) -> Assignment {
        self.extend(sigma, catalogue);
        let state = (sigma, self.joined.len(), self.given_up.state());
        let current = |planned: &&Planned| (planned.sigma, planned.joined, planned.given_up) == state;
        if self.planned.as_ref().filter(current).is_none() {
            self.planned = Some(self.make_plan(sigma));
        }
        let Some(planned) = &self.planned else {
            return Assignment::default();
        };
        let own_frames = wanted.alone;
        let (locations, wanted) = self.chosen(planned, run, wanted, catalogue);
        let allocators = match self.provenance.is_wanted(&locations) {
            true => self.allocators.clone(),
            false => Vec::new(),
        };
        Assignment {
            sigma,
            plan: planned.plan.clone(),
            locations,
            own_frames,
            library: self.library_code(),
            allocators,
            results: self.results.probes(),
            modules: self.modules(),
            planned: 0,
            wanted,
        }
    }

    fn modules(&self) -> Vec<ModuleName> {
        let modules = self.program.modules().map(|(_, module)| ModuleName {
            path: module.name().to_owned(),
            build_id: module.elf().build_id(),
        });
        modules.collect()
    }

    /// The access that a location is watched for.
    fn access(&self, site: &WatchSite) -> Access {
        Access {
            module: self.path(site.access.module),
            addr: site.access.addr,
            passed: passed(site),
            within: site.within,
        }
    }

    fn make_plan(&self, sigma: u32) -> Planned {
        let ahead = self.slice.plan(self.statements.len());
        let mut plan = Plan {
            ranges: ahead.ranges,
            branches: ahead.branches,
            ..self.slice.plan(sigma as usize)
        };
        let mut first = u32::try_from(self.statements.len()).unwrap_or(u32::MAX);
        for joined in &self.joined {
            plan.join(joined.slice.plan(joined.tracked), first);
            first = first.saturating_add(u32::try_from(joined.tracked).unwrap_or(u32::MAX));
        }
        self.hot.cool(&mut plan);
        let near = plan.watch_sites.len();
        let tells = |site: &WatchSite| !self.given_up.is_quiet(&self.access(site));
        ahead::add(&mut plan.watch_sites, ahead.watch_sites, tells);
        let mut armament = arm::arm(&plan, self.program, &self.threads);
        let site = |armed: &Armed| plan.watch_sites.get(*armed.sites.first()?);
        ahead::fill(&mut armament.locations, near, |armed| {
            site(armed).is_some_and(tells)
        });
        let need = |armed: &Armed| match site(armed) {
            Some(site) if self.given_up.contains(&self.access(site)) => 0,
            _ => registers_for(&[&armed.spec]),
        };
        let needs: Vec<usize> = armament.locations.iter().map(need).collect();
        let (telling, quiet): (Vec<usize>, Vec<usize>) = (0..needs.len())
            .partition(|&number| armament.locations.get(number).and_then(site).is_some_and(tells));
        let wanted: usize = telling.iter().filter_map(|&number| needs.get(number)).sum();
        let rotation = Rotation::new(needs, REGISTERS);
        // What is quiet has the registers that nothing else wants.
        let rotation = match wanted >= REGISTERS {
            true => rotation.with_resting(quiet.into_iter().collect()),
            false => rotation,
        };
        Planned {
            sigma,
            joined: self.joined.len(),
            given_up: self.given_up.state(),
            plan,
            armament,
            rotation,
        }
    }

    fn location(&self, planned: &Planned, number: usize) -> Option<(WatchedRecord, WatchSpec)> {
        let armed = planned.armament.locations.get(number)?;
        let site = planned.plan.watch_sites.get(*armed.sites.first()?)?;
        let mut watched = WatchedRecord {
            module: self.path(site.access.module),
            access: site.access.addr,
            passed: passed(site),
            width: armed.spec.len,
            within: site.within,
            always_at: match &armed.spec.address {
                Address::Static { module, addr } if *module == self.file(site.access.module) => Some(*addr),
                _ => None,
            },
            fixed: None,
            late: false,
            given_up: false,
            stores: false,
            result: false,
            found: 0,
        };
        let mut spec = armed.spec.clone();
        self.provenance.add_probes(&watched, &mut spec, self.program);
        if !self.provenance.is_one_object(&given_up::access(&watched)) {
            self.kin.add_probes(&mut watched, &mut spec);
        }
        Some((watched, spec))
    }

    fn file(&self, module: ModuleId) -> Option<PathBuf> {
        self.path(module).map(PathBuf::from)
    }

    /// The file of a module; `None` for the executable.
    fn path(&self, module: ModuleId) -> Option<String> {
        path_of(module, self.program)
    }
}

/// The file of a module; `None` for the executable.
fn path_of(module: ModuleId, program: &Program<'_>) -> Option<String> {
    let named = program.module(module).filter(|_| module != ModuleId(0));
    named.map(|module| module.name().to_owned())
}

/// Behind which argument of a call a location is, from 0, and how far.
fn passed(site: &WatchSite) -> Option<(u8, i64)> {
    let argument = site.passed?;
    let number = Gpr::ARGUMENTS.iter().position(|&gpr| gpr == argument.register)?;
    Some((u8::try_from(number).ok()?, argument.offset))
}

/// What a statement of a slice is there for, by the numbers of the slice's statements in the catalogue.
fn because(found: &SliceStatement, statements: &[StatementId]) -> Option<Because> {
    let of = statements
        .get(found.because_of as usize)
        .filter(|_| found.number > 0)?;
    Some(Because {
        of: *of,
        why: match found.why {
            slicer::slice::Why::Data => Why::Data,
            slicer::slice::Why::Control => Why::Control,
            slicer::slice::Why::Call => Why::Call,
            slicer::slice::Why::Thread => Why::Thread,
        },
    })
}

//! What one run says of predictors.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::accesses::Touch;
use super::cycle::{Deadlock, Told};
use super::instead::Instead;
use super::interleaving::{Found, Pass};
use super::{Actor, AtomicityPattern, OrderPattern, Predictor, Role, accesses, cycle, missed, torn, values};
use crate::run::{AccessKind, Catalogue, LocationId, Run, Shape, StatementId, ThreadIx, What};

/// Statements of one address whose order among one another is remembered.
const ORDERED: usize = 64;

/// What a run says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// The predictors that held, each with how its last instance ended.
    pub held: BTreeMap<Predictor, End>,
    /// Of these, the ones that would have if the run had failed where others did.
    pub instead: BTreeSet<Predictor>,
    /// The kinds of threads of which there had been some when the run failed, and nobody was left to do anything.
    pub over: BTreeSet<Role>,
    /// Predictors of which it is not known whether they held: the order of events that they depend on is uncertain.
    pub unknown: BTreeSet<Predictor>,
    /// Accesses of different threads to one address that came in this order, not necessarily one after the other.
    pub preceded: BTreeSet<Preceded>,
    /// What writes left.
    pub wrote: BTreeMap<Place, Values>,
    /// What reads met that somebody left before the run began to watch, as far as nothing tells whether such a read returned
    /// another thread's write.
    pub unseen: BTreeMap<Place, Values>,
    /// Reads that met what nobody was seen to write: a register was elsewhere. Whether they returned another thread's write, and whose,
    /// is not known.
    pub missed: BTreeSet<Place>,
    /// Reads of which a thread made the second before it had ever made the first: the first does not decide on the second.
    pub unguarded: BTreeSet<(LocationId, Actor, Actor)>,
    /// Accesses of a thread that came after another's, where the thread may have had one before that while nobody watched: whether
    /// the other's was between two of them is not known.
    pub headless: BTreeSet<Headless>,
    /// Writes of a thread after which the failing thread read, and then the run was over before the thread could write again:
    /// whether the read was between two writes that belong together is not known.
    pub cut: BTreeSet<Cut>,
    /// What a thread's writes are followed by: its next access to the same address, if that is a write.
    pub followed: BTreeSet<(Place, Option<StatementId>)>,
    /// What it says of deadlocks, if it hangs.
    pub(crate) told: Told,
}

/// How a predictor's instance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// How many events came after its last access.
    pub events_after: u64,
    /// It ended with what the failing thread met, or came too early for: a read that comes between another thread's writes, or the writes
    /// around somebody's read, say that less than the rest.
    pub by_failing: bool,
    /// The failing thread wrote, and another one met that: it shows what became of the other one.
    pub harmless: bool,
}

/// A location, another thread's access, and the one after it.
pub type Headless = (LocationId, Actor, Actor);

/// A location, a write to it, and another thread's read of that.
pub type Cut = (LocationId, Actor, Actor);

/// Who accesses what.
pub type Place = (LocationId, Actor);

/// What an access met or left, in all its executions.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Values {
    /// Zero, null or false.
    pub zero: bool,
    /// Anything else.
    pub other: bool,
}

impl Values {
    /// With one more.
    #[must_use]
    pub fn with(self, value: u64) -> Self {
        Self {
            zero: self.zero || value == 0,
            other: self.other || value != 0,
        }
    }

    /// With those of others.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self {
            zero: self.zero || others.zero,
            other: self.other || others.other,
        }
    }

    /// Whether the two have some in common, as far as one can tell.
    #[must_use]
    pub fn meet(self, others: Self) -> bool {
        self.zero && others.zero || self.other && others.other
    }
}

/// An access that came before another thread's to the same address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Preceded {
    /// To what.
    pub location: LocationId,
    /// The earlier.
    pub first: Actor,
    /// The later.
    pub second: Actor,
}

/// Events of a predictor's instance.
#[derive(Clone, Copy)]
struct Instance {
    /// The last one.
    last: usize,
    /// The one by which the pattern gets in somebody's way.
    telling: Option<usize>,
    /// The write by one thread and the read of it by another one that it is about.
    met: Option<(usize, usize)>,
}

impl Instance {
    fn of(predictor: &Predictor<u16>, events: &[usize]) -> Self {
        let last = events.iter().copied().max();
        let telling = match predictor {
            Predictor::Atomicity {
                pattern: AtomicityPattern::Wrw,
                ..
            } => None,
            Predictor::Order {
                pattern: OrderPattern::Rw,
                ..
            } => events.first().copied(),
            _ => last,
        };
        let met = match (predictor, events) {
            (
                Predictor::Order {
                    pattern: OrderPattern::Wr,
                    ..
                },
                [write, read],
            )
            | (
                Predictor::Atomicity {
                    pattern: AtomicityPattern::Wrw,
                    ..
                },
                [write, read, _],
            )
            | (
                Predictor::Atomicity {
                    pattern: AtomicityPattern::Rwr | AtomicityPattern::Wwr,
                    ..
                },
                [_, write, read],
            ) => Some((*write, *read)),
            _ => None,
        };
        let last = last.unwrap_or(0);
        Self { last, telling, met }
    }
}

#[derive(Default)]
struct Collector {
    held: HashMap<Predictor<u16>, Instance>,
    instead: HashMap<Predictor<u16>, Instance>,
    unknown: HashMap<Predictor<u16>, ()>,
}

impl Found for Collector {
    fn found(&mut self, predictor: Predictor<u16>, events: &[usize], certain: bool) {
        if certain {
            let instance = Instance::of(&predictor, events);
            let known = self.held.entry(predictor).or_insert(instance);
            if known.last < instance.last {
                *known = instance;
            }
        } else {
            self.unknown.insert(predictor, ());
        }
    }

    fn instead(&mut self, predictor: Predictor<u16>, events: &[usize], certain: bool) {
        if certain {
            let instance = Instance::of(&predictor, events);
            self.instead.insert(predictor, instance);
        }
    }
}

/// Looks for one predictor, and keeps its last instance.
struct Locator<'a> {
    wanted: &'a Predictor<u16>,
    events: Option<Vec<usize>>,
}

impl Found for Locator<'_> {
    fn found(&mut self, predictor: Predictor<u16>, events: &[usize], certain: bool) {
        let later = |known: &Vec<usize>| events.iter().max() > known.iter().max();
        if certain && predictor == *self.wanted && self.events.as_ref().is_none_or(later) {
            self.events = Some(events.to_vec());
        }
    }

    fn instead(&mut self, predictor: Predictor<u16>, events: &[usize], certain: bool) {
        self.found(predictor, events, certain);
    }
}

/// The roles of a run's threads, by number.
struct Roles {
    names: Vec<Role>,
    of: Vec<u16>,
}

impl Roles {
    fn new(run: &Run) -> Self {
        let mut names: Vec<Role> = run.threads.iter().map(|thread| thread.role.clone()).collect();
        names.sort();
        names.dedup();
        let number =
            |role: &Role| u16::try_from(names.partition_point(|name| name < role)).unwrap_or(u16::MAX);
        let of = run.threads.iter().map(|thread| number(&thread.role)).collect();
        Self { names, of }
    }

    fn name(&self, role: u16) -> Role {
        self.names
            .get(usize::from(role))
            .cloned()
            .unwrap_or_else(|| "".into())
    }
}

fn look(
    catalogue: &Catalogue,
    run: &Run,
    roles: &Roles,
    touches: &BTreeMap<(LocationId, u64), Vec<Touch>>,
    wandering: &BTreeSet<LocationId>,
    out: &mut impl Found,
) {
    let out = &mut Instead::of(catalogue, run, out);
    for ((location, _), list) in touches {
        Pass {
            location: *location,
            roles: &roles.of,
            from_the_start: !run.late.contains(location) && run.incomplete.is_none(),
            may_be_empty: may_be_empty(catalogue, *location),
            gaps: wandering.contains(location),
            guards: &catalogue.guards,
        }
        .run(list, out);
    }
    torn::find(touches, &roles.of, out);
    if catalogue.waits {
        missed::find(touches, &roles.of, out);
    }
    values::find(catalogue, run, &roles.of, out);
    cycle::find(catalogue, run, touches, &roles.of, out);
    for (event, happened) in run.events.iter().enumerate() {
        if let What::Branch(branch, way) = happened.what
            && run.traced.contains(&branch)
        {
            let role = roles.of.get(happened.thread.0 as usize).copied().unwrap_or(0);
            out.found(Predictor::Branch { branch, way, role }, &[event], true);
        }
    }
}

/// The locations that a run found at several places, one after the other: while a register is at one of them, it is not at the others.
fn wandering(run: &Run, touches: &BTreeMap<(LocationId, u64), Vec<Touch>>) -> BTreeSet<LocationId> {
    let places = touches.keys().map(|(location, _)| *location);
    let places: Vec<LocationId> = places.filter(|location| run.late.contains(location)).collect();
    let again = places.windows(2).filter(|pair| pair[0] == pair[1]);
    again.map(|pair| pair[0]).collect()
}

/// Whether a location can hold nothing: a null pointer, or what a type without a name has for it.
fn may_be_empty(catalogue: &Catalogue, location: LocationId) -> bool {
    let info = catalogue.locations.get(location.0 as usize);
    info.is_none_or(|info| matches!(info.shape, Shape::Pointer | Shape::Unknown))
}

/// The events of a predictor's last instance in a run, in the order of its pattern.
#[must_use]
pub fn locate(catalogue: &Catalogue, run: &Run, predictor: &Predictor) -> Option<Vec<usize>> {
    let roles = Roles::new(run);
    let touches = accesses::by_address(run);
    let missing = Cell::new(false);
    let wanted = predictor.in_one_run().map_roles(|role| {
        let at = roles.names.iter().position(|name| name == role);
        missing.set(missing.get() || at.is_none());
        at.and_then(|at| u16::try_from(at).ok()).unwrap_or(u16::MAX)
    });
    if missing.get() {
        return None;
    }
    let mut locator = Locator {
        wanted: &wanted,
        events: None,
    };
    let wandering = wandering(run, &touches);
    look(catalogue, run, &roles, &touches, &wandering, &mut locator);
    locator.events
}

/// The deadlocks of a run.
pub(crate) fn deadlocks(catalogue: &Catalogue, run: &Run) -> Vec<Deadlock> {
    cycle::deadlocks(catalogue, run, &accesses::by_address(run))
}

/// The kinds of threads that have come to their end in a run that failed, but for the failing thread.
fn over(run: &Run, failing: Option<ThreadIx>) -> BTreeSet<Role> {
    let Some(failing) = failing else {
        return BTreeSet::new();
    };
    let threads = || (0..).map(ThreadIx).zip(&run.threads);
    let left = |role: &Role| {
        let mut others = threads().filter(|(at, thread)| *at != failing && !thread.ended);
        others.any(|(_, thread)| thread.role == *role)
    };
    let known = threads().filter(|(at, thread)| *at == failing || thread.ended);
    let known = known.map(|(_, thread)| thread.role.clone());
    known.filter(|role| !left(role)).collect()
}

/// Looks at one run.
#[must_use]
pub fn observe(catalogue: &Catalogue, run: &Run) -> Observation {
    let roles = Roles::new(run);
    let touches = accesses::by_address(run);
    let mut collector = Collector::default();
    let wandering = wandering(run, &touches);
    look(catalogue, run, &roles, &touches, &wandering, &mut collector);
    let name = |role: &u16| roles.name(*role);

    let failing = run.failed.as_ref().and_then(|failed| failed.thread);
    let is_failing =
        |event: usize| failing.is_some() && run.events.get(event).map(|event| event.thread) == failing;
    let end = |Instance { last, telling, met }: Instance| End {
        events_after: run.events.len().saturating_sub(1 + last) as u64,
        by_failing: telling.is_some_and(is_failing),
        harmless: met.is_some_and(|(write, read)| is_failing(write) && !is_failing(read)),
    };
    let mut observation = Observation::default();
    for (predictor, instance) in collector.held {
        observation.held.insert(predictor.map_roles(name), end(instance));
    }
    for (predictor, instance) in collector.instead {
        let predictor = predictor.map_roles(name);
        if !observation.held.contains_key(&predictor) {
            observation.held.insert(predictor.clone(), end(instance));
            observation.instead.insert(predictor);
        }
    }
    observation.over = over(run, failing);
    for predictor in collector.unknown.into_keys() {
        let predictor = predictor.map_roles(name);
        if !observation.held.contains_key(&predictor) {
            observation.unknown.insert(predictor);
        }
    }
    for ((location, _), list) in &touches {
        let role = |thread: ThreadIx| {
            run.threads
                .get(thread.0 as usize)
                .map(|thread| thread.role.clone())
        };
        let actor = |(thread, statement): Doer| {
            let role = role(thread)?;
            Some(Actor { statement, role })
        };
        let late = run.late.contains(location);
        let mut written = false;
        let mut left: Option<&Touch> = None;
        for touch in list {
            let Some(role) = role(touch.thread) else { continue };
            let place = (
                *location,
                Actor {
                    statement: touch.statement,
                    role,
                },
            );
            let before = left.replace(touch);
            if touch.kind.reads()
                && wandering.contains(location)
                && before.is_some_and(|before| touch.contradicts(before))
            {
                observation.missed.insert(place.clone());
            }
            if let Some(met) = touch.met().filter(|_| touch.kind.reads() && late && !written) {
                let unseen = observation.unseen.entry(place.clone()).or_default();
                *unseen = unseen.with(met);
            }
            if touch.kind.writes() {
                written = true;
                let wrote = observation.wrote.entry(place).or_default();
                *wrote = touch.value.map_or(*wrote, |value| wrote.with(value));
            }
        }
        if !late {
            for (first, second) in unguarded(list) {
                if let (Some(a), Some(b)) = (actor(first), actor(second)) {
                    observation.unguarded.insert((*location, a, b));
                }
            }
        }
        if late {
            for (between, second) in after_others(list) {
                if let (Some(b), Some(a)) = (actor(between), actor(second)) {
                    observation.headless.insert((*location, b, a));
                }
            }
        }
        if !late && run.watched.contains(location) {
            for (write, read) in cut_off(run, list) {
                if let (Some(write), Some(read)) = (actor(write), actor(read)) {
                    observation.cut.insert((*location, write, read));
                }
            }
        }
        for (write, next) in followed(list) {
            if let Some(write) = actor(write) {
                observation.followed.insert(((*location, write), next));
            }
        }
        for (first, second) in orders(list) {
            let (Some(a), Some(b)) = (role(first.0), role(second.0)) else {
                continue;
            };
            observation.preceded.insert(Preceded {
                location: *location,
                first: Actor {
                    statement: first.1,
                    role: a,
                },
                second: Actor {
                    statement: second.1,
                    role: b,
                },
            });
        }
    }
    let told = observation.held.keys().chain(&observation.unknown);
    let orders = told.filter(|predictor| matches!(predictor, Predictor::Order { .. }));
    let told: BTreeSet<Place> = orders.filter_map(returned_by).collect();
    let missed = &observation.missed;
    let is_open = |place: &Place| !told.contains(place) && !missed.contains(place);
    observation.unseen.retain(|place, _| is_open(place));
    // Said once.
    observation
        .headless
        .retain(|(location, _, second)| !missed.contains(&(*location, second.clone())));
    observation.told = cycle::told(catalogue, run, &touches);
    observation
}

/// The read of a predictor that says which write it returned.
pub(crate) fn returned_by(predictor: &Predictor) -> Option<Place> {
    match predictor {
        Predictor::Order {
            pattern: OrderPattern::Wr,
            location,
            second,
            ..
        }
        | Predictor::Atomicity {
            pattern: AtomicityPattern::Rwr | AtomicityPattern::Wwr,
            location,
            second,
            ..
        } => Some((*location, second.clone())),
        _ => None,
    }
}

/// What a pair of accesses was torn by, and its second one.
pub(crate) fn torn_by(predictor: &Predictor) -> Option<Headless> {
    match predictor {
        Predictor::Atomicity {
            location,
            between,
            second,
            ..
        } => Some((*location, between.clone(), second.clone())),
        _ => None,
    }
}

/// The write and the read that a pair of writes begins with.
pub(crate) fn begins_with(predictor: &Predictor) -> Option<Cut> {
    match predictor {
        Predictor::Atomicity {
            pattern: AtomicityPattern::Wrw,
            location,
            first,
            between,
            ..
        } => Some((*location, first.clone(), between.clone())),
        _ => None,
    }
}

type Doer = (ThreadIx, StatementId);

/// The last accesses of threads that a failure ended, if they wrote, each with the reads of the failing thread after it.
fn cut_off(run: &Run, list: &[Touch]) -> BTreeSet<(Doer, Doer)> {
    let failed = run.failed.as_ref().filter(|failed| !failed.hang);
    let Some(failing) = failed.and_then(|failed| failed.thread) else {
        return BTreeSet::new();
    };
    let lives = |thread: ThreadIx| {
        let thread = run.threads.get(thread.0 as usize);
        thread.is_some_and(|thread| !thread.ended)
    };
    let mut pairs = BTreeSet::new();
    let mut read: BTreeSet<Doer> = BTreeSet::new();
    let mut seen: BTreeSet<ThreadIx> = BTreeSet::from([failing]);
    for touch in list.iter().rev() {
        let doer = (touch.thread, touch.statement);
        if touch.thread == failing && touch.kind.reads() {
            read.insert(doer);
        }
        if seen.insert(touch.thread) && touch.kind.writes() && lives(touch.thread) {
            pairs.extend(read.iter().map(|&read| (doer, read)));
        }
    }
    pairs
}

/// The writes at an address, each with the same thread's next access if that is a write.
fn followed(list: &[Touch]) -> BTreeSet<(Doer, Option<StatementId>)> {
    let mut next: HashMap<ThreadIx, Option<StatementId>> = HashMap::new();
    let mut found = BTreeSet::new();
    for touch in list.iter().rev() {
        let after = next.insert(touch.thread, touch.kind.writes().then_some(touch.statement));
        if touch.kind.writes() && found.len() < ORDERED {
            found.insert(((touch.thread, touch.statement), after.flatten()));
        }
    }
    found
}

/// Accesses of a thread, each with those of others since the thread's last one.
fn after_others(list: &[Touch]) -> BTreeSet<(Doer, Doer)> {
    let mut pairs = BTreeSet::new();
    let mut since: BTreeMap<ThreadIx, BTreeSet<Doer>> = BTreeMap::new();
    let mut all: BTreeSet<Doer> = BTreeSet::new();
    for touch in list {
        let doer = (touch.thread, touch.statement);
        let others = since.insert(touch.thread, BTreeSet::new());
        let others = others.unwrap_or_else(|| all.clone());
        pairs.extend(others.into_iter().map(|other| (other, doer)));
        if all.insert(doer) && all.len() > ORDERED {
            return BTreeSet::new();
        }
        let others = since.iter_mut().filter(|(thread, _)| **thread != touch.thread);
        others.for_each(|(_, since)| _ = since.insert(doer));
    }
    pairs
}

/// Pairs of reads of which a thread made the second first.
fn unguarded(list: &[Touch]) -> Vec<(Doer, Doer)> {
    let mut begun: BTreeMap<ThreadIx, Vec<StatementId>> = BTreeMap::new();
    for touch in list.iter().filter(|touch| touch.kind == AccessKind::Read) {
        let reads = begun.entry(touch.thread).or_default();
        if reads.len() < ORDERED && !reads.contains(&touch.statement) {
            reads.push(touch.statement);
        }
    }
    let mut pairs = Vec::new();
    for (thread, reads) in begun {
        for (at, second) in reads.iter().enumerate() {
            let later = reads.iter().skip(at + 1);
            pairs.extend(later.map(|first| ((thread, *first), (thread, *second))));
        }
    }
    pairs
}

/// Pairs of different threads' statements of which the one came before the other at least once.
fn orders(list: &[Touch]) -> Vec<(Doer, Doer)> {
    let mut spans: Vec<(Doer, usize, usize)> = Vec::new();
    let mut places: HashMap<Doer, usize> = HashMap::new();
    for touch in list.iter().filter(|touch| touch.block.is_none()) {
        let doer = (touch.thread, touch.statement);
        if let Some(&place) = places.get(&doer) {
            if let Some(span) = spans.get_mut(place) {
                span.2 = touch.event;
            }
        } else if spans.len() < ORDERED {
            places.insert(doer, spans.len());
            spans.push((doer, touch.event, touch.event));
        }
    }
    let mut pairs = Vec::new();
    for (a, first, _) in &spans {
        for (b, _, last) in &spans {
            if a.0 != b.0 && first < last {
                pairs.push((*a, *b));
            }
        }
    }
    pairs
}

//! How many predictors a record can have, before it is known what its addresses mean.
//!
//! Orders and interleavings are found among the last few different accesses at each address, so a record has about as many of
//! them as it has accesses, unless ever other threads come with ever other instructions: a hundred thousand accesses can be
//! made into millions. What is counted here are the same pairs and triples, of instructions instead of statements, and of kinds
//! of threads instead of roles, which are never more; so are the reads of what their own thread wrote. Threads are of one kind if
//! everything that their role is made from is the same, the stacks that were seen of them or, where none was, the code that they were
//! seen in.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use diagnosis::record::{HitRecord, RunRecord};
use diagnosis::run::AccessKind;

/// As many as `diagnosis` remembers at once.
const REMEMBERED: usize = 64;
/// Different values of one access that `diagnosis` tells apart, and the last one.
const VALUES: u8 = 17;
/// Tells a write that its own thread read from an order of two threads; what is not zero is a predictor of its own.
const WRITTEN: [u64; 2] = [1 << 40, 1 << 41];
/// Locations that a thread looks at together.
const TOGETHER: usize = 3;

/// Whether a run can have more predictors than that. Takes time in proportion to its accesses.
pub(super) fn more_than(record: &RunRecord, most: usize) -> bool {
    let kinds = kinds(record);
    let mut count = Count {
        seen: HashSet::default(),
        values: 0,
        most,
    };
    let mut places: HashMap<u64, Vec<Doer>> = HashMap::new();
    let mut met: HashMap<u64, u8> = HashMap::new();
    let mut together: HashMap<u32, Vec<(u32, Doer)>> = HashMap::new();
    let mut written: HashMap<u64, Doer> = HashMap::new();
    for hit in &record.hits {
        let doer = Doer::of(hit, kinds.get(&hit.tid).copied().unwrap_or_default());
        let location = u64::from(hit.location);
        let values = met.entry(mixed(&[doer.key, location])).or_default();
        if *values < VALUES {
            *values += 1;
            count.values += 1;
        }
        let recent = places.entry(hit.addr.0).or_default();
        let own = recent.iter().rev().find(|other| other.tid == doer.tid).copied();
        let since = own.and_then(|own| recent.iter().rposition(|other| other.slot == own.slot));
        for (at, other) in recent.iter().enumerate() {
            if other.tid == doer.tid {
                continue;
            }
            count.add(&[location, other.key, doer.key]);
            if let Some(own) = own.filter(|_| since.is_some_and(|since| at > since)) {
                count.add(&[location, own.key, other.key, doer.key]);
            }
        }
        if let Some(writer) = written.get(&hit.addr.0)
            && writer.tid == doer.tid
            && writer.slot != doer.slot
            && hit.access != Some(AccessKind::Write)
        {
            for written in WRITTEN {
                count.add(&[location, written, writer.key, doer.key]);
            }
        }
        if hit.access != Some(AccessKind::Read) {
            written.insert(hit.addr.0, doer);
        }
        let looks = together.entry(hit.tid).or_default();
        looks.retain(|(other, _)| *other != hit.location);
        if let Some(last) = recent.last().filter(|last| last.tid != doer.tid) {
            for (other, look) in &*looks {
                count.add(&[location, u64::from(*other), last.key, look.key, doer.key]);
            }
        }
        looks.push((hit.location, doer));
        if looks.len() > TOGETHER {
            looks.remove(0);
        }
        remember(recent, doer);
        if count.is_over() {
            return true;
        }
    }
    false
}

/// The kind of each thread.
fn kinds(record: &RunRecord) -> HashMap<u32, u64> {
    let mut stacks: HashMap<u32, BTreeSet<u64>> = HashMap::new();
    for look in &record.threads {
        let stack = look.stack.iter().fold(1, |stack, at| mixed(&[stack, at.0]));
        stacks.entry(look.tid).or_default().insert(stack);
    }
    let mut code: HashMap<u32, BTreeSet<u64>> = HashMap::new();
    for hit in record.hits.iter().filter(|hit| !stacks.contains_key(&hit.tid)) {
        code.entry(hit.tid).or_default().insert(hit.pc.0);
    }
    let all = stacks.into_iter().chain(code);
    all.map(|(tid, seen)| {
        // The first thread has a role of its own, whatever was seen of it.
        let first = u64::from(tid == record.pid);
        (
            tid,
            seen.into_iter().fold(first, |kind, seen| mixed(&[kind, seen])),
        )
    })
    .collect()
}

/// Who accesses: a thread at an instruction.
#[derive(Clone, Copy)]
struct Doer {
    tid: u32,
    /// The thread and the instruction.
    slot: u64,
    /// The kind of thread and the instruction.
    key: u64,
}

impl Doer {
    fn of(hit: &HitRecord, kind: u64) -> Self {
        // A library's access belongs to one of its callers.
        let place = hit
            .callers
            .iter()
            .fold(hit.pc.0, |place, back| mixed(&[place, back.0]));
        Self {
            tid: hit.tid,
            slot: mixed(&[place, hit.tid.into()]),
            key: mixed(&[place, kind]),
        }
    }
}

fn remember(recent: &mut Vec<Doer>, doer: Doer) {
    if let Some(at) = recent.iter().rposition(|other| other.slot == doer.slot) {
        recent.remove(at);
    } else if recent.len() == REMEMBERED {
        recent.remove(0);
    }
    recent.push(doer);
}

struct Count {
    seen: HashSet<u64, BuildHasherDefault<Mixed>>,
    values: usize,
    most: usize,
}

impl Count {
    fn add(&mut self, parts: &[u64]) {
        if !self.is_over() {
            self.seen.insert(mixed(parts));
        }
    }

    fn is_over(&self) -> bool {
        self.seen.len() + self.values > self.most
    }
}

/// One number of several: who makes two different ones alike has one predictor less counted and no more than that.
fn mixed(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |state, part| {
        let mixed = (state ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 32)
    })
}

/// What was mixed needs no hash.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use diagnosis::record::{RunEnd, ThreadRecord};
    use program::RunAddr;

    use super::*;

    /// Random accesses of so many threads, each of one of so many kinds.
    fn record(count: usize, threads: u64, kinds: u64, instructions: u64, addresses: u64) -> RunRecord {
        let mut random = 88_172_645_463_325_252_u64;
        let mut below = |most: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % most
        };
        let hit = |at: usize| HitRecord {
            tid: u32::try_from(below(threads)).unwrap() + 1,
            time_ns: at as u64,
            pc: RunAddr(0x1000 + below(instructions)),
            callers: Vec::new(),
            access: None,
            addr: RunAddr(0x9000 + 8 * below(addresses)),
            location: 0,
            value: Some(below(5)),
            before: None,
            uncertain: false,
            in_frame: None,
        };
        let hits = (0..count).map(hit).collect();
        let looks = (0..threads).map(|thread| ThreadRecord {
            tid: u32::try_from(thread).unwrap() + 1,
            stack: vec![RunAddr(1), RunAddr(thread % kinds)],
        });
        RunRecord {
            number: 1,
            pid: 1,
            sigma: 2,
            end: RunEnd::Succeeded,
            elapsed_ns: 0,
            modules: Vec::new(),
            threads: looks.collect(),
            watched: Vec::new(),
            planned: 0,
            hits,
            lost: 0,
            data_flow: None,
            cut_short: None,
            flow: None,
            allocations: None,
        }
    }

    #[test]
    fn many_accesses_of_few_are_few() {
        assert!(!more_than(&record(100_000, 2, 2, 10, 1), 10_000));
        assert!(
            !more_than(&record(100_000, 1, 1, 100, 1), 24_000),
            "no order with itself, and each read of what each write left"
        );
        assert!(
            !more_than(&record(100_000, 64, 1, 4, 1), 10_000),
            "many of a kind are one"
        );
        assert!(!more_than(&record(0, 1, 1, 1, 1), 0));
    }

    #[test]
    fn many_accesses_of_many_are_too_many() {
        assert!(more_than(&record(100_000, 64, 64, 64, 1), 100_000));
        assert!(more_than(&record(100_000, 64, 1, 1000, 1), 100_000));
        assert!(more_than(&record(100_000, 1000, 1000, 1000, 100), 100_000));
        assert!(more_than(&record(5_000, 1000, 1000, 1000, 1), 100_000));
        let alone = |access| {
            let mut record = record(100_000, 1, 1, 1000, 1);
            record.hits.iter_mut().for_each(|hit| hit.access = access);
            more_than(&record, 50_000)
        };
        assert!(
            alone(None),
            "a thread that reads by any statement what it wrote by any other"
        );
        assert!(!alone(Some(AccessKind::Read)) && !alone(Some(AccessKind::Write)));
    }

    #[test]
    fn who_was_never_looked_at_is_known_by_his_code() {
        let mut record = record(100_000, 64, 64, 4, 1);
        assert!(more_than(&record, 50_000));
        record.threads.clear();
        assert!(!more_than(&record, 50_000), "all of them were everywhere");
        for hit in &mut record.hits {
            hit.pc.0 += u64::from(hit.tid) * 16;
        }
        assert!(more_than(&record, 50_000));
    }

    #[test]
    fn numbers_that_differ_stay_different() {
        let all: HashSet<u64> = (0..1000)
            .flat_map(|a| (0..100).map(move |b| mixed(&[a, b])))
            .collect();
        assert_eq!(all.len(), 100_000);
    }
}

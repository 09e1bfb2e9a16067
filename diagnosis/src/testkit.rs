//! Runs as short texts, for tests.
//!
//! `m:W62=0 a:R82=0` says that thread `m` wrote 0 at line 62 and `a` read it at line 82. Behind an `@`, a location that is
//! not the first one, and behind a `+`, another address of it: `a:R60=7@thd->proc_info+1`. `=0>1` has what was found, too. A `?` at the end says that
//! the place among other threads' events is uncertain; `a:B86+` and `a:B86-` that the branch at line 86 was taken, or was
//! not; `a:X73` that line 73 was executed.

use std::collections::BTreeMap;

use crate::evidence::Evidence;
use crate::rank::{Ranked, rank};
use crate::run::{
    Access, AccessKind, Because, BranchId, BranchInfo, Catalogue, Event, Failed, LocationId, LocationInfo,
    Run, RunThread, Shape, SlicePlace, StatementId, StatementInfo, ThreadIx, Waits, Wanted, Way, What,
};
use crate::sketch::Why;

/// A program's lines, locations and threads.
pub(crate) struct Lab {
    pub catalogue: Catalogue,
    /// What the branch of the best predictor tests.
    pub tested: Vec<StatementId>,
    lines: BTreeMap<u32, StatementId>,
    branches: BTreeMap<u32, BranchId>,
    names: Vec<String>,
    threads: Vec<(char, &'static str)>,
    runs: u64,
}

impl Lab {
    /// Threads by letter and role, locations by name and shape.
    pub fn new(threads: &[(char, &'static str)], locations: &[(&str, Shape)]) -> Self {
        let info = |&(name, shape): &(&str, Shape)| LocationInfo {
            variable: Some(name.into()),
            width: 8,
            shape,
            of_library: false,
        };
        Self {
            catalogue: Catalogue {
                locations: locations.iter().map(info).collect(),
                ..Catalogue::default()
            },
            tested: Vec::new(),
            lines: BTreeMap::new(),
            branches: BTreeMap::new(),
            names: locations.iter().map(|(name, _)| (*name).to_owned()).collect(),
            threads: threads.to_vec(),
            runs: 0,
        }
    }

    /// The statement of a line.
    pub fn line(&mut self, line: u32) -> StatementId {
        let next = StatementId(u32::try_from(self.catalogue.statements.len()).unwrap());
        *self.lines.entry(line).or_insert_with(|| {
            self.catalogue.statements.push(StatementInfo {
                function: "f".into(),
                file: Some("a.c".into()),
                line: Some(line),
                pc: u64::from(line),
                module: None,
                text: None,
                slice: None,
                because: None,
                creates: false,
                takes: false,
                gave: None,
            });
            next
        })
    }

    /// Puts lines into functions.
    pub fn function(&mut self, name: &str, lines: &[u32]) {
        for &line in lines {
            let at = self.line(line).0 as usize;
            self.catalogue.statements[at].function = name.into();
        }
    }

    /// Puts a line into the slice.
    pub fn slice(&mut self, line: u32, distance: u32, because: Option<(Why, u32)>) {
        let because = because.map(|(why, of)| Because {
            of: self.line(of),
            why,
        });
        let number = self
            .catalogue
            .statements
            .iter()
            .filter(|info| info.slice.is_some())
            .count();
        let at = self.line(line).0 as usize;
        let info = &mut self.catalogue.statements[at];
        info.slice = Some(SlicePlace {
            number: u32::try_from(number).unwrap(),
            distance,
        });
        info.because = because;
        info.creates = because.is_some_and(|because| because.why == Why::Thread);
    }

    /// A run that ended well.
    pub fn success(&mut self, text: &str) -> Run {
        let events = text.split_whitespace().map(|token| self.event(token)).collect();
        self.runs += 1;
        Run {
            number: self.runs,
            failed: None,
            sigma: 2,
            threads: self
                .threads
                .iter()
                .map(|(_, role)| RunThread {
                    role: (*role).into(),
                    stack: Vec::new(),
                    ended: false,
                    calls: BTreeMap::new(),
                })
                .collect(),
            events,
            watched: (0..self.names.len())
                .map(|at| LocationId(u32::try_from(at).unwrap()))
                .collect(),
            late: Default::default(),
            traced: self.branches.values().copied().collect(),
            incomplete: None,
            gaps: Vec::new(),
            waits: Vec::new(),
        }
    }

    /// A run in which `thread` failed; `stack` are its lines, innermost (the failing one) first.
    pub fn failure(&mut self, text: &str, thread: char, stack: &[u32]) -> Run {
        let mut run = self.success(text);
        let thread = self.thread(thread);
        let stack: Vec<StatementId> = stack.iter().map(|line| self.line(*line)).collect();
        run.failed = Some(Failed {
            thread: Some(thread),
            statement: stack[0],
            instead_of: None,
            hang: false,
            polls: false,
        });
        run.threads[thread.0 as usize].stack = stack;
        run
    }

    /// A run that does not go on; every thread's lines, innermost first.
    pub fn hang(&mut self, text: &str, stacks: &[(char, &[u32])]) -> Run {
        let mut run = self.failure(text, stacks[0].0, stacks[0].1);
        for (thread, stack) in stacks {
            let at = self.thread(*thread).0 as usize;
            run.threads[at].stack = stack.iter().map(|line| self.line(*line)).collect();
        }
        if let Some(failed) = &mut run.failed {
            failed.hang = true;
        }
        run
    }

    /// What a thread waited for when a run failed.
    pub fn waits(&self, run: &mut Run, thread: char, wanted: Option<Wanted>) {
        let thread = self.thread(thread);
        run.waits.extend(wanted.map(|wanted| Waits { thread, wanted }));
    }

    /// Says that a line takes a lock.
    pub fn takes(&mut self, line: u32) {
        let at = self.line(line).0 as usize;
        self.catalogue.statements[at].takes = true;
    }

    fn thread(&self, letter: char) -> ThreadIx {
        let at = self
            .threads
            .iter()
            .position(|(known, _)| *known == letter)
            .unwrap();
        ThreadIx(u32::try_from(at).unwrap())
    }

    fn event(&mut self, token: &str) -> Event {
        let (token, uncertain) = match token.strip_suffix('?') {
            Some(token) => (token, true),
            None => (token, false),
        };
        let (thread, rest) = token.split_once(':').unwrap();
        let thread = self.thread(thread.chars().next().unwrap());
        let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap();
        let (kind, rest) = rest.split_at(digits);
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (line, rest) = rest.split_at(end);
        let line: u32 = line.parse().unwrap();
        let statement = self.line(line);
        let what = match kind {
            "X" => What::Executed,
            "B" => {
                let next = BranchId(u32::try_from(self.branches.len()).unwrap());
                let branch = *self.branches.entry(line).or_insert_with(|| {
                    self.catalogue.branches.push(BranchInfo {
                        statement,
                        pc: u64::from(line),
                        of_library: false,
                    });
                    next
                });
                let way = if rest == "+" { Way::Taken } else { Way::NotTaken };
                What::Branch(branch, way)
            }
            kind => What::Access(self.access(kind, rest)),
        };
        Event {
            thread,
            statement,
            time_ns: None,
            uncertain,
            what,
        }
    }

    fn access(&self, kind: &str, rest: &str) -> Access {
        let after = |value: &str| value.rsplit('>').next().unwrap().parse().unwrap();
        let (value, place) = match rest.split_once('@') {
            Some((value, place)) => (value, Some(place)),
            None => (rest, None),
        };
        let (name, object) = match place.map(|place| place.split_once('+').unwrap_or((place, "0"))) {
            Some((name, object)) => (Some(name), object.parse().unwrap()),
            None => (None, 0_u64),
        };
        let location = name.map_or(0, |name| {
            self.names.iter().position(|known| known == name).unwrap()
        });
        Access {
            location: LocationId(u32::try_from(location).unwrap()),
            addr: (location as u64 + 1) * 0x1000 + object * 8,
            kind: match kind {
                "R" => AccessKind::Read,
                "W" => AccessKind::Write,
                "RW" => AccessKind::ReadWrite,
                other => panic!("{other} is no access"),
            },
            value: value.strip_prefix('=').map(after),
            before: value.split_once('>').map(|(before, _)| after(&before[1..])),
        }
    }

    /// The ranking that some runs lead to.
    pub fn rank(&mut self, runs: &[Run]) -> (Evidence, Vec<Ranked>) {
        let mut evidence = Evidence::new();
        for run in runs {
            evidence.add(&self.catalogue, run);
        }
        let failing = runs.iter().find_map(|run| run.failed).unwrap().statement;
        let ranked = rank(&self.catalogue, &evidence, failing).ranked;
        (evidence, ranked)
    }

    /// A predictor as `PATTERN line line line`, `value line test` or `branch line way`.
    pub fn describe(&self, ranked: &Ranked) -> String {
        use crate::predictor::Predictor;
        let line = |id: StatementId| self.catalogue.statements[id.0 as usize].line.unwrap();
        let lines = || {
            let accesses = ranked.predictor.accesses();
            accesses
                .iter()
                .map(|(actor, _, _)| format!(" {}", line(actor.statement)))
                .collect::<String>()
        };
        match &ranked.predictor {
            Predictor::Branch { branch, way, .. } => {
                format!(
                    "branch {} {way:?}",
                    line(self.catalogue.branches[branch.0 as usize].statement)
                )
            }
            Predictor::Value { at, test, when, .. } => {
                format!("value {} {test:?} {when:?}", line(at.statement))
            }
            other => format!("{}{}", other.pattern().unwrap(), lines()),
        }
    }
}

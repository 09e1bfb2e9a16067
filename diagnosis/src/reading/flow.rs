//! Control flow as events: which statements of the slice ran, which way branches went.

use std::collections::{BTreeMap, BTreeSet};

use program::{Pc, Program, RunAddr};
use pt_driver_client::code::Exit;
use pt_driver_client::flow::{FlowEvent, ThreadFlow, Time};
use pt_driver_client::recorder::{Missing, Recording, Space, ThreadTrace, What as Lacking};

use super::catalogue::Cataloguer;
use crate::record::FlowRecord;
use crate::run::{BranchId, StatementId, Way, What};

/// What the threads of a run did, by the kernel's number for them.
#[derive(Default)]
pub(super) struct Flows {
    /// In the order of each thread.
    pub(super) threads: BTreeMap<u32, Vec<FlowStep>>,
    /// The branches whose outcomes were recorded.
    pub(super) traced: BTreeSet<BranchId>,
    /// How often each branch went somewhere.
    pub(super) branches: BTreeMap<Pc, u64>,
    /// Why recording ended before the run did.
    pub(super) cut_short: Option<String>,
    /// What is missing, with the thread that it is missing of.
    pub(super) missing: Vec<(Option<u32>, String)>,
}

/// Something that control flow tells of a thread.
pub(super) struct FlowStep {
    pub(super) time_ns: Option<u64>,
    pub(super) statement: StatementId,
    pub(super) what: What,
}

/// Decodes the traces of a run.
pub(super) fn read(record: &FlowRecord, program: &Program<'_>, catalogue: &mut Cataloguer) -> Flows {
    let unknown: BTreeSet<Pc> = record
        .recording
        .missing
        .iter()
        .filter_map(|missing| match missing.what {
            Lacking::Branch(pc) => Some(pc),
            _ => None,
        })
        .collect();
    let branches: BTreeMap<Pc, BranchId> = record
        .branches
        .iter()
        .filter(|pc| !unknown.contains(pc))
        .filter_map(|&pc| Some((pc, catalogue.branch(pc, program)?)))
        .collect();
    let mut flows = Flows {
        traced: branches.values().copied().collect(),
        missing: record.recording.missing.iter().map(missing).collect(),
        cut_short: record
            .recording
            .missing
            .iter()
            .find_map(|missing| match missing.what {
                Lacking::CutShort(_) => Some(missing.what.to_string()),
                _ => None,
            }),
        ..Flows::default()
    };
    for (trace, flow) in record.recording.decode(program, &record.ranges) {
        let Some(space) = record.recording.spaces.get(trace.space) else {
            continue;
        };
        let reader = Reader {
            program,
            space,
            recording: &record.recording,
            trace,
            branches: &branches,
        };
        for branch in flow.branches() {
            if let Some(pc) = reader.place(branch.pc) {
                *flows.branches.entry(pc).or_default() += 1;
            }
        }
        let mut steps = reader.steps(&flow, catalogue);
        let is_later = |step: &FlowStep| step.time_ns > record.until_ns;
        if let Some(later) = record.until_ns.and(steps.iter().position(is_later)) {
            steps.truncate(later);
        }
        let gaps = flow.gaps().map(|gap| (Some(trace.tid.0), gap.why.to_string()));
        flows.missing.extend(gaps);
        flows.threads.entry(trace.tid.0).or_default().extend(steps);
    }
    flows
}

fn missing(missing: &Missing) -> (Option<u32>, String) {
    (missing.tid.map(|tid| tid.0), missing.what.to_string())
}

struct Reader<'r, 'a> {
    program: &'r Program<'a>,
    space: &'r Space,
    recording: &'r Recording,
    trace: &'r ThreadTrace,
    branches: &'r BTreeMap<Pc, BranchId>,
}

impl Reader<'_, '_> {
    fn steps(&self, flow: &ThreadFlow, catalogue: &mut Cataloguer) -> Vec<FlowStep> {
        let mut steps = Vec::new();
        let mut last: Option<StatementId> = None;
        for event in &flow.events {
            match *event {
                FlowEvent::Block { start, end, time } => {
                    for statement in self.statements(start, end, catalogue) {
                        if last.replace(statement) != Some(statement) {
                            steps.push(FlowStep {
                                time_ns: self.time(time),
                                statement,
                                what: What::Executed,
                            });
                        }
                    }
                }
                FlowEvent::Branch(branch) => {
                    let mut known = || {
                        let pc = self.place(branch.pc)?;
                        let id = *self.branches.get(&pc)?;
                        let statement = catalogue.statement_at(pc, self.program)?;
                        let way = match branch.exit {
                            Exit::Cond(_) if branch.taken()? => Way::Taken,
                            Exit::Cond(_) => Way::NotTaken,
                            _ => Way::To(catalogue.statement_at(self.place(branch.to?)?, self.program)?),
                        };
                        Some((statement, What::Branch(id, way)))
                    };
                    if let Some((statement, what)) = known() {
                        steps.push(FlowStep {
                            time_ns: self.time(branch.time),
                            statement,
                            what,
                        });
                    }
                }
                // What comes after a hole is another execution.
                FlowEvent::Interrupted { .. } | FlowEvent::On { .. } | FlowEvent::Off { .. } => last = None,
                FlowEvent::Gap { .. } => last = None,
            }
        }
        steps
    }

    /// The statements of the slice among the instructions of a block, in their order.
    fn statements(&self, start: u64, end: u64, catalogue: &Cataloguer) -> Vec<StatementId> {
        let known = || {
            let first = self.place(start)?;
            let function = self.program.function_at(first)?;
            let module = self.program.module(first.module)?;
            let flow = module.code().flow(function.function);
            let mut at = first;
            let mut found = Vec::new();
            let stop = first.addr.0.wrapping_add(end.wrapping_sub(start));
            while at.addr.0 < stop {
                let length = flow.instruction(flow.at(at.addr)?)?.len();
                if let Some(statement) = catalogue.in_slice_at(at, self.program)
                    && found.last() != Some(&statement)
                {
                    found.push(statement);
                }
                at.addr = at.addr.offset(i64::try_from(length.max(1)).ok()?);
            }
            Some(found)
        };
        known().unwrap_or_default()
    }

    fn place(&self, addr: u64) -> Option<Pc> {
        self.space.to_pc(self.program, RunAddr(addr))
    }

    fn time(&self, time: Option<Time>) -> Option<u64> {
        self.recording.nanoseconds(self.trace, time?)
    }
}

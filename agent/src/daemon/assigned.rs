//! From a plan to what is tracked.

use std::path::Path;

use diagnosis::tracking::{Assignment, ModuleName};
use proto::v1::Plan;
use pt_driver_client::recorder::recorder;
use tracee::ProgramFiles;
use watchpoint::Mode;

use super::identity::Identity;
use crate::config::Config;
use crate::tracked::{FlowTracking, Tracking};

/// What to track of one run, and for which bug.
pub(crate) struct Assigned {
    pub(crate) bug: String,
    pub(crate) number: u64,
    pub(crate) assignment: Assignment,
    /// Threads are not to be stopped.
    gentle: bool,
    /// Control flow is to be recorded.
    flow: bool,
}

impl Assigned {
    /// What a plan asks for, as far as this host allows it. `None` if it cannot be understood: the run is one that
    /// nobody tracks then.
    pub(crate) fn new(plan: Plan, identity: &Identity, config: &Config) -> Option<Self> {
        let assignment: Assignment = match serde_json::from_slice(&plan.assignment) {
            Ok(assignment) => assignment,
            Err(error) => {
                tracing::warn!(bug = plan.bug, %error, "a plan that cannot be understood");
                return None;
            }
        };
        if let Some(executable) = assignment.modules.first()
            && executable.build_id.as_ref() != Some(&identity.build_id)
        {
            tracing::warn!(bug = plan.bug, "a plan for another build");
            return None;
        }
        let mut assignment = assignment;
        assignment.sigma = plan.sigma.max(assignment.sigma);
        // No server has more registers than the host allows.
        let assignment = assignment.share(config.registers as usize, 0);
        Some(Self {
            bug: plan.bug,
            number: plan.number,
            assignment,
            gentle: plan.data_flow == "observe",
            flow: !plan.without_control_flow,
        })
    }

    /// To be tracked in a run that we start.
    pub(crate) fn tracking(self, mode: Mode, identity: &Identity, config: &Config) -> Tracking {
        let flow = match self.flow {
            true => flow(&self.assignment, identity, config),
            false => None,
        };
        let mode = if self.gentle { Mode::Observe } else { mode };
        let assignment = self.assignment;
        Tracking {
            number: self.number,
            sigma: assignment.sigma,
            mode,
            locations: assignment.locations,
            own_frames: assignment.own_frames,
            planned: assignment.planned,
            library: assignment.library,
            allocators: assignment.allocators,
            results: assignment.results,
            flow,
        }
    }
}

/// Who records control flow. The plan speaks of the program's files by number: if one of them is not here, or is another
/// build, the numbers mean something else and nothing is recorded.
fn flow(assignment: &Assignment, identity: &Identity, config: &Config) -> Option<FlowTracking> {
    let plan = &assignment.plan;
    if plan.ranges.is_empty() {
        return None;
    }
    let files = ProgramFiles::default();
    let (_, others) = assignment.modules.split_first()?;
    let paths = others.iter().map(|module| module.path.as_str());
    let program = files.program_of_modules(&identity.path, paths).ok()?;
    let here = program.modules().map(|(_, module)| module.elf().build_id());
    let wanted = assignment.modules.iter().map(|module| module.build_id.clone());
    if !here.eq(wanted) {
        let missing: Vec<&str> = others
            .iter()
            .filter(|module| !is_here(module))
            .map(|it| it.path.as_str())
            .collect();
        tracing::info!(
            ?missing,
            "control flow is not recorded: files of the plan are not here"
        );
        return None;
    }
    match recorder(config.control_flow, &program, plan) {
        Ok(recorder) => Some(FlowTracking {
            recorder: recorder?,
            ranges: plan.ranges.clone(),
            branches: plan.branches.clone(),
        }),
        Err(error) => {
            let error = crate::causes(&error);
            tracing::warn!(error, "control flow cannot be recorded");
            None
        }
    }
}

fn is_here(module: &ModuleName) -> bool {
    let files = ProgramFiles::default();
    let opened = files.module(Path::new(&module.path));
    opened.is_ok_and(|here| here.elf().build_id() == module.build_id)
}

#[cfg(test)]
mod tests {
    use diagnosis::record::WatchedRecord;
    use program::LinkAddr;
    use watchpoint::{Address, Trigger, WatchSpec};

    use super::*;

    fn location(len: u32) -> (WatchedRecord, WatchSpec) {
        let watched = WatchedRecord {
            module: None,
            access: LinkAddr(0x1000),
            passed: None,
            width: len,
            within: 0,
            always_at: None,
            fixed: None,
            late: false,
            given_up: false,
            stores: false,
            result: false,
            found: 0,
        };
        let spec = WatchSpec {
            address: Address::Static {
                module: None,
                addr: LinkAddr(0x4000),
            },
            len,
            trigger: Trigger::ReadWrite,
            places: 1,
        };
        (watched, spec)
    }

    #[test]
    fn no_server_gets_more_registers_than_the_host_allows() {
        let lens = |registers| {
            let told = Assignment {
                locations: vec![location(8), location(16), location(4), location(8)],
                ..Assignment::default()
            };
            let locations = told.share(registers, 0).locations;
            locations.iter().map(|(_, spec)| spec.len).collect::<Vec<u32>>()
        };
        assert_eq!(lens(0), [0_u32; 0]);
        assert_eq!(lens(1), [8]);
        assert_eq!(lens(2), [8, 4]);
        assert_eq!(lens(4), [8, 16, 4]);
        assert_eq!(lens(5), [8, 16, 4, 8]);
    }
}

//! `failsketch doctor`.

use anyhow::Result;
use sketch_render::doctor as render;
use tracee::capability::{self, Capability, Facts, Report, State};

use crate::args::DoctorArgs;
use crate::present;

/// Runs the command; gives what to print.
pub fn run(args: &DoctorArgs) -> Result<String> {
    let report = capability::examine();
    if args.json {
        return Ok(serde_json::to_string_pretty(&report)? + "\n");
    }
    let tried: Vec<_> = report.capabilities.iter().map(tried).collect();
    let lines = render::report(
        &host(&report.facts),
        &tried,
        &conclusion(&report),
        present::terminal(),
    );
    Ok(lines)
}

fn tried(capability: &Capability) -> render::Tried {
    render::Tried {
        name: capability.name.to_owned(),
        purpose: capability.purpose.to_owned(),
        state: match capability.state {
            State::Works => render::State::Works,
            State::Degraded => render::State::Degraded,
            State::Missing => render::State::Missing,
        },
        detail: capability.detail.clone(),
        enable: capability.enable.clone(),
    }
}

fn host(facts: &Facts) -> Vec<(String, String)> {
    let mut lines = vec![
        ("kernel".to_owned(), facts.kernel.clone()),
        (
            "processor".to_owned(),
            if facts.virtual_machine {
                format!("{} (virtual machine)", facts.processor)
            } else {
                facts.processor.clone()
            },
        ),
        (
            "user".to_owned(),
            match (facts.user, facts.user_namespace) {
                (0, false) => "root".to_owned(),
                (0, true) => "root of a user namespace".to_owned(),
                (user, _) => user.to_string(),
            },
        ),
        (
            "capabilities".to_owned(),
            if facts.capabilities.is_empty() {
                "none of those that matter".to_owned()
            } else {
                facts.capabilities.join(" ")
            },
        ),
    ];
    lines.extend(
        facts
            .container
            .iter()
            .map(|container| ("container".to_owned(), container.clone())),
    );
    let limits = [
        (facts.seccomp, "a seccomp filter is in force"),
        (facts.no_new_privileges, "new privileges cannot be gained"),
        (facts.pid_namespace, "process numbers are those of a namespace"),
    ];
    let limits = limits.into_iter().filter(|(holds, _)| *holds);
    lines.extend(limits.map(|(_, what)| ("limit".to_owned(), what.to_owned())));
    lines.extend(facts.settings.iter().map(|setting| {
        let value = setting.value.clone().unwrap_or_else(|| "not there".to_owned());
        (setting.name.to_owned(), value)
    }));
    lines
}

/// What the findings come to, for whoever does not want to read them.
fn conclusion(report: &Report) -> Vec<String> {
    let works = |name: &str| {
        let found = report.capabilities.iter().find(|known| known.name == name);
        found.is_some_and(|known| known.state != State::Missing)
    };
    let observes = works("perf-rings") || works("bpf");
    let data = match (works("exact-stops"), observes, works("ptrace-launch")) {
        (true, true, _) => "Data flow: observe and exact mode.",
        (false, true, _) => "Data flow: observe mode.",
        (true, false, _) => "Data flow: exact mode.",
        (false, false, true) => "Data flow: compat mode, for programs that failsketch starts.",
        (false, false, false) => "Data flow: none.",
    };
    let control = match (works("intel-pt"), works("uprobes")) {
        (true, _) => "Control flow: Intel PT.",
        (false, true) => "Control flow: software PT (probes on the branches that matter).",
        (false, false) => "Control flow: none.",
    };
    let analysis = "Slices and triage of crashes need none of this.";
    [data, control, analysis].map(str::to_owned).to_vec()
}

//! The attempts, one for each capability.

use std::error::Error;
use std::fmt::Write as _;

use super::facts::Facts;
use super::host::{core_dumps, core_remedy, intel_pt, intel_pt_remedy, open_files};
use super::subject::{Relation, Subject};
use super::tracing::{attach_stranger, memory, ptrace};
use super::watching::{bpf, rings, stops, uprobes, watchpoints};
use super::{Capability, State, remedy};

/// Why an attempt failed, or what it showed.
pub(super) type Tried = Result<Shown, Box<dyn Error>>;

/// What an attempt that did not fail showed.
pub(super) struct Shown {
    state: State,
    detail: String,
}

pub(super) fn works(detail: impl Into<String>) -> Tried {
    Ok(Shown {
        state: State::Works,
        detail: detail.into(),
    })
}

pub(super) fn degraded(detail: impl Into<String>) -> Tried {
    Ok(Shown {
        state: State::Degraded,
        detail: detail.into(),
    })
}

/// Tries everything.
pub(super) fn all(facts: &Facts) -> Vec<Capability> {
    let child = Subject::start(Relation::Child);
    let on_child = |attempt: fn(&Subject) -> Tried| match &child {
        Ok(child) => attempt(child),
        Err(error) => Err(format!("no process to try it on could be started: {error}").into()),
    };
    let watch = || remedy::watching(facts);
    vec![
        capability(
            "watchpoints",
            "seeing who accesses a variable",
            on_child(watchpoints),
            watch,
        ),
        capability(
            "exact-stops",
            "stopping a thread at each access",
            on_child(stops),
            watch,
        ),
        capability(
            "perf-rings",
            "accesses without stopping anybody",
            on_child(rings),
            watch,
        ),
        capability("bpf", "values at the moment of an access", on_child(bpf), || {
            remedy::grant(facts, &["bpf", "perfmon"])
        }),
        capability(
            "uprobes",
            "arming early; control flow without Intel PT",
            on_child(uprobes),
            || remedy::grant(facts, &["perfmon", "sys_admin"]),
        ),
        capability(
            "ptrace-launch",
            "running a program under failsketch",
            on_child(ptrace),
            || remedy::tracing(facts),
        ),
        capability(
            "ptrace-attach",
            "attaching to a running program",
            attach_stranger(),
            || remedy::tracing(facts),
        ),
        capability(
            "memory",
            "reading another process's memory",
            on_child(memory),
            || remedy::tracing(facts),
        ),
        capability("intel-pt", "control flow at full speed", intel_pt(facts), || {
            intel_pt_remedy(facts)
        }),
        capability(
            "open-files",
            "watching programs with many threads",
            open_files(facts),
            || vec!["ulimit -Hn 65536   # as root; or LimitNOFILE=65536 in the service".to_owned()],
        ),
        capability(
            "core-dumps",
            "diagnosing crashes that nobody watched",
            core_dumps(facts),
            || core_remedy(facts),
        ),
    ]
}

fn capability(
    name: &'static str,
    purpose: &'static str,
    tried: Tried,
    enable: impl FnOnce() -> Vec<String>,
) -> Capability {
    let Shown { state, detail } = tried.unwrap_or_else(|error| Shown {
        state: State::Missing,
        detail: in_full(&*error),
    });
    Capability {
        name,
        purpose,
        state,
        detail,
        enable: if state == State::Works {
            Vec::new()
        } else {
            enable()
        },
    }
}

/// An error with what caused it, on one line.
pub(super) fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            let _ = write!(text, ": {said}");
        }
        cause = error.source();
    }
    text
}

//! What the machine has and the system administrator has set.

use std::fs;

use super::facts::{Facts, processor_has};
use super::remedy::watching;
use super::tries::{Tried, degraded, works};
use crate::perf::{original_file_limit, try_open_pmu};

const PT: &str = "/sys/bus/event_source/devices/intel_pt/type";

pub(super) fn intel_pt(facts: &Facts) -> Tried {
    let Ok(kind) = fs::read_to_string(PT) else {
        let why = if processor_has("intel_pt") {
            "the processor has it, but the kernel does not offer it"
        } else if facts.virtual_machine {
            "this virtual machine's processor does not have it"
        } else {
            "this processor does not have it"
        };
        return Err(format!("{why} (no {PT}); control flow is recorded with uprobes instead").into());
    };
    try_open_pmu(kind.trim().parse()?)?;
    works("an event was opened")
}

pub(super) fn intel_pt_remedy(facts: &Facts) -> Vec<String> {
    if fs::exists(PT).unwrap_or(false) {
        return watching(facts);
    }
    if processor_has("intel_pt") {
        return vec!["boot a kernel with CONFIG_PERF_EVENTS_INTEL and without intel_pt=off".to_owned()];
    }
    if facts.virtual_machine && facts.processor.contains("Intel") {
        return vec![
            "on the host of this virtual machine: modprobe -r kvm_intel && modprobe kvm_intel pt_mode=1, and \
             start the guest with -cpu host"
                .to_owned(),
        ];
    }
    Vec::new()
}

pub(super) fn open_files(facts: &Facts) -> Tried {
    /// 300 threads with four locations each, and some more.
    const ENOUGH: u64 = 1500;
    let limit = original_file_limit().ok_or("the limit could not be read")?;
    let said = facts.setting("ulimit -n").unwrap_or_default();
    if limit.hard >= ENOUGH {
        works(format!("{said}, raised when needed"))
    } else {
        degraded(format!(
            "{said}: enough to watch four locations in {} threads",
            limit.hard / 5
        ))
    }
}

pub(super) fn core_dumps(facts: &Facts) -> Tried {
    let pattern = facts.setting("kernel.core_pattern").unwrap_or_default();
    let limit = facts.setting("ulimit -c").unwrap_or("0");
    if let Some(handler) = pattern.strip_prefix('|') {
        let handler = handler.split_whitespace().next().unwrap_or_default();
        if handler.ends_with("systemd-coredump") {
            return works("systemd-coredump keeps them: coredumpctl dump -o core");
        }
        return degraded(format!(
            "they are handed to {handler}, which may keep them or not"
        ));
    }
    if pattern.is_empty() {
        return Err("kernel.core_pattern is empty".into());
    }
    if limit == "0" {
        return Err("the limit of core files is 0 in this shell".into());
    }
    works(format!("written to {pattern}"))
}

pub(super) fn core_remedy(facts: &Facts) -> Vec<String> {
    let pattern = facts.setting("kernel.core_pattern").unwrap_or_default();
    let mut steps = Vec::new();
    if pattern.is_empty() || pattern.starts_with('|') {
        steps.push("sudo sysctl kernel.core_pattern=core.%p".to_owned());
    }
    steps.push("ulimit -c unlimited   # in the shell that starts the program".to_owned());
    steps
}

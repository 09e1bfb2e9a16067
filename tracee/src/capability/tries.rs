//! The attempts, one for each capability.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;

use program::{FileOffset, RunAddr};

use super::facts::{Facts, processor_has, read};
use super::remedy::{grant, set};
use super::subject::{Relation, Subject};
use super::{Capability, State};
use crate::bpf::{HitProgram, HitRing, Location};
use crate::perf::{
    Breakpoint, DEBUG_REGISTERS, Delivery, Follow, ProbeEnd, ProbeFile, ProbeTarget, Range, Record, Rings,
    Start, Trigger, Uprobe, free_registers, try_open_pmu,
};
use crate::process::Memory;
use crate::ptrace::Tracer;

/// Why an attempt failed, or what it showed.
type Tried = Result<Shown, Box<dyn Error>>;

/// What an attempt that did not fail showed.
struct Shown {
    state: State,
    detail: String,
}

fn works(detail: impl Into<String>) -> Tried {
    Ok(Shown {
        state: State::Works,
        detail: detail.into(),
    })
}

fn degraded(detail: impl Into<String>) -> Tried {
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
    let watch = || watch_remedy(facts);
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
            grant(facts, &["bpf", "perfmon"])
        }),
        capability(
            "uprobes",
            "arming early; control flow without Intel PT",
            on_child(uprobes),
            || grant(facts, &["perfmon"]),
        ),
        capability(
            "ptrace-launch",
            "running a program under failsketch",
            on_child(ptrace),
            || ptrace_remedy(facts),
        ),
        capability(
            "ptrace-attach",
            "attaching to a running program",
            attach_stranger(),
            || ptrace_remedy(facts),
        ),
        capability(
            "memory",
            "reading another process's memory",
            on_child(memory),
            || ptrace_remedy(facts),
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
fn in_full(error: &dyn Error) -> String {
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

fn watched() -> Result<Trigger, Box<dyn Error>> {
    Ok(Trigger::Write(Range::new(Subject::watched(), 8)?))
}

fn open(subject: &Subject, delivery: Delivery<'_>) -> Result<Breakpoint, Box<dyn Error>> {
    let tid = subject.pid().first_thread();
    Ok(Breakpoint::open(
        tid,
        watched()?,
        delivery,
        Follow::Threads,
        Start::Enabled,
    )?)
}

fn watchpoints(subject: &Subject) -> Tried {
    let free = free_registers(subject.pid().first_thread())?;
    let breakpoint = open(subject, Delivery::Silent)?;
    subject.write()?;
    subject.write()?;
    match breakpoint.count()? {
        2 if free == DEBUG_REGISTERS => works(format!("2 of 2 writes seen; {free} debug registers are free")),
        2 => degraded(format!(
            "2 of 2 writes seen, but only {free} of {DEBUG_REGISTERS} debug registers are free: another tool \
             (perf, a kernel debugger) holds the others on all processors"
        )),
        seen => Err(format!("a debug register was set, but {seen} of 2 writes were seen").into()),
    }
}

fn stops(subject: &Subject) -> Tried {
    let before = subject.write()?;
    let breakpoint = open(subject, Delivery::Stop { cookie: 0 })?;
    let after = subject.write()?;
    drop(breakpoint);
    match after.wrapping_sub(before) {
        1 => works("a write raised SIGTRAP with TRAP_PERF"),
        traps => Err(format!("one write raised SIGTRAP {traps} times").into()),
    }
}

fn rings(subject: &Subject) -> Tried {
    let mut rings = Rings::open(1 << 16)?;
    let breakpoint = open(subject, Delivery::Ring(&rings))?;
    subject.write()?;
    drop(breakpoint);
    match rings.read_to_end().as_slice() {
        [one] if matches!(&one.record, Record::Sample(sample) if sample.registers.is_some()) => {
            works("a write gave one sample with registers")
        }
        other => Err(format!("one write gave {} records", other.len()).into()),
    }
}

fn bpf(subject: &Subject) -> Tried {
    let mut ring = HitRing::new(1 << 16, 8)?;
    let location = Location {
        addr: Subject::watched(),
        len: 8,
    };
    ring.set_location(0, Some(location))?;
    let program = HitProgram::for_breakpoints(&ring, 0)?;
    let breakpoint = open(subject, Delivery::Bpf(&program))?;
    subject.write()?;
    drop(breakpoint);
    let mut values = Vec::new();
    ring.read(|hit| values.extend(hit.value_at(Subject::watched()).and_then(|value| value.number())));
    let now = Memory::of(subject.pid()).read_word(Subject::watched());
    match values.as_slice() {
        [value] if now.is_none_or(|now| now == *value) => works("a program read the value at a write"),
        other => Err(format!(
            "a program was loaded, but read {} values at one write",
            other.len()
        )
        .into()),
    }
}

fn uprobes(subject: &Subject) -> Tried {
    let (range, offset, path) = own_text(Subject::function()).ok_or("our own text was not found")?;
    let file = ProbeFile::mapped(subject.pid(), range, path.as_ref())?;
    let target = ProbeTarget::Thread(subject.pid().first_thread());
    let probe = Uprobe::open(&file, offset, ProbeEnd::Entry, target, Delivery::Silent)?;
    subject.call()?;
    match probe.count()? {
        1 => works("a probe on a function was hit"),
        hits => Err(format!("a probe was set, but one call hit it {hits} times").into()),
    }
}

/// The mapping, the offset in its file, and the file of an address in our text.
fn own_text(addr: RunAddr) -> Option<(std::ops::Range<RunAddr>, FileOffset, String)> {
    read("/proc/self/maps").lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hex(start)?, hex(end)?);
        let offset = hex(fields.nth(1)?)?;
        let path = fields.nth(2)?.to_owned();
        let inside = addr.0.checked_sub(start).filter(|_| addr.0 < end)?;
        Some((RunAddr(start)..RunAddr(end), FileOffset(offset + inside), path))
    })
}

fn ptrace(subject: &Subject) -> Tried {
    attach(subject)?;
    works("a child was attached to and let go")
}

fn attach_stranger() -> Tried {
    let stranger = Subject::start(Relation::Stranger)?;
    attach(&stranger)?;
    works("a process of the same user, not a child, was attached to and let go")
}

/// Attaches and lets go: by ending the thread that attached.
fn attach(subject: &Subject) -> Result<(), Box<dyn Error>> {
    let pid = subject.pid();
    let attached = std::thread::scope(|scope| {
        let tracer = scope.spawn(|| match Tracer::attach(pid, false) {
            Ok(_) => Ok(()),
            Err(error) => Err(in_full(&error)),
        });
        tracer
            .join()
            .unwrap_or_else(|_| Err("the attempt ended early".to_owned()))
    });
    attached?;
    subject.write()?;
    Ok(())
}

fn memory(subject: &Subject) -> Tried {
    let mut word = [0; 8];
    match Memory::of(subject.pid()).read_some(Subject::watched(), &mut word)? {
        8 => works("a child's memory was read"),
        count => Err(format!("{count} of 8 bytes were read").into()),
    }
}

const PT: &str = "/sys/bus/event_source/devices/intel_pt/type";

fn intel_pt(facts: &Facts) -> Tried {
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

fn intel_pt_remedy(facts: &Facts) -> Vec<String> {
    if fs::exists(PT).unwrap_or(false) {
        return watch_remedy(facts);
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

fn open_files(facts: &Facts) -> Tried {
    /// 300 threads with four locations each, and some more.
    const ENOUGH: u64 = 1500;
    let limit = crate::perf::original_file_limit().ok_or("the limit could not be read")?;
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

fn core_dumps(facts: &Facts) -> Tried {
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

fn core_remedy(facts: &Facts) -> Vec<String> {
    let pattern = facts.setting("kernel.core_pattern").unwrap_or_default();
    let mut steps = Vec::new();
    if pattern.is_empty() || pattern.starts_with('|') {
        steps.push("sudo sysctl kernel.core_pattern=core.%p".to_owned());
    }
    steps.push("ulimit -c unlimited   # in the shell that starts the program".to_owned());
    steps
}

/// A user's own processes may be watched with the setting at 2; otherwise it takes capabilities.
fn watch_remedy(facts: &Facts) -> Vec<String> {
    match facts.number("kernel.perf_event_paranoid") {
        Some(paranoid) if paranoid > 2 && !facts.has("CAP_PERFMON") && facts.container.is_none() => {
            set("kernel.perf_event_paranoid", "2")
        }
        _ => grant(facts, &["perfmon", "sys_ptrace"]),
    }
}

fn ptrace_remedy(facts: &Facts) -> Vec<String> {
    match facts.number("kernel.yama.ptrace_scope") {
        Some(3) => vec![
            "remove kernel.yama.ptrace_scope=3 from /etc/sysctl.conf and /etc/sysctl.d, and reboot"
                .to_owned(),
        ],
        Some(1 | 2) if !facts.has("CAP_SYS_PTRACE") && facts.container.is_none() => {
            set("kernel.yama.ptrace_scope", "0")
        }
        _ => grant(facts, &["sys_ptrace"]),
    }
}

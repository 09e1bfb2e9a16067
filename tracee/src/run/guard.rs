//! A process that was there before us, followed until it fails or ends.
//!
//! Nothing that we do may show, and we may be killed at any instant. So nobody is interrupted, and a fatal signal is only
//! looked at: the failing thread's registers are read while it is about to get the signal, which the kernel still has should
//! we end, and then it gets it. The other threads are looked at while the kernel ends them: each stops once more, with
//! its registers and the process's memory as they were. All that tracing costs them is the time of these stops.
//! The one exception are threads that hang: they are where the kernel begins their wait again, without their noticing.
//! So is a process looked at that ends by itself with a status that counts as a failure, at the end of the thread that ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use failure::FailOn;
use failure::image::{self, Limits, ModuleFiles, SignalInfo, StoppedThread};
use failure::report::{Kind, Report, Sign, Wanted};

use super::fatal::{self, Effect};
use super::stacks;
use super::standstill::Blocked;
use crate::ids::{Pid, Tid};
use crate::process::{Process, StoppedProcess};
use crate::ptrace::{Attached, End, Resume, SigInfo, Stop, TraceError, Tracer, What};

/// How long the other threads may take to come to their ends. One that waits for a device comes late.
const PATIENCE: Duration = Duration::from_millis(500);

const EXIT: u64 = libc::SYS_exit as u64;
const EXIT_GROUP: u64 = libc::SYS_exit_group as u64;

/// What was seen of a process.
#[derive(Debug)]
pub enum Seen {
    /// It is failing: this is what is known as long as it is still there.
    Failed(Box<Report>),
    /// It runs another program now.
    OtherProgram,
    /// It ended.
    Ended(End),
}

/// Waits for the failure of a process. It belongs to the operating-system thread that attached, and the process is free when
/// that thread ends.
#[derive(Debug)]
pub struct Guard {
    tracer: Tracer<Attached>,
    stops: u64,
    /// Threads that were seen to be ended with their process, before the one that ends it was: they may come first.
    ended_before: Vec<StoppedThread>,
}

/// How to look at a failure.
pub struct Look<'l> {
    /// What counts as one.
    pub fail_on: &'l FailOn,
    /// The files of the modules.
    pub modules: &'l (dyn ModuleFiles + Sync),
    /// How much of the stacks to take.
    pub limits: Limits,
}

impl Guard {
    /// Attaches to a process, all of whose threads run on.
    ///
    /// # Errors
    /// When it cannot be traced.
    pub fn attach(pid: Pid) -> Result<Self, TraceError> {
        Ok(Self {
            tracer: Tracer::attach_to_end(pid)?,
            stops: 0,
            ended_before: Vec::new(),
        })
    }

    /// How often threads were stopped so far: for signals, and where they begin and end.
    #[must_use]
    pub fn stops(&self) -> u64 {
        self.stops
    }

    /// Waits until there is something to tell, at most as long as said.
    ///
    /// # Errors
    /// When the process can no longer be followed.
    pub fn wait(&mut self, limit: Duration, look: &Look<'_>) -> Result<Option<Seen>, TraceError> {
        let deadline = Instant::now().checked_add(limit);
        loop {
            let left = deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            let stop = match self.tracer.wait(left) {
                Ok(Some(stop)) => stop,
                Ok(None) => return Ok(None),
                Err(TraceError::NothingLeft) => return Ok(Some(Seen::Ended(End::Unknown))),
                Err(error) => return Err(error),
            };
            match stop.what {
                What::ProcessExited(end) => return Ok(Some(Seen::Ended(end))),
                What::Signal(info) if self.is_failure(&stop, &info, look) => {
                    if let Some(report) = self.look(&stop, &info, look)? {
                        return Ok(Some(Seen::Failed(Box::new(report))));
                    }
                }
                What::Exiting => match self.failing_status(&stop, look) {
                    Some(status) => {
                        if let Some(report) = self.look_at_exit(&stop, status, look)? {
                            return Ok(Some(Seen::Failed(Box::new(report))));
                        }
                    }
                    None => {
                        self.keep_if_ended(&stop, look);
                        self.go_on(&stop)?;
                    }
                },
                What::Exec { .. } => {
                    self.go_on(&stop)?;
                    return Ok(Some(Seen::OtherProgram));
                }
                _ => self.go_on(&stop)?,
            }
        }
    }

    /// Takes the stacks of threads that do not go on, and lets them wait on. `None` if they do go on.
    ///
    /// # Errors
    /// When the process can no longer be followed.
    pub fn look_at(&mut self, blocked: &Blocked, look: &Look<'_>) -> Result<Option<Report>, TraceError> {
        let pid = self.tracer.pid();
        let tids: Vec<Tid> = blocked.threads().collect();
        if !blocked.is_unmoved(Process::new(pid)) {
            return Ok(None);
        }
        let held = self.tracer.hold(&tids, PATIENCE)?;
        let threads = tids.iter().filter(|_| held);
        let threads: Vec<StoppedThread> = threads
            .filter_map(|&tid| stacks::thread(&self.tracer, pid, tid))
            .collect();
        let whole = held && threads.len() == tids.len();
        let report = whole.then(|| report(pid, threads, None, &[], look)).flatten();
        self.stops += self.tracer.release(&tids)?;
        let report = report.map(|report| named_by_host(pid, report));
        let report = report.filter(|report| blocked.is_borne_out(report));
        Ok(report.map(|report| Report {
            kind: Kind::Hang,
            notes: report.notes.iter().cloned().chain([blocked.why()]).collect(),
            ..report
        }))
    }

    /// Leaves the process as it was found. With the end of the calling thread it is free.
    ///
    /// # Errors
    /// When stops are still to come.
    pub fn leave(self, limit: Duration) -> Result<(), TraceError> {
        self.tracer.detach(limit, |_| false)
    }

    fn go_on(&mut self, stop: &Stop) -> Result<(), TraceError> {
        if !stop.is_stopped() {
            return Ok(());
        }
        self.stops += 1;
        self.tracer.resume(stop.tid, Resume::Deliver)
    }

    fn is_failure(&self, stop: &Stop, info: &SigInfo, look: &Look<'_>) -> bool {
        let from_outside = fatal::is_from_outside(info, |sender| sender == stop.pid);
        fatal::effect(stop.pid, stop.tid, info) == Effect::Fatal
            && look.fail_on.signal(info.signal(), from_outside)
    }

    /// The status that a thread which is about to end has its process end with, if that is a failure.
    fn failing_status(&self, stop: &Stop, look: &Look<'_>) -> Option<i32> {
        if !look.fail_on.asks_for_exit() {
            return None;
        }
        let registers = self.tracer.registers(stop.tid).ok()?;
        let last = || self.tracer.threads().filter(|&(pid, _)| pid == stop.pid).count() == 1;
        let ends_the_process = registers.orig_rax == EXIT_GROUP || registers.orig_rax == EXIT && last();
        // What a parent gets to know of it.
        let status = i32::from(registers.rdi.to_le_bytes()[0]);
        (ends_the_process && look.fail_on.exit(status)).then_some(status)
    }

    /// Keeps the stack of a thread that somebody else ends, where the one who does may be a failure.
    fn keep_if_ended(&mut self, stop: &Stop, look: &Look<'_>) {
        let registers = self.tracer.registers(stop.tid).ok();
        let by_itself = registers.is_none_or(|registers| [EXIT, EXIT_GROUP].contains(&registers.orig_rax));
        if look.fail_on.asks_for_exit() && !by_itself {
            let thread = stacks::thread(&self.tracer, stop.pid, stop.tid);
            self.ended_before.extend(thread);
        }
    }

    /// Takes the stacks of a process that ends by itself, and lets it end.
    fn look_at_exit(
        &mut self,
        stop: &Stop,
        status: i32,
        look: &Look<'_>,
    ) -> Result<Option<Report>, TraceError> {
        let pid = stop.pid;
        let ending = stacks::thread(&self.tracer, pid, stop.tid);
        let endings = self.endings(pid, stop.tid)?;
        let before = std::mem::take(&mut self.ended_before);
        let threads = ending.into_iter().chain(before).chain(endings.threads);
        let report = report(pid, threads.collect(), None, &endings.late, look);
        for tid in endings.held.into_iter().chain([stop.tid]) {
            self.stops += 1;
            self.tracer.resume(tid, Resume::Deliver)?;
        }
        let report = report.filter(|report| !report.threads.is_empty());
        Ok(report.map(|report| Report {
            kind: Kind::ExitStatus,
            sign: Some(Sign::Status(status)),
            message: Some(format!("exit status {status}")),
            ..report
        }))
    }

    /// Takes the stacks of a process that is about to die, and lets it die.
    fn look(&mut self, stop: &Stop, info: &SigInfo, look: &Look<'_>) -> Result<Option<Report>, TraceError> {
        let pid = stop.pid;
        let failing = stacks::thread(&self.tracer, pid, stop.tid);
        // Mappings and messages are there now. When the others come to their ends, the first of them may be gone.
        let alone = failing
            .clone()
            .and_then(|failing| report(pid, vec![failing], Some(info), &[], look));
        self.go_on(stop)?;
        let Some(failing) = failing else {
            return Ok(None);
        };
        let Endings {
            threads: others,
            held,
            late,
        } = self.endings(pid, stop.tid)?;
        let mut threads = vec![failing];
        threads.extend(others);
        let whole = report(pid, threads, Some(info), &late, look);
        for tid in held {
            self.stops += 1;
            self.tracer.resume(tid, Resume::Deliver)?;
        }
        Ok(whole.filter(|whole| !whole.threads.is_empty()).or(alone))
    }

    /// Waits for the other threads of a process that dies, and holds all that come where they end.
    fn endings(&mut self, pid: Pid, failing: Tid) -> Result<Endings, TraceError> {
        let deadline = Instant::now() + PATIENCE;
        let others = self
            .tracer
            .threads()
            .filter(|&(of, tid)| of == pid && tid != failing);
        let mut awaited: BTreeSet<Tid> = others.map(|(_, tid)| tid).collect();
        let mut endings = Endings::default();
        while !awaited.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(stop) = self.tracer.wait(left)? else {
                break;
            };
            match stop.what {
                What::Exiting => {
                    endings.held.push(stop.tid);
                    if awaited.remove(&stop.tid) {
                        endings
                            .threads
                            .extend(stacks::thread(&self.tracer, pid, stop.tid));
                    }
                }
                What::ThreadExited => {
                    awaited.remove(&stop.tid);
                }
                What::ProcessExited(_) => break,
                _ => self.go_on(&stop)?,
            }
        }
        endings.threads.sort_by_key(|thread| thread.tid);
        endings.late = awaited.into_iter().collect();
        Ok(endings)
    }
}

/// The threads of a process that dies.
#[derive(Default)]
struct Endings {
    /// Those that did not fail, as they were.
    threads: Vec<StoppedThread>,
    /// Those that wait to be let go.
    held: Vec<Tid>,
    /// Those that did not come in time.
    late: Vec<Tid>,
}

/// Locks name their holders by the numbers that the program knows them by. In a container these are others than here.
fn named_by_host(pid: Pid, mut report: Report) -> Report {
    let process = Process::new(pid);
    let names = report.threads.iter().filter_map(|thread| {
        let tid = thread.id?;
        let status = process.thread_status(Tid(u32::try_from(tid).ok()?)).ok()?;
        Some((u64::from(*status.namespaced.last()?), tid))
    });
    let names: BTreeMap<u64, u64> = names.collect();
    for thread in &mut report.threads {
        if let Some(Wanted::Lock {
            holder: Some(holder), ..
        }) = &mut thread.wants
        {
            *holder = names.get(holder).copied().unwrap_or(*holder);
        }
    }
    report
}

fn report(
    pid: Pid,
    threads: Vec<StoppedThread>,
    info: Option<&SigInfo>,
    late: &[Tid],
    look: &Look<'_>,
) -> Option<Report> {
    let notes = late
        .iter()
        .map(|tid| format!("thread {tid} could not be stopped: its stack is not known"));
    let stopped = StoppedProcess::new(pid, threads, info.map(SignalInfo::from), notes.collect());
    Some(image::report(&stopped.ok()?, look.modules, look.limits))
}

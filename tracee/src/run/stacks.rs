//! The stacks of a process that is stopped for us.

use std::time::Duration;

use failure::image::{self, SignalInfo, StoppedThread};
use failure::report::Report;

use super::options::RunOptions;
use crate::ids::{Pid, Tid};
use crate::process::{Process, ProcessError, Status, StoppedProcess};
use crate::ptrace::{Launched, SigInfo, TraceError, Tracer};

/// A thread that waits for a device or in a `vfork` cannot be stopped.
const PATIENCE: Duration = Duration::from_millis(500);

/// Stops all threads and reports on one process; `failing` comes first. The threads stay stopped.
pub(super) fn of_all(
    tracer: &mut Tracer<Launched>,
    pid: Pid,
    failing: Option<Tid>,
    info: Option<&SigInfo>,
    options: &RunOptions<'_>,
) -> Result<Report, TraceError> {
    let stuck = tracer.interrupt_all(PATIENCE)?;
    // A first thread that has ended stays until the others have, too.
    let is_over = |tid: &&Tid| {
        let status = Process::new(pid).thread_status(**tid);
        status.is_ok_and(|status| status.is_over())
    };
    let notes = stuck
        .iter()
        .filter(|tid| !is_over(tid))
        .map(|tid| format!("thread {tid} could not be stopped: its stack is not known"))
        .collect();
    let threads = tracer
        .threads()
        .filter(|&(process, _)| process == pid)
        .map(|(_, tid)| tid);
    let mut tids: Vec<Tid> = threads.collect();
    tids.sort_by_key(|&tid| (Some(tid) != failing, tid));
    // Without the stack of the thread that failed, the others tell of another failure.
    if failing.is_some_and(|tid| tracer.registers(tid).is_err()) {
        return Err(ProcessError::Gone(pid).into());
    }
    Ok(report(tracer, pid, &tids, info, notes, options)?)
}

/// Reports on one stopped thread; the others run on.
pub(super) fn of_one(
    tracer: &Tracer<Launched>,
    pid: Pid,
    tid: Tid,
    info: Option<&SigInfo>,
    options: &RunOptions<'_>,
) -> Result<Report, TraceError> {
    Ok(report(tracer, pid, &[tid], info, Vec::new(), options)?)
}

/// A thread as it is now; none for one that was killed, which may be at any moment: it has no stack then.
pub(super) fn thread<Kind>(tracer: &Tracer<Kind>, pid: Pid, tid: Tid) -> Option<StoppedThread> {
    let process = Process::new(pid);
    let registers = tracer.registers(tid).ok()?;
    let name = |status: Status| status.name;
    // Threads have their program's name until they are given one.
    let program = process.status().map(name).unwrap_or_default();
    let own = process.thread_status(tid).ok().map(name);
    Some(StoppedThread {
        tid: tid.0,
        name: own.filter(|own| *own != program),
        registers,
        signal: None,
    })
}

fn report(
    tracer: &Tracer<Launched>,
    pid: Pid,
    tids: &[Tid],
    info: Option<&SigInfo>,
    notes: Vec<String>,
    options: &RunOptions<'_>,
) -> Result<Report, ProcessError> {
    let threads = tids.iter().filter_map(|&tid| thread(tracer, pid, tid));
    let signal = info.map(SignalInfo::from);
    let stopped = StoppedProcess::new(pid, threads.collect(), signal, notes)?;
    Ok(image::report(&stopped, options.modules, options.limits))
}

//! News of a process: threads that start and end, files that get mapped, names.

use perf_event_open_sys::bindings::{PERF_COUNT_SW_DUMMY, PERF_TYPE_SOFTWARE};

use super::error::PerfError;
use super::event::{Event, Whose, attributes, explain};
use super::rings::Rings;
use crate::Tid;

/// What to hear about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Threads and processes that are created or end, and their names.
    pub tasks: bool,
    /// Files that get mapped executable.
    pub mappings: bool,
    /// With the build-ids of those.
    pub build_ids: bool,
    /// When threads get the processor and lose it.
    pub switches: bool,
}

/// An event that happens never and reports what goes on around it: in one thread, and in those that it and
/// its descendants create. Threads that are there already need one each.
#[derive(Debug)]
pub struct Sideband {
    _events: Vec<Event>,
}

impl Sideband {
    /// Starts reporting to the rings.
    ///
    /// # Errors
    /// When it is not permitted, or the thread is gone.
    pub fn open(tid: Tid, news: News, rings: &Rings) -> Result<Self, PerfError> {
        let mut attr = attributes(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY.into());
        attr.set_inherit(1);
        attr.set_task(news.tasks.into());
        attr.set_comm(news.tasks.into());
        attr.set_comm_exec(news.tasks.into());
        attr.set_mmap(news.mappings.into());
        attr.set_mmap2(news.mappings.into());
        attr.set_build_id((news.mappings && news.build_ids).into());
        attr.set_context_switch(news.switches.into());
        let whose = Whose::Thread(tid);
        let mut events = Vec::new();
        for cpu in rings.cpus() {
            // Enabled only when connected: what is reported before has no ring to go to.
            attr.set_disabled(1);
            let mut event = Event::open(attr, whose, Some(cpu)).map_err(|error| refused(whose, error))?;
            rings.take_in(&event, cpu)?;
            event.enable().map_err(PerfError::system("enabling an event"))?;
            events.push(event);
        }
        Ok(Self { _events: events })
    }
}

fn refused(whose: Whose, error: std::io::Error) -> PerfError {
    let what = "news of a process".to_owned();
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => PerfError::NotPermitted {
            what,
            remedy: "run as the target's user with kernel.perf_event_paranoid at 2 or lower \
                     (sudo sysctl kernel.perf_event_paranoid=2), or with CAP_PERFMON and CAP_SYS_PTRACE",
        },
        _ => explain(what, whose, error),
    }
}

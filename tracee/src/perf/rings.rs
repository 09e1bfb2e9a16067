//! A ring for each processor, read as one stream in order of time.

use std::cmp::Ordering;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use perf_event_open_sys::bindings::{PERF_COUNT_SW_DUMMY, PERF_TYPE_SOFTWARE};

use super::error::PerfError;
use super::event::{Event, Whose, attributes, explain};
use super::record::{Origin, Record, parse};
use super::ring::Ring;
use crate::{Tid, monotonic_ns};

/// The rings of all processors. Events send their records here; see [`super::Delivery::Ring`].
#[derive(Debug)]
pub struct Rings {
    rings: Vec<OneRing>,
    /// Records that were read, but whose turn may not have come: a record of another processor may be older
    /// and not yet written.
    held: Vec<Stamped>,
    /// Records up to here are complete at the next reading.
    complete: u64,
    malformed: u64,
}

#[derive(Debug)]
struct OneRing {
    cpu: u32,
    /// Holds the buffer; counts nothing.
    owner: Event,
    ring: Ring,
}

/// A record, and where and when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// Who, when, where.
    pub origin: Origin,
    /// What.
    pub record: Record,
}

/// How long a reader sleeps at most before it looks again. Waking it for each record would cost an interrupt
/// for each.
const TICK: Duration = Duration::from_millis(20);

impl Rings {
    /// Makes a ring for each processor that is online, with room for at least this many bytes each.
    ///
    /// # Errors
    /// When the kernel gives no memory for them: an unprivileged user may lock `kernel.perf_event_mlock_kb`
    /// for each processor.
    pub fn open(bytes_per_cpu: usize) -> Result<Self, PerfError> {
        let cpus = online_cpus().map_err(PerfError::system("reading which processors are online"))?;
        let mut rings = Vec::new();
        for cpu in cpus {
            let mut attr = attributes(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY.into());
            attr.set_watermark(1);
            attr.__bindgen_anon_2.wakeup_watermark = u32::try_from(bytes_per_cpu / 4).unwrap_or(u32::MAX);
            // An event of our own thread, which nobody needs a permission for.
            let whose = Whose::Thread(Tid(0));
            let what = || format!("a perf ring for processor {cpu}");
            let owner = Event::open(attr, whose, Some(cpu)).map_err(|error| explain(what(), whose, error))?;
            let ring =
                Ring::map(owner.as_fd(), bytes_per_cpu).map_err(|error| match error.raw_os_error() {
                    Some(libc::EPERM | libc::ENOMEM) => PerfError::NotPermitted {
                        what: what(),
                        remedy: "use a smaller one, run with CAP_IPC_LOCK, or raise \
                             kernel.perf_event_mlock_kb (sudo sysctl kernel.perf_event_mlock_kb=65536)",
                    },
                    _ => explain(what(), whose, error),
                })?;
            rings.push(OneRing { cpu, owner, ring });
        }
        Ok(Self {
            rings,
            held: Vec::new(),
            complete: 0,
            malformed: 0,
        })
    }

    /// The processors, each with a ring.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.rings.iter().map(|ring| ring.cpu)
    }

    /// Makes an event write to the ring of its processor.
    pub(super) fn take_in(&self, event: &Event, cpu: u32) -> Result<(), PerfError> {
        let ring = self.rings.iter().find(|ring| ring.cpu == cpu);
        let ring = ring.ok_or_else(|| PerfError::System {
            what: format!("finding the ring of processor {cpu}"),
            source: io::ErrorKind::NotFound.into(),
        })?;
        event
            .set_output(ring.owner.as_fd())
            .map_err(PerfError::system("sending an event to a ring"))
    }

    /// Waits until there may be something to read.
    ///
    /// # Errors
    /// When waiting fails; a signal is no failure.
    pub fn wait(&self, timeout: Duration) -> Result<(), PerfError> {
        let mut fds: Vec<_> = self
            .rings
            .iter()
            .map(|ring| libc::pollfd {
                fd: ring.owner.as_fd().as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let timeout = timeout.min(TICK);
        poll(&mut fds, timeout).map_err(PerfError::system("waiting for perf records"))?;
        // A ring whose owner's thread has ended says so at once, for ever.
        let news = |events| fds.iter().any(|fd| fd.revents & events != 0);
        if news(libc::POLLHUP) && !news(libc::POLLIN) {
            std::thread::sleep(timeout);
        }
        Ok(())
    }

    /// Reads what is there, in order of time. The newest records are held back until the next reading: one of
    /// another processor that is older may still be on its way.
    pub fn read(&mut self) -> Vec<Stamped> {
        let now = monotonic_ns();
        self.fetch();
        let limit = std::mem::replace(&mut self.complete, now);
        let ready = self.held.partition_point(|record| record.origin.time < limit);
        self.held.drain(..ready).collect()
    }

    /// Reads everything, for when all events are disabled or closed.
    pub fn read_to_end(&mut self) -> Vec<Stamped> {
        self.fetch();
        std::mem::take(&mut self.held)
    }

    /// How many records made no sense.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    fn fetch(&mut self) {
        for ring in &mut self.rings {
            ring.ring.drain(|bytes| match parse(bytes) {
                Some((origin, record)) => self.held.push(Stamped { origin, record }),
                None => self.malformed += 1,
            });
        }
        // Stable: records of one processor stay in their order.
        self.held.sort_by(by_time);
    }
}

fn by_time(a: &Stamped, b: &Stamped) -> Ordering {
    a.origin.time.cmp(&b.origin.time)
}

/// Waits until one of the descriptors is ready; a signal ends the waiting early.
pub(crate) fn poll(fds: &mut [libc::pollfd], timeout: Duration) -> io::Result<()> {
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the pointer and the length are those of a live slice.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis) };
    let error = io::Error::last_os_error();
    if ready < 0 && error.kind() != io::ErrorKind::Interrupted {
        return Err(error);
    }
    Ok(())
}

/// The processors that are online, by number.
pub(super) fn online_cpus() -> io::Result<Vec<u32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    cpu_list(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Reads a list like `0-3,6`.
fn cpu_list(text: &str) -> Option<Vec<u32>> {
    /// More than any kernel is built for.
    const MOST: u32 = 1 << 16;
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        cpus.extend(first..=last.min(MOST));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::cpu_list;

    #[test]
    fn lists_of_processors() {
        assert_eq!(cpu_list("0\n"), Some(vec![0]));
        assert_eq!(cpu_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(cpu_list("0-\n"), None);
        assert_eq!(cpu_list(""), None);
    }
}

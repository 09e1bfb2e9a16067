//! Probes on instructions of files, as perf events.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use perf_event_open_sys::bindings::perf_event_attr;
use program::FileOffset;

use super::breakpoint::Delivery;
use super::error::PerfError;
use super::event::{Event, Whose, attributes, explain};
use super::rings::online_cpus;
use crate::Tid;

const PMU: &str = "/sys/bus/event_source/devices/uprobe";

/// A file to probe, by a path that the kernel can open from here. For a file that a process has mapped,
/// [`crate::process::ModuleMap::file`] finds one, also if it was deleted or is in another mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFile(PathBuf);

impl ProbeFile {
    /// The file at a path.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Whose execution of the instruction counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeTarget {
    /// One thread's. With [`Delivery::Bpf`], that of its whole process, threads to come included: the kernel
    /// runs the program for everybody who shares the memory. The thread's end ends the probe: take the
    /// process's first one.
    Thread(Tid),
    /// That of every process that maps the file. Not with [`Delivery::Stop`].
    Everybody,
}

/// On which side of a function a probe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeEnd {
    /// At the instruction, before it is executed. (With [`Delivery::Stop`] the thread stops after it.)
    Entry,
    /// When the function that starts at the instruction returns.
    Return,
}

/// A probe. Gone with this value, or with this process, whatever ends it.
///
/// It is never inherited. The kernel would open the file once more in the target's own call to create a thread,
/// by a path in our memory and with the target's permissions: measured on Linux 6.18, `pthread_create` then
/// fails in the target. Threads to come are seen through [`Delivery::Bpf`], or are given their own.
#[derive(Debug)]
pub struct Uprobe {
    events: Vec<Event>,
}

impl Uprobe {
    /// Sets a probe; it is live when this returns.
    ///
    /// # Errors
    /// When it is not permitted (CAP_SYS_ADMIN on Linux 6.18, where CAP_PERFMON is not enough), the file is not there, or the instruction takes no probe.
    pub fn open(
        file: &ProbeFile,
        offset: FileOffset,
        end: ProbeEnd,
        target: ProbeTarget,
        delivery: Delivery<'_>,
    ) -> Result<Self, PerfError> {
        let path = CString::new(file.0.as_os_str().as_bytes()).map_err(|error| PerfError::NoFile {
            path: file.0.clone(),
            source: error.into(),
        })?;
        let attr = probe_attributes(&path, offset, end, delivery)?;
        let whose = match target {
            ProbeTarget::Thread(tid) => Whose::Thread(tid),
            ProbeTarget::Everybody => Whose::All,
        };
        let open = |cpu| Event::open(attr, whose, cpu).map_err(|error| refused(file, offset, whose, error));
        let rings = delivery.rings();
        let cpus = match (delivery, target) {
            (Delivery::Stop { .. }, ProbeTarget::Everybody) => {
                return Err(PerfError::NotSupported {
                    what: "stopping whoever reaches a probe".to_owned(),
                    remedy: "name the thread",
                });
            }
            // An event that is everybody's is one processor's.
            (Delivery::Silent, ProbeTarget::Everybody) => every_cpu()?,
            // But one is enough to have a program run on all of them.
            (Delivery::Bpf(_), ProbeTarget::Everybody) => every_cpu()?.into_iter().take(1).collect(),
            _ => rings.map_or_else(|| vec![None], |rings| rings.cpus().map(Some).collect()),
        };
        let mut events = Vec::new();
        for cpu in cpus {
            let mut event = open(cpu)?;
            if let Delivery::Bpf(program) = delivery {
                event
                    .set_program(program.fd())
                    .map_err(PerfError::system("connecting a BPF program to a probe"))?;
            }
            if let (Some(rings), Some(cpu)) = (rings, cpu) {
                rings.take_in(&event, cpu)?;
            }
            event.enable().map_err(PerfError::system("enabling a probe"))?;
            events.push(event);
        }
        Ok(Self { events })
    }

    /// Closes probes without waiting for it. The kernel waits for all processors to be done with a probe before it
    /// lets its last owner go: about 150 ms, measured on Linux 6.18, one after the other in the whole system.
    pub fn close_all(probes: Vec<Self>) {
        // Without a thread they are dropped right here.
        let _detached = std::thread::Builder::new()
            .name("close-probes".to_owned())
            .spawn(move || drop(probes));
    }

    /// Whether this kernel has probes; not whether this user may set them.
    ///
    /// # Errors
    /// What it lacks.
    pub fn supported() -> Result<(), PerfError> {
        pmu_type().map(|_| ())
    }

    /// Lets the probe report again.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enable(&mut self) -> Result<(), PerfError> {
        let mut events = self.events.iter_mut();
        events
            .try_for_each(Event::enable)
            .map_err(PerfError::system("enabling a probe"))
    }

    /// Makes the probe report nothing. A BPF program goes on to run: drop the probe instead.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn disable(&mut self) -> Result<(), PerfError> {
        let mut events = self.events.iter_mut();
        events
            .try_for_each(Event::disable)
            .map_err(PerfError::system("disabling a probe"))
    }

    /// How often it was hit. Not told with [`Delivery::Bpf`], which takes the hits away before they count.
    ///
    /// # Errors
    /// When the event cannot be read.
    pub fn count(&self) -> Result<u64, PerfError> {
        let counts = self.events.iter().map(Event::count);
        counts
            .sum::<io::Result<u64>>()
            .map_err(PerfError::system("reading a probe's count"))
    }

    /// What [`super::Sample::event`] is for samples of this probe: one for each processor.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn ids(&self) -> Result<Vec<u64>, PerfError> {
        let ids = self.events.iter().map(Event::id);
        ids.collect::<io::Result<_>>()
            .map_err(PerfError::system("reading a probe's number"))
    }
}

fn every_cpu() -> Result<Vec<Option<u32>>, PerfError> {
    let cpus = online_cpus().map_err(PerfError::system("reading which processors are online"))?;
    Ok(cpus.into_iter().map(Some).collect())
}

fn probe_attributes(
    path: &CString,
    offset: FileOffset,
    end: ProbeEnd,
    delivery: Delivery<'_>,
) -> Result<perf_event_attr, PerfError> {
    let kind = pmu_type()?;
    let config = match end {
        ProbeEnd::Entry => 0,
        ProbeEnd::Return => 1 << return_bit(),
    };
    let mut attr = attributes(kind, config);
    attr.__bindgen_anon_3.uprobe_path = path.as_ptr() as u64;
    attr.__bindgen_anon_4.probe_offset = offset.0;
    attr.set_disabled(1);
    if !matches!(delivery, Delivery::Silent) {
        attr.__bindgen_anon_1.sample_period = 1;
    }
    if let Delivery::Stop { cookie, .. } = delivery {
        attr.set_sigtrap(1);
        attr.set_remove_on_exec(1);
        attr.sig_data = cookie;
    }
    // The kernel takes this for a tracepoint, which is in the kernel even if what it is about is not.
    attr.set_exclude_kernel(0);
    Ok(attr)
}

fn pmu_type() -> Result<u32, PerfError> {
    read_number("type").map_err(|_| PerfError::NotSupported {
        what: "a probe in user space".to_owned(),
        remedy: "the kernel needs CONFIG_UPROBE_EVENTS, and /sys must be mounted",
    })
}

fn read_number(name: &str) -> io::Result<u32> {
    let text = std::fs::read_to_string(format!("{PMU}/{name}"))?;
    text.trim().parse().map_err(io::Error::other)
}

/// Which bit of the configuration makes it a return probe; the first, says every kernel so far.
fn return_bit() -> u32 {
    let text = std::fs::read_to_string(format!("{PMU}/format/retprobe")).unwrap_or_default();
    let bit = text
        .trim()
        .strip_prefix("config:")
        .and_then(|bit| bit.parse().ok());
    bit.filter(|&bit| bit < 64).unwrap_or(0)
}

/// What the kernel says of instructions that it cannot probe; not one of the numbers that the C library knows.
const ENOTSUPP: i32 = 524;

fn refused(file: &ProbeFile, offset: FileOffset, whose: Whose, error: io::Error) -> PerfError {
    let what = || format!("a probe on {}", file.0.display());
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => PerfError::NotPermitted {
            what: what(),
            remedy: "run as root or with CAP_SYS_ADMIN (CAP_PERFMON is enough for some kernels)",
        },
        Some(ENOTSUPP | libc::EINVAL | libc::EOPNOTSUPP | libc::EIO | libc::EILSEQ) => {
            PerfError::ProbeRefused {
                path: file.0.clone(),
                offset,
            }
        }
        Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::ENAMETOOLONG) => PerfError::NoFile {
            path: file.0.clone(),
            source: error,
        },
        _ => explain(what(), whose, error),
    }
}

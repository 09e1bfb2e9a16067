//! From a process to a report.

use program::RunAddr;

use super::abort_message::abort_message;
use super::exception::terminate_message;
use super::joined::{Image, ModuleFiles};
use super::panicked::panicked_message;
use super::process::{ProcessImage, SignalInfo};
use super::unwind::{End, Unwinder, Unwound};
use super::waits;
use crate::report::{Frame, Kind, Report, Signal, Source, Thread};

const SIGQUIT: i32 = 3;
const SIGABRT: i32 = 6;
/// The signals whose default is to end the process with a core, after `signal(7)`. A core with another one
/// was not written because of it.
const CORE_SIGNALS: [i32; 10] = [SIGQUIT, 4, 5, SIGABRT, 7, 8, 11, 24, 25, 31];

/// How much to take from a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Frames of one thread.
    pub frames: usize,
    /// Threads.
    pub threads: usize,
    /// Frames of all threads together.
    pub total_frames: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frames: 256,
            threads: 4096,
            total_frames: 1 << 16,
        }
    }
}

/// Unwinds every thread of a process and says what failed.
///
/// SIGQUIT, and SIGABRT from another process, is how a person or a watchdog ends a process that hangs; one
/// without a fatal signal was alive. All three are reported as [`Kind::Hang`].
#[must_use]
pub fn report(process: &dyn ProcessImage, files: &dyn ModuleFiles, limits: Limits) -> Report {
    let image = Image::new(process, files);
    let failing = failing_thread(process);
    let mut notes = process.notes().to_vec();
    let signal = fatal_signal(process);
    let kind = kind(process, signal, &mut notes);
    let (threads, failed) = stacks(&image, failing, limits, &mut notes);
    let message = (kind == Kind::Abort)
        .then(|| {
            abort_message(&image)
                .or_else(|| terminate_message(&image, &failed))
                .or_else(|| panicked_message(&image, &failed))
        })
        .flatten();
    notes.extend(image.complaints());
    Report {
        source: process.source(),
        kind,
        signal,
        message,
        sign: None,
        fault_address: process
            .state()
            .signal
            .filter(|info| Some(info.signal) == signal)
            .and_then(|info| info.address),
        program: process
            .executable_path()
            .or_else(|| Some(process.state().program.as_ref()?.name.clone())),
        build_id: process.executable().and_then(|module| module.build_id.clone()),
        failing: failing.min(threads.len().saturating_sub(1)),
        threads,
        notes: shortened(notes),
    }
}

/// Both writers put the thread that got the signal first. Only a core without details of the signal, with
/// a first thread that had none, makes one look further.
fn failing_thread(process: &dyn ProcessImage) -> usize {
    if process.state().signal.is_some() {
        return 0;
    }
    process
        .state()
        .threads
        .iter()
        .position(|thread| thread.signal.is_some_and(is_fatal))
        .unwrap_or(0)
}

fn is_fatal(signal: Signal) -> bool {
    CORE_SIGNALS.contains(&signal.0)
}

fn fatal_signal(process: &dyn ProcessImage) -> Option<Signal> {
    let detailed = process.state().signal.map(|info| info.signal);
    let of_thread = || process.state().threads.get(failing_thread(process))?.signal;
    let found = detailed.or_else(of_thread);
    // A core has a signal whatever it was written for; one that was seen to end a process did.
    found.filter(|&signal| is_fatal(signal) || process.source() == Source::Live)
}

fn kind(process: &dyn ProcessImage, signal: Option<Signal>, notes: &mut Vec<String>) -> Kind {
    const SI_KERNEL: i32 = 0x80;
    let Some(signal) = signal else {
        if process.source() == Source::Core {
            notes.push("no fatal signal: the core was taken from a live process".to_owned());
        }
        return Kind::Hang;
    };
    let info = process.state().signal.filter(|info| info.signal == signal);
    let sender = info.and_then(|info| sent_from_outside(process, &info));
    if let Some(sender) = sender {
        notes.push(format!("signal {} was sent by process {sender}", signal.0));
    }
    if matches!(
        info,
        Some(SignalInfo {
            signal: Signal(11),
            code: SI_KERNEL,
            ..
        })
    ) {
        notes.push(
            "the processor did not tell the address of the fault: it is not one that memory can have"
                .to_owned(),
        );
    }
    match signal.0 {
        SIGQUIT => Kind::Hang,
        SIGABRT if sender.is_some() => Kind::Hang,
        SIGABRT => Kind::Abort,
        _ => Kind::Signal,
    }
}

/// The other process that sent a signal. What `abort` and `raise` send comes with SI_TKILL; its sender may
/// look foreign when the core was written from outside a container, by whose numbers it counts.
fn sent_from_outside(process: &dyn ProcessImage, info: &SignalInfo) -> Option<u32> {
    const SI_TKILL: i32 = -6;
    let pid = process.state().program.as_ref()?.pid;
    info.sender
        .filter(|&sender| sender != pid && info.code != SI_TKILL)
}

/// The stacks, the failing thread's unwound first so that it never goes short; its frames also in full.
fn stacks(
    image: &Image<'_>,
    failing: usize,
    limits: Limits,
    notes: &mut Vec<String>,
) -> (Vec<Thread>, Vec<Unwound>) {
    let all = &image.process.state().threads;
    let wanted = all.len().min(limits.threads.max(1));
    if wanted < all.len() {
        notes.push(format!(
            "only the first {wanted} of {} threads were unwound",
            all.len()
        ));
    }
    let mut unwinder = Unwinder::new(image);
    let mut left = limits.total_frames;
    let mut threads = vec![Thread::default(); wanted];
    let mut failed = Vec::new();
    let others = (0..wanted).filter(|&index| index != failing);
    for index in std::iter::once(failing)
        .filter(|&index| index < wanted)
        .chain(others)
    {
        let (Some(thread), Some(place)) = (all.get(index), threads.get_mut(index)) else {
            continue;
        };
        let (frames, end) = unwinder.stack(&thread.registers, limits.frames.min(left).max(1));
        notes.extend(ending(end, frames.len()).map(|why| format!("thread {}: {why}", thread.tid)));
        place.id = Some(u64::from(thread.tid));
        place.name.clone_from(&thread.name);
        place.wants = waits::wanted(image, thread, &frames);
        place.frames = frames.iter().map(|frame| reported(image, frame)).collect();
        left = left.saturating_sub(place.frames.iter().map(weight).sum());
        if index == failing {
            failed = frames;
        }
    }
    (threads, failed)
}

fn reported(image: &Image<'_>, frame: &Unwound) -> Frame {
    let addr = RunAddr(frame.registers.rip);
    Frame {
        address: Some(addr),
        module: image.module_ref(addr),
        position: frame.position,
        origin: frame.origin,
        ..Frame::default()
    }
}

/// How many frames a frame counts for: the path is repeated in each, and a damaged core can make it long.
fn weight(frame: &Frame) -> usize {
    const USUAL_PATH: usize = 256;
    1 + frame
        .module
        .as_ref()
        .map_or(0, |module| module.path.len() / USUAL_PATH)
}

/// Why a stack is not whole, in words.
fn ending(end: End, frames: usize) -> Option<String> {
    let why = match end {
        End::Outermost => return None,
        End::Limit => format!("the stack is deeper than {frames} frames; the outer ones are left out"),
        End::Effort => "the stack was left: unwinding this process takes too much work".to_owned(),
        End::Unreadable(addr) => {
            format!("the stack ends after {frames} frames: the memory at {addr:#x} is not to be had")
        }
        End::NoCode(addr) => format!(
            "the stack ends after {frames} frames: {addr:#x}, where it goes on, is no code (an overwritten stack?)"
        ),
        End::Circular => {
            format!("the stack ends after {frames} frames: it leads back to itself (overwritten?)")
        }
        End::NoInformation(addr) => {
            format!("the stack ends after {frames} frames: nothing tells who called the code at {addr:#x}")
        }
        End::BadInformation(addr) => {
            format!(
                "the stack ends after {frames} frames: the unwind information for {addr:#x} cannot be followed"
            )
        }
    };
    Some(why)
}

/// Keeps the notes readable when thousands of threads have the same trouble.
fn shortened(mut notes: Vec<String>) -> Vec<String> {
    const MOST: usize = 40;
    if notes.len() > MOST {
        let more = notes.len() - MOST;
        notes.truncate(MOST);
        notes.push(format!("… and {more} more"));
    }
    notes
}

//! bpf(2), the commands that we need of it.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// `enum bpf_map_type`.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum MapKind {
    Array = 2,
    RingBuffer = 27,
}

/// The value can be mapped into memory.
pub(super) const MMAPABLE: u32 = 1 << 10;

/// What `BPF_MAP_CREATE` reads.
#[repr(C)]
#[derive(Default)]
struct MapAttributes {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; 16],
}

/// What `BPF_PROG_LOAD` reads.
#[repr(C)]
#[derive(Default)]
struct LoadAttributes {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

/// What `BPF_LINK_CREATE` reads for probes on many instructions of a file.
#[repr(C)]
#[derive(Default)]
struct LinkAttributes {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    counters: u64,
    cookies: u64,
    count: u32,
    probe_flags: u32,
    pid: u32,
    /// The kernel reads the union up to a multiple of eight bytes.
    rest: u32,
}

const MAP_CREATE: libc::c_long = 0;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;

/// `BPF_TRACE_UPROBE_MULTI` of `enum bpf_attach_type`, since Linux 6.6.
const UPROBE_MULTI: u32 = 48;

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramKind {
    /// For kprobes and uprobes: its context is `struct pt_regs`.
    Kprobe,
    /// The same, for many of them at once.
    ManyProbes,
    /// For other perf events: its context is `struct bpf_perf_event_data`, which starts with the registers.
    PerfEvent,
}

impl ProgramKind {
    fn number(self) -> u32 {
        match self {
            Self::Kprobe | Self::ManyProbes => 2,
            Self::PerfEvent => 7,
        }
    }
}

pub(super) fn create_map(
    kind: MapKind,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let attributes = MapAttributes {
        kind: kind as u32,
        key_size,
        value_size,
        max_entries,
        flags,
        name: NAME,
        ..MapAttributes::default()
    };
    bpf(MAP_CREATE, &attributes)
}

/// What `bpftool` shows.
const NAME: [u8; 16] = *b"failsketch_hit\0\0";

/// Loads a program; the verifier's words go to `log`, if that has any room.
pub(super) fn load(kind: ProgramKind, code: &[u64], log: &mut [u8]) -> io::Result<OwnedFd> {
    // The helpers that we call are for programs under the GPL only; this program is offered under it, too.
    const LICENSE: &CStr = c"Dual MIT/GPL";
    let attributes = LoadAttributes {
        kind: kind.number(),
        attach_type: match kind {
            ProgramKind::ManyProbes => UPROBE_MULTI,
            ProgramKind::Kprobe | ProgramKind::PerfEvent => 0,
        },
        instruction_count: u32::try_from(code.len()).map_err(io::Error::other)?,
        instructions: code.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: u32::try_from(log.len()).map_err(io::Error::other)?,
        log: if log.is_empty() {
            0
        } else {
            log.as_mut_ptr() as u64
        },
        name: NAME,
        ..LoadAttributes::default()
    };
    bpf(PROG_LOAD, &attributes)
}

/// Connects a program to many instructions of a file, by their offsets in it, in one process; or to the returns of the
/// functions that begin there.
pub(super) fn link_probes(
    program: BorrowedFd<'_>,
    path: &CStr,
    offsets: &[u64],
    pid: u32,
    at_returns: bool,
) -> io::Result<OwnedFd> {
    /// `BPF_F_UPROBE_MULTI_RETURN`.
    const RETURN: u32 = 1;
    let attributes = LinkAttributes {
        program: u32::try_from(program.as_raw_fd()).map_err(io::Error::other)?,
        attach_type: UPROBE_MULTI,
        path: path.as_ptr() as u64,
        offsets: offsets.as_ptr() as u64,
        count: u32::try_from(offsets.len()).map_err(io::Error::other)?,
        probe_flags: if at_returns { RETURN } else { 0 },
        pid,
        ..LinkAttributes::default()
    };
    bpf(LINK_CREATE, &attributes)
}

/// Runs a command that makes a descriptor.
fn bpf<A>(command: libc::c_long, attributes: &A) -> io::Result<OwnedFd> {
    // SAFETY: the attributes are a live structure of the size that is given, in the layout of the command;
    // the buffers that they point at are live, of the lengths that they say, and only the log is written to.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<A>() as libc::c_ulong,
        )
    };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor, close-on-exec; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

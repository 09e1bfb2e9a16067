//! Which signals were ignored when this process began.
//!
//! An ignored signal stays ignored across `exec`, so a launched program should get what we got. But the Rust
//! runtime ignores SIGPIPE before `main`, the C library takes two signals for itself with the first thread, and
//! whoever ends in an orderly way handles those that ask him to: a shell ignores SIGINT for what it starts in the
//! background, and `nohup` SIGHUP. What was before can only be seen before they start.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Those that ask for the end, SIGPIPE, and the C library's own: SIGCANCEL and SIGSETXID.
const CHANGED: [i32; 7] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGPIPE,
    32,
    33,
];

static IGNORED: [AtomicBool; CHANGED.len()] = [const { AtomicBool::new(false) }; CHANGED.len()];

/// The kernel's `struct sigaction`. The C library's calls do not touch its own signals.
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

fn sigaction(signal: i32, new: *const Action, old: *mut Action) -> bool {
    let set_size = size_of::<u64>();
    // SAFETY: both pointers are null or to an Action, which the kernel reads and writes.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old, set_size) == 0 }
}

extern "C" fn look() {
    for (signal, ignored) in CHANGED.into_iter().zip(&IGNORED) {
        // SAFETY: all zeroes is a value of this plain structure.
        let mut action: Action = unsafe { mem::zeroed() };
        let asked = sigaction(signal, ptr::null(), &raw mut action);
        ignored.store(asked && action.handler == libc::SIG_IGN, Ordering::Relaxed);
    }
}

// SAFETY: the loader calls the functions of this section before `main`, in one thread; this one asks the
// kernel some questions and sets flags.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Ignores what was ignored when this process began. Safe to call after a fork.
pub(super) fn restore() {
    for (signal, ignored) in CHANGED.into_iter().zip(&IGNORED) {
        let action = Action {
            handler: if ignored.load(Ordering::Relaxed) {
                libc::SIG_IGN
            } else {
                libc::SIG_DFL
            },
            flags: 0,
            restorer: 0,
            mask: 0,
        };
        sigaction(signal, &raw const action, ptr::null_mut());
    }
}

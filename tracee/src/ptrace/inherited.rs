//! How SIGPIPE was handled when this process began.
//!
//! The Rust runtime ignores SIGPIPE before `main`, and an ignored signal stays ignored across `exec`. What a
//! launched program should get is what we got, which can only be seen before the runtime starts.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

static IGNORED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: all zeroes is a value of this plain structure.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: asks for the present action; the structure lives.
    let asked = unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), &raw mut action) };
    let ignored = asked == 0 && action.sa_sigaction == libc::SIG_IGN;
    IGNORED.store(ignored, Ordering::Relaxed);
}

// SAFETY: the loader calls the functions of this section before `main`, in one thread; this one asks the
// kernel a question and sets a flag.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether SIGPIPE was ignored when this process began.
pub(super) fn sigpipe_ignored() -> bool {
    IGNORED.load(Ordering::Relaxed)
}

//! A thread that exists to trace.

use std::panic;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::ids::Tid;

/// Runs this on an operating-system thread of its own. When it returns, that thread has ended, and with it all
/// tracing that it did: what it was attached to is free, what it launched is dead.
///
/// # Panics
/// When `work` does.
pub fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let (tid, result) = thread::scope(|scope| {
        let thread = scope.spawn(|| (Tid::this(), work()));
        thread
            .join()
            .unwrap_or_else(|panicked| panic::resume_unwind(panicked))
    });
    // A thread can be joined a moment before the kernel lets its tracees go.
    let path = format!("/proc/self/task/{tid}");
    while Path::new(&path).exists() {
        thread::sleep(Duration::from_micros(100));
    }
    result
}

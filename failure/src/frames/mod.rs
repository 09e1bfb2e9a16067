//! Which frames of a stack are the program's own.
//!
//! Between the statement that went wrong and the top of a stack stand frames that are the same in every
//! failure of its kind: the abort machinery, the panic machinery, the allocator, the lock that is waited
//! for. They say what kind of failure it is; the first frame below them says where.

pub(crate) mod names;
mod tables;

use crate::report::{Frame, FrameOrigin, Report, Source};

/// What a frame that is not the program's own does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuntimeRole {
    /// Ends the process: `abort`, `raise`, `std::process::abort`.
    Abort,
    /// Reports a failed assertion: `__assert_fail`.
    Assertion,
    /// The allocator, and its complaints.
    Heap,
    /// A check that the compiler inserted: `__stack_chk_fail`, `__fortify_fail`.
    Check,
    /// Rust's panic machinery.
    Panic,
    /// C++'s throw and terminate machinery.
    Exception,
    /// Waits: for a lock, another thread, a file, time.
    Wait,
    /// Runs before `main` or a thread's start routine.
    Start,
    /// The frame that the kernel pushed to call a signal handler.
    Signal,
    /// A sanitizer's own code.
    Sanitizer,
    /// Library code without further meaning: `memcpy`, `std::vector`, `core::ops`.
    Library,
}

/// What a function of this name is for, unless it is the program's own.
///
/// Takes names as reports print them: mangled or not, with parameters, template arguments, hashes, versions
/// (`@@GLIBC_2.34`), offsets, or the module in front (``libc.so.6`abort``).
#[must_use]
pub fn is_runtime(symbol: &str) -> Option<RuntimeRole> {
    if symbol.trim() == "<signal handler called>" {
        return Some(RuntimeRole::Signal);
    }
    tables::role(&names::plain(symbol))
}

/// What a frame is for, by its symbol, its source file and its module, unless it is the program's own.
#[must_use]
pub fn role(frame: &Frame) -> Option<RuntimeRole> {
    if frame.origin == FrameOrigin::SignalFrame {
        return Some(RuntimeRole::Signal);
    }
    let by_name = frame.symbol.as_ref().and_then(|symbol| is_runtime(&symbol.name));
    let by_file = || {
        frame
            .location
            .as_ref()
            .is_some_and(|location| tables::is_library_source(&location.file))
    };
    let by_module = || {
        frame
            .module
            .as_ref()
            .is_some_and(|module| tables::is_system_module(&module.path))
    };
    by_name.or_else(|| (by_file() || by_module()).then_some(RuntimeRole::Library))
}

/// Index of the innermost frame that is the program's own, or may be (a stripped program's have no name).
#[must_use]
pub fn first_in_program(frames: &[Frame]) -> Option<usize> {
    frames
        .iter()
        .position(|frame| known(frame) && role(frame).is_none())
}

/// Whether a frame can be looked up at all: by name, by file, or by an address that code can have.
fn known(frame: &Frame) -> bool {
    let code = 0x1_0000..1 << 47;
    frame.symbol.is_some()
        || frame.location.is_some()
        || frame.module.is_some()
        || frame.address.is_some_and(|address| code.contains(&address.0))
}

/// Index, in the failing thread, of the innermost in-program frame of the failure itself.
#[must_use]
pub fn failing_frame(report: &Report) -> Option<usize> {
    let frames = &report.threads.get(report.failing)?.frames;
    let parts: Vec<_> = frames
        .iter()
        .map(|frame| {
            let role = role(frame);
            Part {
                role,
                interrupted: frame.origin == FrameOrigin::SignalFrame,
                own: known(frame) && role.is_none(),
            }
        })
        .collect();
    innermost_own(&parts, report.source)
}

/// What a frame is to a failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Its part in the runtime, if it is the runtime's.
    pub(crate) role: Option<RuntimeRole>,
    /// A signal interrupted it.
    pub(crate) interrupted: bool,
    /// It is the program's own.
    pub(crate) own: bool,
}

/// The innermost own frame of a failure, innermost frames first. Where a signal handler reported the failure
/// or ended the program, that is a frame below the handler.
pub(crate) fn innermost_own(frames: &[Part], source: Source) -> Option<usize> {
    // In a text this is the trampoline's frame, in a stack that was unwound the one that was interrupted.
    let handler = frames
        .iter()
        .position(|frame| frame.role == Some(RuntimeRole::Signal) || frame.interrupted);
    let reported_by_handler = handler.filter(|&at| {
        let above = || frames.iter().take(at);
        // A program that prints its own backtrace does so in the handler.
        source == Source::Glibc
            || above().any(|frame| frame.role == Some(RuntimeRole::Abort))
            || !above().any(|frame| frame.own)
    });
    let start = reported_by_handler.unwrap_or(0);
    let first = frames
        .iter()
        .skip(start)
        .position(|frame| frame.own)
        .map(|at| at + start);
    first.or_else(|| frames.iter().position(|frame| frame.own))
}

#[cfg(test)]
mod tests {
    use super::RuntimeRole::*;
    use super::*;

    #[test]
    fn names_in_every_form() {
        for (symbol, role) in [
            ("raise", Abort),
            ("__GI_raise", Abort),
            ("gsignal@@GLIBC_2.2.5", Abort),
            ("__pthread_kill_implementation", Abort),
            ("/lib/x86_64-linux-gnu/libc.so.6(abort+0xd3)", Abort),
            ("libc.so.6`abort", Abort),
            ("__GI___assert_fail", Assertion),
            ("__assert_fail@GLIBC_2.2.5", Assertion),
            ("_ZSt21__glibcxx_assert_failPKciS0_S0_", Assertion),
            (
                "std::__glibcxx_assert_fail(char const*, int, char const*, char const*)",
                Assertion,
            ),
            ("malloc_printerr", Heap),
            ("_int_free", Heap),
            ("__GI___libc_free", Heap),
            ("__interceptor_free", Heap),
            ("_ZdlPv", Heap),
            ("operator delete(void*)", Heap),
            ("__stack_chk_fail", Check),
            ("__GI___fortify_fail", Check),
            ("rust_begin_unwind", Panic),
            ("__rustc[b7974e8690430dd9]::rust_begin_unwind", Panic),
            ("core::panicking::panic_fmt::h0123456789abcdef", Panic),
            ("core[c1f1a4ba060b9bfa]::panicking::panic_fmt", Panic),
            ("_ZN4core9panicking9panic_fmt17h0123456789abcdefE", Panic),
            ("_RNvNtCsgczpHXKhFMk_4core9panicking9panic_fmt", Panic),
            ("core::panicking::assert_failed::<usize, usize>", Assertion),
            ("core::option::unwrap_failed", Panic),
            ("core::slice::index::slice_end_index_len_fail", Panic),
            ("std::terminate()", Exception),
            ("_ZSt9terminatev", Exception),
            ("__cxa_throw", Exception),
            ("__gnu_cxx::__verbose_terminate_handler()", Exception),
            ("_ZN9__gnu_cxx27__verbose_terminate_handlerEv", Exception),
            ("_ZSt24__throw_out_of_range_fmtPKcz", Exception),
            ("___pthread_mutex_lock", Wait),
            ("pthread_cond_wait@@GLIBC_2.3.2", Wait),
            ("__lll_lock_wait", Wait),
            ("futex_wait", Wait),
            ("__futex_abstimed_wait_common64", Wait),
            ("__GI___poll", Wait),
            ("__GI___libc_read", Wait),
            (
                "std::condition_variable::wait(std::unique_lock<std::mutex>&)",
                Wait,
            ),
            ("std::sys::sync::mutex::futex::Mutex::lock_contended", Wait),
            ("start_thread", Start),
            ("clone3", Start),
            ("__libc_start_call_main", Start),
            ("_start", Start),
            ("std::rt::lang_start::{{closure}}::h147f73aa2703ef75", Start),
            ("std::sys::backtrace::__rust_begin_short_backtrace", Start),
            ("__memcpy_avx_unaligned_erms", Library),
            ("core::ops::function::FnOnce::call_once", Library),
            ("<usize as core::slice::index::SliceIndex<[T]>>::index", Library),
            (
                "<alloc::vec::Vec<T,A> as core::ops::index::Index<I>>::index",
                Library,
            ),
            (
                "std::vector<int, std::allocator<int> >::operator[](unsigned long)",
                Library,
            ),
            (
                "void std::__invoke_impl<void, main::{lambda(int)#1}&, int>(std::__invoke_other)",
                Library,
            ),
            ("__asan_report_load8", Sanitizer),
            ("<signal handler called>", Signal),
        ] {
            assert_eq!(is_runtime(symbol), Some(role), "{symbol}");
        }
    }

    #[test]
    fn the_programs_own_names() {
        for symbol in [
            "main",
            "drain",
            "start",
            "Queue::read",
            "app::cache::Cache::get",
            "_ZN3app5cache5Cache3get17h0123456789abcdefE",
            "_ZN5Queue4readEv",
            "<app::Cache as core::ops::Drop>::drop",
            "<alloc::vec::Vec<T> as app::Shape>::area",
            "apply<Job, std::map<int, int> >",
            "Job::operator()",
            "operator<",
            "std_like::f",
            "abort_job",
            "wait_for_queue",
            "",
            "::",
            "_Z",
            "_ZN",
            "_ZN99999999999999999999a",
        ] {
            assert_eq!(is_runtime(symbol), None, "{symbol}");
        }
    }
}

//! Which names and files belong to runtimes.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::RuntimeRole::{self, *};
use super::names::Plain;

type Names = LazyLock<HashMap<&'static str, RuntimeRole>>;

fn index(table: &[(RuntimeRole, &'static str)]) -> HashMap<&'static str, RuntimeRole> {
    let names = table
        .iter()
        .flat_map(|(role, names)| names.split_ascii_whitespace().map(|name| (name, *role)));
    names.collect()
}

/// Public functions of the C library and what wraps them; also matched with leading underscores.
static PUBLIC: Names = LazyLock::new(|| index(PUBLIC_NAMES));
const PUBLIC_NAMES: &[(RuntimeRole, &str)] = &[
    (
        Abort,
        "abort raise gsignal kill tgkill tkill pthread_kill sigqueue rust_panic_abort",
    ),
    (
        Assertion,
        "g_assertion_message g_assertion_message_expr qt_assert qt_assert_x",
    ),
    (
        Heap,
        "malloc calloc realloc free cfree memalign aligned_alloc posix_memalign reallocarray \
         malloc_printerr malloc_consolidate munmap_chunk unlink_chunk sysmalloc systrim tcache_get \
         tcache_put free_perturb arena_get2",
    ),
    (
        Panic,
        "rust_begin_unwind rust_panic rust_panic_with_hook rust_eh_personality",
    ),
    (
        Wait,
        "pthread_mutex_lock pthread_mutex_timedlock pthread_mutex_clocklock pthread_cond_wait \
         pthread_cond_timedwait pthread_cond_clockwait pthread_rwlock_rdlock pthread_rwlock_wrlock \
         pthread_spin_lock pthread_barrier_wait pthread_join pthread_timedjoin_np sem_wait \
         sem_timedwait sem_clockwait futex futex_wait lll_mutex_lock_optimized mtx_lock cnd_wait \
         cnd_timedwait thrd_join thrd_sleep poll ppoll select pselect epoll_wait epoll_pwait read \
         readv pread pread64 write writev recv recvfrom recvmsg recvmmsg send sendto sendmsg accept \
         accept4 connect nanosleep clock_nanosleep sleep usleep wait wait3 wait4 waitid waitpid \
         sigwait sigwaitinfo sigtimedwait sigsuspend pause syscall io_getevents msgrcv semop \
         semtimedop flock",
    ),
    (
        Start,
        "start_thread clone clone3 execute_native_thread_routine asan_thread_start",
    ),
    (
        Library,
        "memcpy memmove memset memcmp memchr memrchr mempcpy bcmp strlen strnlen strcpy strncpy \
         stpcpy strcat strncat strcmp strncmp strcasecmp strncasecmp strchr strrchr strchrnul \
         strstr strdup strndup strtok strtok_r strtol strtoul strtoll strtoull strtod wcslen atoi \
         atol printf fprintf sprintf snprintf vprintf vfprintf vsprintf vsnprintf puts fputs fgets \
         fopen fclose fread fwrite fflush getenv qsort qsort_r msort_with_tmp bsearch \
         pthread_create pthread_mutex_unlock pthread_cond_signal pthread_cond_broadcast \
         pthread_mutex_destroy longjmp siglongjmp exit on_exit backtrace backtrace_symbols_fd \
         create_thread",
    ),
];

/// Names that are the implementation's own: matched only with their leading underscores.
static RESERVED: Names = LazyLock::new(|| index(RESERVED_NAMES));
const RESERVED_NAMES: &[(RuntimeRole, &str)] = &[
    (
        Abort,
        "pthread_kill_implementation pthread_kill_internal libc_message libc_message_impl \
         libc_fatal libc_message_wrapper",
    ),
    (
        Assertion,
        "assert_fail assert_fail_base assert_perror_fail assert glibcxx_assert_fail \
         replacement_assert libc_assert_fail",
    ),
    (
        Heap,
        "int_malloc int_free int_realloc int_memalign int_free_merge_chunk int_free_create_chunk \
         int_free_chunk int_free_maybe_consolidate malloc_assert libc_malloc2",
    ),
    (
        Check,
        "stack_chk_fail stack_chk_fail_local fortify_fail fortify_fail_abort chk_fail",
    ),
    (
        Panic,
        "rust_start_panic rust_drop_panic rust_foreign_exception rust_end_short_backtrace",
    ),
    (
        Exception,
        "cxa_throw cxa_rethrow cxa_pure_virtual cxa_deleted_virtual cxa_call_unexpected \
         cxa_call_terminate cxa_bad_cast cxa_throw_bad_array_new_length clang_call_terminate \
         Unwind_RaiseException Unwind_Resume gxx_personality_v0",
    ),
    (
        Wait,
        "kernel_vsyscall pthread_clockjoin_ex pthread_timedjoin_ex sigtimedwait",
    ),
    (
        Start,
        "libc_start_main libc_start_call_main libc_start_main_impl libc_start_main_alias_1 \
         libc_csu_init clone_internal rust_begin_short_backtrace rust_try",
    ),
    (Signal, "restore_rt kernel_rt_sigreturn kernel_sigreturn"),
];

/// Beginnings of reserved names whose endings vary with version and processor.
const RESERVED_STARTS: &[(RuntimeRole, &str)] = &[
    (Wait, "futex_"),
    (Wait, "lll_"),
    (Wait, "new_sem_wait"),
    (Wait, "pthread_cond_wait"),
    (Wait, "pthread_cond_timedwait"),
    (Wait, "pthread_mutex_lock"),
    (Wait, "pthread_mutex_cond_lock"),
    (Wait, "pthread_rwlock_"),
    (Wait, "syscall_cancel"),
    (Wait, "internal_syscall_cancel"),
    (Sanitizer, "asan_"),
    (Sanitizer, "tsan_"),
    (Sanitizer, "lsan_"),
    (Sanitizer, "msan_"),
    (Sanitizer, "ubsan_"),
    (Sanitizer, "hwasan_"),
    (Sanitizer, "sanitizer_"),
    (Library, "IO_"),
    (Library, "nptl_"),
    (Library, "pthread_"),
    (Library, "libc_"),
    (Library, "cxa_"),
    (Library, "Unwind_"),
    (Library, "dl_"),
];

/// Beginnings of C++ and Rust paths, the more special ones first.
const PATHS: &[(RuntimeRole, &str)] = &[
    (Assertion, "std::__glibcxx_assert_fail"),
    (Assertion, "std::__replacement_assert"),
    (Exception, "std::terminate"),
    (Exception, "std::unexpected"),
    (Exception, "std::rethrow_exception"),
    (Exception, "std::__throw_"),
    (Exception, "__cxxabiv1::"),
    (Exception, "__gnu_cxx::__verbose_terminate_handler"),
    (Wait, "std::condition_variable::wait"),
    (Wait, "std::__condvar::wait"),
    (Wait, "std::_V2::condition_variable_any::wait"),
    (Wait, "std::thread::join"),
    (Wait, "std::mutex::lock"),
    (Wait, "std::__atomic_futex_unsigned"),
    (Wait, "std::this_thread::sleep"),
    (Start, "std::thread::_State"),
    (Start, "std::thread::_Invoker"),
    (Assertion, "core::panicking::assert_failed"),
    (Panic, "core::panicking::"),
    (Start, "std::panicking::catch_unwind"),
    (Start, "std::panicking::try"),
    (Start, "std::panic::catch_unwind"),
    (Panic, "std::panicking::"),
    (Panic, "std::panic::"),
    (Panic, "core::option::unwrap_failed"),
    (Panic, "core::option::expect_failed"),
    (Panic, "core::option::expect_none_failed"),
    (Panic, "core::result::unwrap_failed"),
    (Panic, "core::str::slice_error_fail"),
    (Panic, "core::cell::panic_"),
    (Panic, "core::hint::unreachable_unchecked"),
    (Panic, "alloc::raw_vec::handle_error"),
    (Panic, "alloc::raw_vec::capacity_overflow"),
    (Panic, "alloc::alloc::handle_alloc_error"),
    (Panic, "std::alloc::rust_oom"),
    (Panic, "std::backtrace_rs::"),
    (Panic, "panic_unwind::"),
    (Panic, "panic_abort::"),
    (Panic, "__rustc::rust_begin_unwind"),
    (Panic, "__rustc::rust_panic"),
    (Panic, "__rustc::__rust_start_panic"),
    (Abort, "std::process::abort"),
    (Abort, "std::sys::pal::unix::abort_internal"),
    (Abort, "std::sys::unix::abort_internal"),
    (Abort, "core::intrinsics::abort"),
    (Start, "std::rt::"),
    (Start, "std::sys::backtrace::__rust_begin_short_backtrace"),
    (Start, "std::sys_common::backtrace::__rust_begin_short_backtrace"),
    (Panic, "std::sys::backtrace::"),
    (Panic, "std::sys_common::backtrace::"),
    (Wait, "std::thread::park"),
    (Wait, "std::thread::sleep"),
    (Wait, "std::thread::JoinInner"),
    (Wait, "std::thread::JoinHandle"),
    (Wait, "parking_lot_core::"),
    (Wait, "std::sync::mpsc::"),
    (Sanitizer, "__asan::"),
    (Sanitizer, "__tsan::"),
    (Sanitizer, "__lsan::"),
    (Sanitizer, "__msan::"),
    (Sanitizer, "__ubsan::"),
    (Sanitizer, "__sanitizer::"),
];

/// First components of paths that are nobody's own code.
const LIBRARIES: [&str; 8] = [
    "std",
    "core",
    "alloc",
    "__rustc",
    "__gnu_cxx",
    "backtrace",
    "proc_macro",
    "panic_unwind",
];

pub(super) fn role(name: &Plain) -> Option<RuntimeRole> {
    match &name.of_trait {
        // An implementation is the program's own if the type or the trait is.
        Some(of_trait) => (is_library_type(&name.path) && is_library(of_trait)).then_some(Library),
        None if name.path.contains("::") => path_role(&name.path),
        None => plain_role(&name.path),
    }
}

fn path_role(path: &str) -> Option<RuntimeRole> {
    if path.starts_with("core::slice::index::") && path.ends_with("fail") {
        return Some(Panic);
    }
    let waits = ["lock_contended", "::wait", "wait_timeout", "futex_wait", "park"];
    if path.starts_with("std::sys::") && waits.iter().any(|end| path.ends_with(end)) {
        return Some(Wait);
    }
    if path.starts_with("std::sys::")
        && (path.ends_with("::thread_start") || path.contains("::thread_start::"))
    {
        return Some(Start);
    }
    let special = PATHS
        .iter()
        .find(|(_, start)| path.starts_with(start))
        .map(|(role, _)| *role);
    special.or_else(|| is_library(path).then_some(Library))
}

fn is_library(path: &str) -> bool {
    path.split("::")
        .next()
        .is_some_and(|first| LIBRARIES.contains(&first))
}

/// A type of the libraries, or one without a path: a primitive or a generic parameter.
fn is_library_type(path: &str) -> bool {
    is_library(path) || !path.contains("::")
}

fn plain_role(name: &str) -> Option<RuntimeRole> {
    if name == "_start" {
        return Some(Start);
    }
    if matches!(name, "operator new" | "operator delete") {
        return Some(Heap);
    }
    let bare = name.trim_start_matches('_');
    if bare.len() == name.len() {
        return PUBLIC.get(name).copied();
    }
    for interceptor in ["interceptor_trampoline_", "interceptor_"] {
        if let Some(intercepted) = bare.strip_prefix(interceptor) {
            return Some(
                PUBLIC
                    .get(intercepted.trim_start_matches('_'))
                    .copied()
                    .unwrap_or(Sanitizer),
            );
        }
    }
    let bare = bare
        .strip_prefix("GI_")
        .map_or(bare, |inner| inner.trim_start_matches('_'));
    let inner = bare.strip_prefix("libc_").unwrap_or(bare);
    RESERVED
        .get(bare)
        .copied()
        .or_else(|| PUBLIC.get(bare).copied())
        .or_else(|| PUBLIC.get(inner).copied())
        .or_else(|| variant(bare).and_then(|name| PUBLIC.get(name).copied()))
        .or_else(|| {
            RESERVED_STARTS
                .iter()
                .find(|(_, start)| bare.starts_with(start))
                .map(|(role, _)| *role)
        })
}

/// The function that a processor-specific or checked variant stands for: `memcpy_avx_unaligned_erms`.
fn variant(bare: &str) -> Option<&str> {
    let marks = [
        "_avx",
        "_sse",
        "_ssse",
        "_evex",
        "_erms",
        "_unaligned",
        "_chk",
        "_internal",
        "_generic",
    ];
    bare.get(..marks.iter().filter_map(|mark| bare.find(mark)).min()?)
}

/// Source files of the standard libraries, as compilers record them.
pub(super) fn is_library_source(file: &str) -> bool {
    file.starts_with("/rustc/")
        || file.contains("/lib/rustlib/src/")
        || file.contains("/include/c++/")
        || file.contains("libsanitizer/")
        || file.starts_with("../sysdeps/")
        || file.starts_with("./nptl/")
        || file.starts_with("nptl/")
        || file.starts_with("./csu/")
        || file.starts_with("csu/../")
        || file.starts_with("../csu/")
}

/// Libraries that every program has.
pub(super) fn is_system_module(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let starts = [
        "libc.so",
        "libc-2.",
        "libpthread",
        "ld-linux",
        "ld-2.",
        "libstdc++",
        "libc++",
        "libgcc_s",
        "linux-vdso",
        "[vdso]",
        "[kernel",
        "libasan",
        "libtsan",
        "libubsan",
        "liblsan",
        "libm.so",
        "libm-2.",
        "librt.so",
        "libdl.so",
    ];
    starts.iter().any(|start| name.starts_with(start))
}

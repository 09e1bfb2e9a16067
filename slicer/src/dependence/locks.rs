//! Whose code an access is in: that of a lock, of a count of references or of a hash table's hasher, which the program's statements
//! only use.
//!
//! C and C++ take their locks in a library of the system, which is not looked into: what it is called for tells. Rust's are compiled into the
//! program. The words of either are touched by every thread around everything that matters: in any order, which tells nothing. What Rust's
//! hashers keep is drawn at random in each process, and some random number always parts few runs.

use program::code::Target;
use program::{LinkAddr, Module, Pc, Program, is_library_path};

use crate::view::FunctionView;

/// Where the sources of Rust's locks are, in this and in older releases.
const LOCKS: [&str; 5] = [
    "/std/src/sys/sync/",
    "/std/src/sys/locks/",
    "/std/src/sys_common/mutex",
    "/std/src/sync/poison",
    "/std/src/sync/mutex.rs",
];
/// Where counts of references are kept, and what an atomic operation is inlined from.
const COUNTS: &str = "/alloc/src/sync.rs";
const ATOMICS: &str = "/core/src/sync/atomic.rs";

/// How the names begin of what takes, gives back and waits for locks in the C and C++ libraries, and how those end that make and end them.
const CALLS: [&str; 7] = [
    "pthread_mutex_",
    "pthread_rwlock_",
    "pthread_spin_",
    "pthread_cond_",
    "mtx_",
    "cnd_",
    "_ZNSt18condition_variable",
];
const LIVES: [&str; 7] = ["init", "destroy", "C1Ev", "C2Ev", "D0Ev", "D1Ev", "D2Ev"];

/// Where hashers draw what they begin with, and where they use it.
const HASHERS: [&str; 2] = ["/std/src/hash/random.rs", "/core/src/hash/sip.rs"];

/// Whether the instruction at an address is a hasher's own.
#[must_use]
pub fn hashes(module: &Module<'_>, addr: LinkAddr) -> bool {
    let frame = module.sources().frames_at(addr).into_iter().next();
    let file = frame.and_then(|frame| frame.file);
    file.is_some_and(|file| HASHERS.iter().any(|hasher| file.ends_with(hasher)))
}

/// Whether the instruction at an address belongs to a lock or to a count of references: to a library function that is such,
/// before any code of the program's own that was inlined.
#[must_use]
pub fn keeps_order(module: &Module<'_>, addr: LinkAddr) -> bool {
    let frames = module.sources().frames_at(addr).into_iter();
    let files = frames.filter_map(|frame| frame.file);
    let files: Vec<_> = files.take_while(|file| is_library_path(file)).collect();
    are_a_locks(files.iter().map(|file| &**file))
}

/// Whether a call is of a library's function that takes, gives back or waits for a lock: what it touches is no data. What makes a lock and
/// what ends it is another matter.
#[must_use]
pub fn is_called(program: &Program<'_>, call: Pc) -> bool {
    let symbol = || {
        let module = program.module(call.module)?;
        let view = FunctionView::new(module, program.function_at(call)?);
        match view.call_target(view.flow.containing(call.addr)?)? {
            Target::Import(import) => module.elf().import_name(import),
            Target::Function(_) | Target::Unknown(_) | Target::Indirect => None,
        }
    };
    symbol().is_some_and(is_lock_call)
}

fn is_lock_call(symbol: &str) -> bool {
    let begins = CALLS.iter().any(|name| symbol.starts_with(name));
    begins && !LIVES.iter().any(|end| symbol.ends_with(end))
}

/// The same by the files of the functions, innermost first.
fn are_a_locks<'f>(mut files: impl Iterator<Item = &'f str> + Clone) -> bool {
    let counts = || {
        let atomic = files.clone().next().is_some_and(|file| file.ends_with(ATOMICS));
        atomic && files.clone().any(|file| file.ends_with(COUNTS))
    };
    counts() || files.any(|file| LOCKS.iter().any(|lock| file.contains(lock)))
}

#[cfg(test)]
mod tests {
    use super::{are_a_locks, is_lock_call};

    #[test]
    fn what_takes_a_lock_is_told_from_what_makes_it() {
        for taking in [
            "pthread_mutex_lock",
            "pthread_cond_wait",
            "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
        ] {
            assert!(is_lock_call(taking), "{taking}");
        }
        for other in [
            "pthread_mutex_destroy",
            "_ZNSt18condition_variableC1Ev",
            "pthread_join",
            "memset",
        ] {
            assert!(!is_lock_call(other), "{other}");
        }
    }

    #[test]
    fn a_lock_is_told_from_what_it_protects() {
        let std = |path: &str| format!("/rustc/0123/library{path}");
        let of = |files: &[&str]| {
            let files: Vec<String> = files.iter().map(|file| std(file)).collect();
            are_a_locks(files.iter().map(String::as_str))
        };
        assert!(of(&[
            "/core/src/sync/atomic.rs",
            "/std/src/sys/sync/mutex/futex.rs"
        ]));
        assert!(of(&["/std/src/sync/poison.rs"]));
        assert!(of(&["/core/src/sync/atomic.rs", "/alloc/src/sync.rs"]));
        assert!(
            !of(&["/core/src/sync/atomic.rs"]),
            "an atomic of the program's own"
        );
        assert!(!of(&["/alloc/src/sync.rs"]), "what is behind a counted reference");
        assert!(!of(&["/alloc/src/vec/mod.rs"]));
        assert!(!of(&[]));
    }
}

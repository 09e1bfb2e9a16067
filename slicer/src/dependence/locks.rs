//! Whose code an access is in: that of a lock, of a count of references or of a hash table's hasher, which the program's statements
//! only use.
//!
//! C and C++ take their locks in a library of the system, which is not looked into. Rust's are compiled into the program, and
//! their words are touched by every thread around everything that matters: in any order, which tells nothing. What its hashers
//! keep is drawn at random in each process, and some random number always parts few runs.

use program::{LinkAddr, Module, is_library_path};

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
    use super::are_a_locks;

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

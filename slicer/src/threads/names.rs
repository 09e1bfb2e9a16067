//! Calls that start and await threads, and library code, by symbol name.
//!
//! Names are taken mangled, as symbol tables have them: telling `std::` from the rest needs no demangler.

/// How a call starts a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CreationKind {
    /// `pthread_create(thread, attr, routine, argument)`.
    Pthread,
    /// `thrd_create(thread, routine, argument)` of C11.
    C11,
    /// libstdc++'s `std::thread::_M_start_thread(state, …)`: `state` points at an object whose virtual
    /// function `_M_run` is the routine. `std::async` and `std::jthread` come here too.
    StdThread,
    /// `std::sys::…::Thread::new(stack, box, …)` of Rust: the box holds a closure with its vtable.
    Rust,
}

/// How a call waits for a thread to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JoinKind {
    /// `pthread_join(thread, …)` and its timed forms.
    Pthread,
    /// `thrd_join(thread, …)` of C11.
    C11,
    /// `std::thread::join()` on the thread object.
    StdThread,
    /// `get()` or `wait()` of a `std::future`.
    Future,
    /// `JoinHandle::join` of Rust, or what it calls.
    Rust,
}

/// Every symbol that [`creation`] knows contains one of these.
pub(super) const CREATION_PARTS: [&str; 4] =
    ["pthread_create", "thrd_create", "_M_start_thread", "6Thread3new"];

/// The thread creation that a call of `symbol` is.
#[must_use]
pub fn creation(symbol: &str) -> Option<CreationKind> {
    match unversioned(symbol) {
        "pthread_create" | "__pthread_create" => Some(CreationKind::Pthread),
        "thrd_create" => Some(CreationKind::C11),
        name if name.starts_with("_ZNSt6thread15_M_start_thread") => Some(CreationKind::StdThread),
        name if rust_path_ends(name, "6Thread3new") => Some(CreationKind::Rust),
        _ => None,
    }
}

/// The wait for a thread that a call of `symbol` is.
#[must_use]
pub fn join(symbol: &str) -> Option<JoinKind> {
    match unversioned(symbol) {
        "pthread_join" | "pthread_timedjoin_np" | "pthread_clockjoin_np" => Some(JoinKind::Pthread),
        "thrd_join" => Some(JoinKind::C11),
        "_ZNSt6thread4joinEv" | "_ZNSt3__16thread4joinEv" => Some(JoinKind::StdThread),
        name if is_joining_destructor(name) => Some(JoinKind::StdThread),
        name if is_future_wait(name) => Some(JoinKind::Future),
        name if is_rust_join(name) => Some(JoinKind::Rust),
        _ => None,
    }
}

/// The destructor of a `std::jthread`, or of a vector of them.
fn is_joining_destructor(name: &str) -> bool {
    let joins = ["_ZNSt7jthreadD", "_ZNSt6vectorISt7jthread"]
        .iter()
        .any(|of| name.starts_with(of));
    joins && ["D1Ev", "D2Ev"].iter().any(|end| name.ends_with(end))
}

/// Whether a call of `symbol` lets a thread go, so that nobody awaits it.
#[must_use]
pub fn is_detach(symbol: &str) -> bool {
    match unversioned(symbol) {
        "pthread_detach" | "thrd_detach" | "_ZNSt6thread6detachEv" => true,
        // A Rust handle that is dropped; dropping a collection of them comes after they were taken out.
        name => {
            name.contains("drop_in_place")
                && (name.contains("10JoinHandle") || name.contains("..JoinHandle"))
                && !["IntoIter", "3Vec", "..Vec"]
                    .iter()
                    .any(|many| name.contains(many))
        }
    }
}

/// Whether threads that start inside a call of `symbol` have ended when it returns: `std::thread::scope` of
/// Rust.
#[must_use]
pub fn awaits_all(symbol: &str) -> bool {
    let v0 = || symbol.starts_with("_RINvNt") && symbol.contains("3std6thread6scoped5scope");
    symbol.starts_with("_ZN3std6thread6scoped5scope17h") || v0()
}

/// `std::thread::park` of Rust.
#[must_use]
pub fn is_park(symbol: &str) -> bool {
    crate_of(symbol) == Some("std") && symbol.contains("6thread") && {
        symbol.ends_with("4park") || symbol.contains("4park17h")
    }
}

/// Whether `closure` is a closure or lambda that is written inside the function `outer`, at any depth.
#[must_use]
pub fn is_closure_in(closure: &str, outer: &str) -> bool {
    if let (Some(path), Some(of)) = (closure.strip_prefix("_RNC"), outer.strip_prefix("_R")) {
        // `NC` for each closure around it.
        let path = path.trim_start_matches("NC");
        return path
            .strip_prefix(of)
            .is_some_and(|rest| rest.starts_with(['0', 's']));
    }
    if let (Some(path), Some(of)) = (legacy_path(closure), legacy_path(outer)) {
        return path
            .strip_prefix(of)
            .is_some_and(|rest| rest.starts_with("28_$u7b$$u7b$closure"));
    }
    // `_ZZ4mainENKUlvE_clEv` in `main`, `_ZZ5startiENKUlvE_clEv` in `_Z5starti`.
    let encoded = outer
        .strip_prefix("_Z")
        .map_or_else(|| format!("{}{outer}", outer.len()), str::to_owned);
    let inside = closure
        .strip_prefix("_ZZ")
        .map(|path| path.trim_start_matches('Z'))
        .and_then(|path| path.strip_prefix(encoded.as_str()));
    inside.is_some_and(|rest| rest.starts_with("EN") && rest.contains("Ul"))
}

fn is_future_wait(name: &str) -> bool {
    // What `get()` waits with where it was inlined.
    if name.starts_with("_ZNSt28__atomic_futex_unsigned_base19_M_futex_wait_until") {
        return true;
    }
    let of_future = [
        "_ZNSt6future",
        "_ZNSt13shared_future",
        "_ZNKSt14__basic_future",
        "_ZNSt13__future_base",
    ];
    let of_libcxx = [
        "_ZNSt3__16future",
        "_ZNSt3__113shared_future",
        "_ZNSt3__117__assoc_sub_state",
    ];
    let waits = ["3getEv", "4waitEv", "13_M_get_resultEv"]
        .iter()
        .any(|end| name.ends_with(end));
    waits
        && of_future
            .iter()
            .chain(&of_libcxx)
            .any(|start| name.starts_with(start))
}

fn is_rust_join(name: &str) -> bool {
    rust_path_ends(name, "6Thread4join")
        || (crate_of(name) == Some("std")
            && name.contains("6thread")
            && ["JoinHandle", "JoinInner"].iter().any(|of| name.contains(of))
            && (name.contains("$GT$4join17h") || name.contains("E4join")))
}

/// Whether `name` is a function of `std::sys` whose path ends so (`6Thread3new`), in either mangling.
fn rust_path_ends(name: &str, end: &str) -> bool {
    let legacy = || {
        let path = name.strip_prefix("_ZN3std3sys").and_then(without_hash);
        path.is_some_and(|path| path.contains("6thread") && path.ends_with(end))
    };
    let v0 = || name.starts_with("_R") && name.contains("3std3sys") && name.ends_with(end);
    v0() || legacy()
}

/// Whether `symbol` names code of a language's standard library (instantiated for the program or not), that
/// a person would not count as part of the program.
#[must_use]
pub fn is_library(symbol: &str) -> bool {
    if let Some(of) = crate_of(symbol) {
        // A closure's `call_once` goes by the closure's crate, but nobody wrote it.
        let shim = symbol.contains("6FnOnce") && symbol.contains("9call_once");
        return shim || matches!(of, "std" | "core" | "alloc" | "__rustc");
    }
    let Some(encoded) = symbol.strip_prefix("_Z") else {
        return is_runtime(symbol);
    };
    // Entities local to a function (`Z`) and qualifiers of member functions stand before the name itself.
    let encoded = encoded.trim_start_matches('Z');
    let nested = encoded
        .strip_prefix('N')
        .map(|path| path.trim_start_matches(['K', 'V', 'r', 'R', 'O']));
    let path = nested.unwrap_or(encoded);
    let allocates = ["nw", "na", "dl", "da"]
        .iter()
        .any(|operator| encoded.starts_with(operator));
    let standard = allocates
        || ["St", "Sa", "Ss", "Sb", "Si", "So", "Sd"]
            .iter()
            .any(|short| path.starts_with(short));
    // What libstdc++ calls the system's threads by: `static` functions of a header, in no namespace.
    let threads = path.strip_prefix('L').unwrap_or(path);
    let threads = identifier(threads).is_some_and(|name| name.starts_with("__gthread_"));
    standard || threads || path.starts_with("9__gnu_cxx") || path.starts_with("10__cxxabiv1")
}

/// Library code that a search for what a thread runs does not look into: it cleans up or prepares, and would
/// lead to destructors and hooks of the program instead of to its routine.
#[must_use]
pub fn is_beside_the_point(symbol: &str) -> bool {
    const PARTS: [&str; 4] = ["drop_in_place", "9drop_slow", "9spawnhook", "set_output_capture"];
    const ENDS: [&str; 3] = ["D0Ev", "D1Ev", "D2Ev"];
    is_library(symbol)
        && (PARTS.iter().any(|part| symbol.contains(part)) || ENDS.iter().any(|end| symbol.ends_with(end)))
}

/// Start-up code that compilers and linkers add.
fn is_runtime(symbol: &str) -> bool {
    const RUNTIME: [&str; 9] = [
        "_start",
        "_init",
        "_fini",
        "_dl_relocate_static_pie",
        "deregister_tm_clones",
        "register_tm_clones",
        "__do_global_dtors_aux",
        "frame_dummy",
        "__rust_try",
    ];
    RUNTIME.contains(&symbol)
}

/// The crate of a Rust symbol's path: the one in which the function (not its type arguments) was written.
#[must_use]
pub fn crate_of(symbol: &str) -> Option<&str> {
    match symbol.strip_prefix("_R") {
        Some(path) => crate_of_v0(path),
        None => crate_of_legacy(legacy_path(symbol)?),
    }
}

fn legacy_path(symbol: &str) -> Option<&str> {
    without_hash(symbol.strip_prefix("_ZN")?)
}

/// The part of a legacy path before `17h0123456789abcdefE`.
fn without_hash(path: &str) -> Option<&str> {
    // `.llvm.1234` and the like may follow.
    let end = path.find("17h")?;
    let hash = path.get(end + 3..end + 20)?;
    let digits = hash.strip_suffix('E')?;
    digits
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| path.get(..end))
        .flatten()
}

fn crate_of_legacy(path: &str) -> Option<&str> {
    let first = identifier(path)?;
    // `<alloc::vec::Vec<T> as …>::…` is one escaped identifier: `_$LT$alloc..vec..Vec$LT$T$GT$$u20$as…`.
    let Some(mut escaped) = first.strip_prefix("_$LT$").or_else(|| first.strip_prefix("$LT$")) else {
        return Some(first);
    };
    for skip in ["$RF$", "mut$u20$", "dyn$u20$", "$BP$", "$LP$", "$u5b$"] {
        escaped = escaped.strip_prefix(skip).unwrap_or(escaped);
    }
    let end = escaped.find(['.', '$']).unwrap_or(escaped.len());
    escaped.get(..end)
}

fn crate_of_v0(path: &str) -> Option<&str> {
    let bytes = path.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            // The letter after N is a namespace, not a tag (`NC` is a closure).
            b'N' => at += 2,
            b'C' => return crate_name(skip_disambiguator(path.get(at + 1..)?)),
            b's' => at += path.get(at..)?.find('_')? + 1,
            _ => at += 1,
        }
    }
    None
}

fn skip_disambiguator(path: &str) -> &str {
    match path.strip_prefix('s').and_then(|rest| rest.split_once('_')) {
        Some((_, rest)) => rest,
        None => path,
    }
}

/// Like [`identifier`]; v0 puts an underscore before names that begin with one.
fn crate_name(path: &str) -> Option<&str> {
    let rest = path.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let length: usize = path.get(..path.len() - rest.len())?.parse().ok()?;
    rest.strip_prefix('_').unwrap_or(rest).get(..length)
}

/// The identifier after its decimal length.
fn identifier(path: &str) -> Option<&str> {
    let digits = path.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = path.get(..digits)?.parse().ok()?;
    path.get(digits..digits.checked_add(length)?)
}

fn unversioned(symbol: &str) -> &str {
    symbol.split_once('@').map_or(symbol, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creations() {
        let starts = |name| creation(name);
        assert_eq!(starts("pthread_create@GLIBC_2.34"), Some(CreationKind::Pthread));
        assert_eq!(starts("thrd_create"), Some(CreationKind::C11));
        let std_thread =
            "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE";
        assert_eq!(starts(std_thread), Some(CreationKind::StdThread));
        let v0 = "_RNvMs0_NtNtNtCsjrHSEGnQ3l9_3std3sys6thread4unixNtB5_6Thread3new";
        let legacy = "_ZN3std3sys3pal4unix6thread6Thread3new17h0123456789abcdefE";
        assert_eq!(starts(v0), Some(CreationKind::Rust));
        assert_eq!(starts(legacy), Some(CreationKind::Rust));
        assert_eq!(
            starts("_RNvMNtNtCsjrHSEGnQ3l9_3std6thread2idNtB2_8ThreadId3new"),
            None
        );
        assert_eq!(starts("pthread_create_my_own"), None);
    }

    #[test]
    fn joins() {
        assert_eq!(join("pthread_join"), Some(JoinKind::Pthread));
        assert_eq!(join("_ZNSt6thread4joinEv"), Some(JoinKind::StdThread));
        assert_eq!(join("_ZNSt6futureIiE3getEv"), Some(JoinKind::Future));
        assert_eq!(join("_ZNKSt14__basic_futureIiE4waitEv"), Some(JoinKind::Future));
        let handle = "_ZN3std6thread19JoinHandle$LT$T$GT$4join17h0123456789abcdefE";
        assert_eq!(join(handle), Some(JoinKind::Rust));
        let v0 = "_RNvMs_NtNtCsjrHSEGnQ3l9_3std6thread11join_handleINtB4_10JoinHandleuE4joinCs1_1r";
        assert_eq!(join(v0), Some(JoinKind::Rust));
        assert_eq!(join("_ZNSt6vectorIiE3getEv"), None);
        assert_eq!(join("_ZNSt7jthreadD2Ev"), Some(JoinKind::StdThread));
    }

    #[test]
    fn scopes_and_handles_that_are_let_go() {
        assert!(awaits_all("_ZN3std6thread6scoped5scope17h0123456789abcdefE"));
        assert!(awaits_all(
            "_RINvNtNtCsjr_3std6thread6scoped5scopeNCNvCs1_1r4main0uEB1_"
        ));
        assert!(!awaits_all(
            "_ZN3std6thread6scoped5Scope5spawn17h0123456789abcdefE"
        ));
        assert!(is_park("_RNvNtNtCsjr_3std6thread9functions4park"));
        assert!(is_detach("_ZNSt6thread6detachEv"));
        assert!(is_detach(
            "_RINvNtCs1_4core3ptr13drop_in_placeINtNtNtCs2_3std6thread11join_handle10JoinHandleuEECs3_1r"
        ));
        assert!(!is_detach(
            "_RINvNtCs1_4core3ptr13drop_in_placeINtNtNtCs4_5alloc3vec9into_iter8IntoIterINtNtNtCs2_3std6thread11join_handle10JoinHandleuEEECs3_1r"
        ));
    }

    #[test]
    fn closures_belong_to_their_function() {
        for (closure, outer) in [
            ("_RNCNvCs1_1r4main0B3_", "_RNvCs1_1r4main"),
            ("_RNCNCNvCs1_1r4main0s_0B3_", "_RNvCs1_1r4main"),
            (
                "_ZN1r4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
                "_ZN1r4main17hfedcba9876543210E",
            ),
            ("_ZZ4mainENKUlvE_clEv", "main"),
            ("_ZZ5startiENKUlvE_clEv", "_Z5starti"),
        ] {
            assert!(is_closure_in(closure, outer), "{closure}");
            assert!(
                !is_closure_in(outer, closure) && !is_closure_in(closure, "_Z5other"),
                "{closure}"
            );
        }
        assert!(!is_closure_in("_RNCNvCs1_1r5main20B3_", "_RNvCs1_1r4main"));
    }

    #[test]
    fn library_or_program() {
        for library in [
            "_ZNSt6threadC1IRFviEJiEvEEOT_DpOT0_",
            "_ZSt5asyncIRFiiEJiEESt6futureIiESt6launchOT_DpOT0_",
            "_ZNKSt6vectorIiSaIiEE4sizeEv",
            "_ZZNSt9once_flag18_Prepare_executionC4IZSt9call_onceEENKUlvE_clEv",
            "_ZN9__gnu_cxx13new_allocatorIiE8allocateEmPKv",
            "_ZL14__gthread_oncePiPFvvE",
            "_ZN4core3ptr13drop_in_place17h0123456789abcdefE",
            "_ZN63_$LT$alloc..sync..Arc$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0123456789abcdefE",
            "_RINvNtNtCsjr_3std3sys9backtrace28___rust_begin_short_backtraceNCNvCs1_1r4main0uEB1_",
            "_RNCINvNtNtCsjr_3std6thread9lifecycle15spawn_uncheckedNCNvCs1_1r4main0uE0B1_",
            "_RNSNvYNCNvCs1_1r4main0INtNtNtCsgE_4core3ops8function6FnOnceuE9call_once6vtableB6_",
            "frame_dummy",
        ] {
            assert!(is_library(library), "{library}");
        }
        for program in [
            "main",
            "_Z5plaini",
            "_ZN6Worker4loopEv",
            "_ZZ4mainENKUlvE_clEv",
            "_ZN4core4pump17turnEv",
            "_RNvCs1a_1r6worker",
            "_RNCNvCs1a_1r4main0B3_",
            "_ZN1r4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
            "_ZN55_$LT$r..Queue$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0123456789abcdefE",
        ] {
            assert!(!is_library(program), "{program}");
        }
    }

    #[test]
    fn broken_names_are_no_names() {
        for name in [
            "", "_R", "_RN", "_RC", "_RCs", "_RC99x", "_ZN", "_ZN17h", "_Z", "_RNé", "_ZN3st",
        ] {
            assert_eq!(
                (creation(name), join(name), crate_of(name)),
                (None, None, None),
                "{name}"
            );
        }
    }
}

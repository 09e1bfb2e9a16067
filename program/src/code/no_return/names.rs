//! Functions that never return, by name.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// Functions of the C and C++ libraries, sorted.
const NAMES: &[&str] = &[
    "_Exit",
    "_Unwind_Resume",
    "_ZSt10unexpectedv",
    "_ZSt9terminatev",
    "__assert",
    "__assert_fail",
    "__assert_fail_base",
    "__assert_perror_fail",
    "__chk_fail",
    "__clang_call_terminate",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_call_terminate",
    "__cxa_call_unexpected",
    "__cxa_deleted_virtual",
    "__cxa_pure_virtual",
    "__cxa_rethrow",
    "__cxa_throw",
    "__cxa_throw_bad_array_length",
    "__cxa_throw_bad_array_new_length",
    "__fortify_fail",
    "__libc_fatal",
    "__longjmp_chk",
    "__stack_chk_fail",
    "_exit",
    "_longjmp",
    "abort",
    "err",
    "errx",
    "exit",
    "longjmp",
    "pthread_exit",
    "quick_exit",
    "rust_begin_unwind",
    "rust_panic",
    "siglongjmp",
    "thrd_exit",
    "verr",
    "verrx",
];

/// Parts of mangled names. Rust's two manglings share them; C++ needs the first two.
const PARTS: &[&str] = &[
    "__throw_",
    "_ZSt21__glibcxx_assert_fail",
    "_ZSt17rethrow_exception",
    "4core9panicking",
    "4core6option13expect_failed",
    "4core6option13unwrap_failed",
    "4core6result13unwrap_failed",
    "22slice_index_order_fail",
    "26slice_start_index_len_fail",
    "24slice_end_index_len_fail",
    "16slice_index_fail",
    "16slice_error_fail",
    "17len_mismatch_fail",
    "22panic_already_borrowed",
    "30panic_already_mutably_borrowed",
    "18handle_alloc_error",
    "17capacity_overflow",
    "5alloc7raw_vec12handle_error",
    "3std9panicking11begin_panic",
    "3std9panicking20rust_panic_with_hook",
    "3std7process5abort",
    "3std7process4exit",
];

/// Each of [`PARTS`] contains one of these. A program has many names, and nearly all contain none.
static HINTS: LazyLock<[Finder<'static>; 6]> =
    LazyLock::new(|| ["throw", "_fail", "panic", "_error", "overflow", "7process"].map(Finder::new));

/// Whether a function of this name never returns.
pub(super) fn is_known(name: &str) -> bool {
    let mangled = name.starts_with("_Z") || name.starts_with("_R");
    // Nearly all names of a large program are mangled, and nearly all of those in the table are not.
    if (!mangled || name.starts_with("_ZSt")) && NAMES.binary_search(&name).is_ok() {
        return true;
    }
    // Formatting one of these modules' types returns like any other function.
    mangled
        && HINTS.iter().any(|hint| hint.find(name.as_bytes()).is_some())
        && PARTS.iter().any(|part| name.contains(part))
        && !name.contains("3fmt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_part_has_a_hint() {
        for part in PARTS {
            assert!(
                HINTS.iter().any(|hint| hint.find(part.as_bytes()).is_some()),
                "{part}"
            );
        }
    }

    #[test]
    fn the_table_is_sorted_and_every_name_in_it_known() {
        assert!(NAMES.is_sorted());
        assert!(NAMES.iter().all(|name| is_known(name)));
    }

    #[test]
    fn mangled_names_are_known_by_their_parts() {
        assert!(is_known("_ZN4core9panicking5panic17h0123456789abcdefE"));
        assert!(is_known("_ZSt20__throw_length_errorPKc"));
        assert!(is_known("_RNvNtCs1234_4core9panicking9panic_fmt"));
        assert!(!is_known(
            "_RNvXs_NtC4core9panickingNtB_10AssertKindNtNtB_3fmt5Debug3fmt"
        ));
        assert!(!is_known("exit_handler"));
    }
}

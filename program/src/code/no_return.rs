//! Calls that do not come back.
//!
//! Known by name, or because no path of the function leads to a return. Callees are looked into a fixed
//! number of levels deep, so the answer for a function does not depend on who asked first.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, Ordering};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use memchr::memmem::Finder;

use super::context::{CALLEE_DEPTH, Context};
use super::flow::Target;
use super::functions::{FunctionId, Functions};
use crate::elf::{Elf, ImportId};

/// Larger functions are taken to return: the ones that do not are small wrappers.
const MAX_SIZE: u64 = 4096;

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

fn is_known(name: &str) -> bool {
    if NAMES.binary_search(&name).is_ok() {
        return true;
    }
    // Formatting one of these modules' types returns like any other function.
    (name.starts_with("_Z") || name.starts_with("_R"))
        && HINTS.iter().any(|hint| hint.find(name.as_bytes()).is_some())
        && PARTS.iter().any(|part| name.contains(part))
        && !name.contains("3fmt")
}

/// What is known so far of each function.
///
/// Looking deeper only ever turns "returns" into "never returns". So one depth down to which a function is
/// known to return, and one from which on it is known not to, say all that was found out.
#[derive(Debug)]
pub(super) struct NoReturn {
    functions: Vec<AtomicU8>,
}

/// One function's two depths, four bits each; zero while nothing is known.
#[derive(Clone, Copy)]
struct Known(u8);

impl Known {
    fn at(self, depth: u8) -> Option<bool> {
        let (returns, never) = (self.0 & 0xf, self.0 >> 4);
        if depth < returns {
            Some(false)
        } else if never != 0 && depth + 1 >= never {
            Some(true)
        } else {
            None
        }
    }

    fn with(self, depth: u8, is_never: bool) -> Self {
        let (returns, never) = (self.0 & 0xf, self.0 >> 4);
        let depth = depth.min(CALLEE_DEPTH) + 1;
        let (returns, never) = match is_never {
            true if never == 0 => (returns, depth),
            true => (returns, never.min(depth)),
            false => (returns.max(depth), never),
        };
        Self(never << 4 | returns)
    }
}

impl NoReturn {
    pub(super) fn new(functions: &Functions<'_>) -> Self {
        Self {
            functions: functions.ids().map(|_| AtomicU8::new(0)).collect(),
        }
    }

    pub(super) fn import(&self, elf: &Elf<'_>, import: ImportId) -> bool {
        elf.import_name(import).is_some_and(is_known)
    }

    /// Whether a function never returns, as far as `context.depth` levels of callees tell.
    pub(super) fn function(&self, context: Context<'_, '_>, id: FunctionId) -> bool {
        let Some(known) = self.functions.get(id.0 as usize) else {
            return false;
        };
        if let Some(never) = Known(known.load(Ordering::Relaxed)).at(context.depth) {
            return never;
        }
        let never = never_returns(context, id);
        let _ = known.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
            Some(Known(before).with(context.depth, never).0)
        });
        never
    }
}

fn never_returns(context: Context<'_, '_>, id: FunctionId) -> bool {
    let Some(function) = context.functions.get(id) else {
        return false;
    };
    if function.symbol.is_some_and(is_known) {
        return true;
    }
    let size = function.range.end.0 - function.range.start.0;
    if context.depth == 0 || function.resolver || size == 0 || size >= MAX_SIZE {
        return false;
    }
    let context = Context {
        depth: context.depth - 1,
        ..context
    };
    let Some(bytes) = context.elf.bytes_at(function.entry, size) else {
        return false;
    };
    let mut search = Search {
        context,
        start: function.entry.0,
        bytes,
        seen: vec![false; bytes.len()],
        stack: Vec::new(),
    };
    !search.finds_return()
}

/// A search for a way out of a function. A jump into one of its moved-away parts counts as a way out: there
/// is no need to be exact about functions that large.
struct Search<'c, 'a> {
    context: Context<'c, 'a>,
    start: u64,
    bytes: &'a [u8],
    seen: Vec<bool>,
    stack: Vec<usize>,
}

enum Step {
    Next,
    End,
    Leaves,
}

impl Search<'_, '_> {
    fn finds_return(&mut self) -> bool {
        self.stack.push(0);
        while let Some(mut at) = self.stack.pop() {
            let Some(code) = self.bytes.get(at..) else {
                continue;
            };
            let mut decoder = Decoder::with_ip(64, code, self.start + at as u64, DecoderOptions::NONE);
            while self.seen.get(at).is_some_and(|seen| !seen) {
                self.seen[at] = true;
                let instruction = decoder.decode();
                if instruction.is_invalid() {
                    break;
                }
                at += instruction.len();
                match self.step(&instruction) {
                    Step::Next => {}
                    Step::End => break,
                    Step::Leaves => return true,
                }
            }
        }
        false
    }

    fn step(&mut self, instruction: &Instruction) -> Step {
        match instruction.flow_control() {
            FlowControl::Next if instruction.mnemonic() == Mnemonic::Hlt => Step::End,
            FlowControl::Next | FlowControl::XbeginXabortXend => Step::Next,
            FlowControl::ConditionalBranch => match self.jump(instruction.near_branch_target()) {
                Step::Leaves => Step::Leaves,
                _ => Step::Next,
            },
            FlowControl::UnconditionalBranch => self.jump(instruction.near_branch_target()),
            FlowControl::IndirectBranch => match self.context.slot_target(instruction) {
                Some(target) if self.context.never_returns(target) => Step::End,
                _ => Step::Leaves,
            },
            FlowControl::Call if !instruction.is_call_near() => Step::Next,
            FlowControl::Call | FlowControl::IndirectCall => {
                let target = self.context.call_target(instruction);
                let last = instruction.next_ip() >= self.start + self.bytes.len() as u64;
                if last || self.context.never_returns(target) {
                    Step::End
                } else {
                    Step::Next
                }
            }
            FlowControl::Return => Step::Leaves,
            FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int => Step::Next,
            FlowControl::Interrupt | FlowControl::Exception => Step::End,
        }
    }

    fn jump(&mut self, target: u64) -> Step {
        let inside = target
            .checked_sub(self.start)
            .and_then(|at| usize::try_from(at).ok());
        match inside.filter(|at| *at < self.bytes.len()) {
            Some(at) => {
                self.stack.push(at);
                Step::End
            }
            None => match self.context.target(target) {
                target @ (Target::Function(_) | Target::Import(_)) if self.context.never_returns(target) => {
                    Step::End
                }
                _ => Step::Leaves,
            },
        }
    }
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
    fn the_table_is_sorted() {
        assert!(NAMES.is_sorted());
    }

    #[test]
    fn depths_are_told_apart() {
        let known = Known(0).with(2, false).with(5, true);
        assert_eq!(
            [0, 2, 3, 4, 5, 7].map(|depth| known.at(depth)),
            [Some(false), Some(false), None, None, Some(true), Some(true)]
        );
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

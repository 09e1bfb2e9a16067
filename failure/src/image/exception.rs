//! The exception that nobody caught, as the C++ runtime keeps it.
//!
//! `std::terminate` prints what it knows and aborts; in a core only memory is left to ask. Before an exception
//! object stands the runtime's header (Itanium C++ ABI), and the functions that raised it have its address in
//! saved registers and on the stack. The header is told by its class, eight characters that name vendor and
//! language. One that was handled and freed looks the same but for its count of references, which stands
//! where `free` writes its own links.

use program::RunAddr;

use super::bytes::u32_at;
use super::joined::Image;
use super::symbols;
use super::unwind::Unwound;

/// The functions that end a program for an exception.
const TERMINATING: [&[u8]; 5] = [
    b"_ZSt9terminatev",
    b"_ZN10__cxxabiv111__terminateEPFvvE",
    b"__cxa_call_terminate",
    b"__clang_call_terminate",
    b"_ZN9__gnu_cxx27__verbose_terminate_handlerEv",
];
/// Functions of the runtime that abort for other reasons.
const ASSERTING: [&[u8]; 2] = [b"_ZSt21__glibcxx_assert_failPKciS0_S0_", b"__cxa_pure_virtual"];

/// From the exception's class, the first field of `_Unwind_Exception`: back to `exceptionType`, on to the
/// object. One that only refers to another (`std::rethrow_exception`) has a pointer to that one's object where
/// the count of references would be.
const TYPE_BEFORE: u64 = 80;
const OBJECT_AFTER: u64 = 32;
const REFERRED_BEFORE: u64 = 88;

/// How a vendor's runtime marks its exceptions.
struct Vendor {
    class: [u8; 8],
    referring: [u8; 8],
    references_before: u64,
}

const VENDORS: [Vendor; 2] = [
    Vendor {
        class: *b"\0++CCUNG",
        referring: *b"\x01++CCUNG",
        references_before: 96,
    },
    Vendor {
        class: *b"\0++CGNLC",
        referring: *b"\x01++CGNLC",
        references_before: 88,
    },
];

/// What the runtime said when it ended the program for an exception: in its own words. `None` when it was
/// not that, or the exception is not found.
pub(super) fn terminate_message(image: &Image<'_>, frames: &[Unwound]) -> Option<String> {
    /// The runtime's functions are the innermost; each look at one goes through its module's symbols.
    const INNERMOST: usize = 16;
    let innermost = frames.get(..INNERMOST).unwrap_or(frames);
    let terminating = innermost.iter().rposition(|frame| is_terminating(image, frame))?;
    let around = frames.get(..terminating.saturating_add(3).min(frames.len()))?;
    let exception = candidates(image, around).find_map(|at| Exception::at(image, at))?;
    let said = format!(
        "terminate called after throwing an instance of '{}'",
        exception.type_name
    );
    Some(match exception.what(image) {
        Some(what) => format!("{said}: {what}"),
        None => said,
    })
}

fn is_terminating(image: &Image<'_>, frame: &Unwound) -> bool {
    let inside = frame.registers.rip.wrapping_sub(1);
    let Some(module) = image.loaded_at(inside) else {
        return false;
    };
    if symbols::is_inside(module, inside, &TERMINATING) {
        return true;
    }
    // The runtime's inner functions have no symbols in a stripped library.
    let path = image
        .module_ref(RunAddr(inside))
        .map_or_else(String::new, |module| module.path);
    let name = path.rsplit('/').next().unwrap_or_default();
    (name.starts_with("libstdc++.so") || name.starts_with("libc++abi.so"))
        && !symbols::is_inside(module, inside, &ASSERTING)
}

/// Values that the frames' functions had in registers or on the stack.
fn candidates<'i>(image: &'i Image<'_>, frames: &'i [Unwound]) -> impl Iterator<Item = u64> + 'i {
    /// More than the frames of a runtime take together.
    const MOST_WORDS: u64 = 1024;
    let saved = frames
        .iter()
        .rev()
        .flat_map(|frame| (0..16).filter_map(|number| frame.registers.get(number)));
    let start = frames.first().and_then(|frame| frame.registers.rsp());
    let end = frames.last().and_then(|frame| frame.registers.rsp());
    let (start, end) = start.zip(end).unwrap_or_default();
    let words = (end.saturating_sub(start) / 8).min(MOST_WORDS);
    let pushed = (0..words).filter_map(move |index| image.process.word(start.checked_add(index * 8)?));
    saved.chain(pushed)
}

struct Exception {
    object: u64,
    type_info: u64,
    type_name: String,
}

impl Exception {
    /// The exception that a word points at: at its header, or at the object itself.
    fn at(image: &Image<'_>, word: u64) -> Option<Self> {
        let headers = [word, word.checked_sub(OBJECT_AFTER)?];
        headers.into_iter().find_map(|header| Self::of(image, header))
    }

    fn of(image: &Image<'_>, header: u64) -> Option<Self> {
        /// Nobody holds on to one exception more often.
        const MOST_REFERENCES: u32 = 10_000;
        let class = image.process.read(RunAddr(header), 8)?;
        let vendor = VENDORS
            .iter()
            .find(|vendor| *class == vendor.class || *class == vendor.referring)?;
        let object = if *class == vendor.class {
            header.checked_add(OBJECT_AFTER)?
        } else {
            image.process.word(header.checked_sub(REFERRED_BEFORE)?)?
        };
        let header = object.checked_sub(OBJECT_AFTER)?;
        let references = image
            .process
            .read(RunAddr(header.checked_sub(vendor.references_before)?), 4)?;
        if !(1..=MOST_REFERENCES).contains(&u32_at(&references, 0)?) {
            return None;
        }
        let type_info = image.process.word(header.checked_sub(TYPE_BEFORE)?)?;
        let type_name = program::code::demangle(&format!("_ZTS{}", mangled(image, type_info)?));
        let type_name = type_name.strip_prefix("typeinfo name for ")?.to_owned();
        Some(Self {
            object,
            type_info,
            type_name,
        })
    }

    /// What `what()` returns where it is the standard library's own: `std::logic_error` and
    /// `std::runtime_error` keep a pointer to the text behind the virtual table's, in both libraries.
    fn what(&self, image: &Image<'_>) -> Option<String> {
        const WITH_TEXT: [&str; 2] = ["St11logic_error", "St13runtime_error"];
        /// Deeper than any hierarchy of exceptions.
        const MOST_BASES: usize = 16;
        const LONGEST: usize = 1024;
        let mut type_info = self.type_info;
        for _ in 0..MOST_BASES {
            if WITH_TEXT.contains(&mangled(image, type_info)?.as_str()) {
                let text = image.process.word(self.object.checked_add(8)?)?;
                let mut text = image.process.string(RunAddr(text))?;
                text.truncate(text.floor_char_boundary(LONGEST));
                return Some(text);
            }
            type_info = single_base(image, type_info)?;
        }
        None
    }
}

/// The mangled name in a `std::type_info`.
fn mangled(image: &Image<'_>, type_info: u64) -> Option<String> {
    let name = image.process.word(type_info.checked_add(8)?)?;
    // Names are read-only data, which a core leaves to the file.
    let name = image.string(RunAddr(name))?;
    let name = name.strip_prefix('*').unwrap_or(&name);
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic())).then(|| name.to_owned())
}

/// The base of a class with one public base at its start: `__si_class_type_info`, told by its own type.
fn single_base(image: &Image<'_>, type_info: u64) -> Option<u64> {
    let table = image.process.word(type_info)?;
    let own_type = image.process.word(table.checked_sub(8)?)?;
    if mangled(image, own_type)? != "N10__cxxabiv120__si_class_type_infoE" {
        return None;
    }
    image.process.word(type_info.checked_add(16)?)
}

//! Names for people: Rust and C++ symbols demangled.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Template names can grow without end; nobody reads more than this.
const MAX_NAME: usize = 16 * 1024;

/// Deep enough for real templates, shallow enough for a small thread's stack.
const MAX_DEPTH: u32 = 96;

/// A symbol as a person would write it: Rust paths without hash, C++ with parameter types, anything else as
/// it is. A name that is too long to show ends in `…`.
#[must_use]
pub fn demangle(symbol: &str) -> String {
    demangle_as(symbol, DemangleOptions::new())
}

/// A symbol's path alone, without parameter and return types: `jobs::Queue::push`.
#[must_use]
pub fn demangle_path(symbol: &str) -> String {
    demangle_as(symbol, DemangleOptions::new().no_params().no_return_type())
}

fn demangle_as(symbol: &str, options: DemangleOptions) -> String {
    rust(symbol)
        .or_else(|| cpp(symbol, options))
        .unwrap_or_else(|| symbol.to_owned())
}

fn rust(symbol: &str) -> Option<String> {
    if !symbol.starts_with("_R") && !symbol.starts_with("_ZN") {
        return None;
    }
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    let mut text = Bounded::default();
    let complete = write!(text, "{name:#}").is_ok();
    Some(text.finish(complete))
}

fn cpp(symbol: &str, options: DemangleOptions) -> Option<String> {
    if !symbol.starts_with("_Z") {
        return None;
    }
    let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let name = Symbol::new_with_options(symbol, &parse).ok()?;
    let mut text = Bounded::default();
    let complete = name
        .structured_demangle(&mut text, &options.recursion_limit(MAX_DEPTH))
        .is_ok();
    (complete || text.full).then(|| text.finish(complete))
}

#[derive(Default)]
struct Bounded {
    text: String,
    full: bool,
}

impl Bounded {
    fn finish(mut self, complete: bool) -> String {
        if !complete {
            self.text.push('…');
        }
        self.text
    }
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > MAX_NAME {
            self.full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

/// The last identifier of a name as people write it: what any mangling of that name must contain.
pub(super) fn last_identifier(name: &str) -> &str {
    let without_params = name.split(['(', '<']).next().unwrap_or(name);
    let last = without_params.rsplit("::").next().unwrap_or(without_params);
    last.trim_start_matches('~')
}

/// Whether link-time optimisation made a local name known to other compilations.
pub(crate) fn is_promoted(symbol: &str) -> bool {
    symbol.contains(".llvm.") || symbol.contains(".lto_priv")
}

/// The parts of a string table that contain some text: names that may hold it, without looking at each.
pub(super) struct NamesWith {
    /// For each occurrence: where its string begins, where the occurrence begins.
    places: Vec<(u32, u32)>,
}

impl NamesWith {
    pub(super) fn new(names: &[u8], text: &[u8]) -> Self {
        let places = memchr::memmem::find_iter(names, text).filter_map(|at| {
            let begin = names
                .get(..at)
                .and_then(|before| memchr::memrchr(0, before))
                .map_or(0, |zero| zero + 1);
            Some((u32::try_from(begin).ok()?, u32::try_from(at).ok()?))
        });
        Self {
            places: places.collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether the name at `offset` may contain the text. Linkers let a name begin inside a longer one.
    pub(super) fn may_hold(&self, offset: u32) -> bool {
        let after = self.places.partition_point(|(_, at)| *at < offset);
        self.places.get(after).is_some_and(|(begin, _)| *begin <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_names_lose_their_hash() {
        assert_eq!(
            demangle("_ZN4core9panicking5panic17h0123456789abcdefE"),
            "core::panicking::panic"
        );
        assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
    }

    #[test]
    fn cpp_names_have_parameters_unless_only_the_path_is_wanted() {
        assert_eq!(demangle("_ZN5Queue4pushEi"), "Queue::push(int)");
        assert_eq!(demangle_path("_ZN5Queue4pushEi"), "Queue::push");
    }

    #[test]
    fn other_names_stay() {
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_Znonsense"), "_Znonsense");
    }

    #[test]
    fn a_name_that_explodes_is_cut() {
        // Every level doubles the previous one by back-reference.
        let mut symbol = String::from("_Z1fI1A");
        for level in 0..40 {
            let back = if level == 0 {
                "S_".to_owned()
            } else {
                format!("S{}_", char::from(b'0' + (level % 10) as u8))
            };
            symbol.push_str(&format!("1PI{back}{back}E"));
        }
        symbol.push_str("Evv");
        assert!(demangle(&symbol).len() <= MAX_NAME + '…'.len_utf8());
    }
}

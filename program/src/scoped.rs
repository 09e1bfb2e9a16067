//! Names with the namespaces and types around them, as people, compilers and linkers write them.
//!
//! `Pool<int, 4>::all` is one name whatever the blanks; a namespace without a name is written in three ways, and whoever
//! writes in it leaves it out.

/// How debug information, gdb and clang write a namespace without a name.
pub(crate) const ANONYMOUS: &str = "(anonymous namespace)";
/// How gcc and the symbols write it.
const ALSO_ANONYMOUS: [&str; 3] = ["(anonymousnamespace)", "{anonymous}", "_GLOBAL__N_1"];

/// The parts of a name between `::`, without those that stand in brackets.
pub(crate) fn parts(name: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut parts) = (0usize, 0, Vec::new());
    let bytes = name.as_bytes();
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' | b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && at >= begin && bytes.get(at + 1) == Some(&b':') => {
                parts.extend(name.get(begin..at));
                begin = at + 2;
            }
            _ => {}
        }
    }
    parts.extend(name.get(begin..));
    parts
}

/// The last part of a name.
pub(crate) fn last(name: &str) -> &str {
    parts(name).last().copied().unwrap_or(name).trim()
}

/// Whether a whole name is meant by one that may leave out what is around it, and namespaces without a name.
pub(crate) fn is_meant(whole: &str, wanted: &str) -> bool {
    rest_of(whole, wanted).is_some()
}

/// The same, where nothing that has a name may be left out.
pub(crate) fn is_same(whole: &str, wanted: &str) -> bool {
    rest_of(whole, wanted).is_some_and(|rest| rest.iter().all(|part| is_anonymous(part)))
}

/// A name as it is offered to people.
pub(crate) fn shown(name: &str) -> String {
    let parts = parts(name).into_iter();
    let parts: Vec<&str> = parts
        .map(|part| if is_anonymous(part) { ANONYMOUS } else { part })
        .collect();
    parts.join("::")
}

/// What a whole name has before the parts that a wanted one names.
fn rest_of<'n>(whole: &'n str, wanted: &str) -> Option<Vec<&'n str>> {
    let mut whole = parts(whole);
    let mut wanted = parts(wanted);
    // `::name` is the name at the top.
    let from_top = wanted.first().is_some_and(|first| first.trim().is_empty());
    while let Some(part) = wanted.pop() {
        if from_top && wanted.is_empty() {
            return whole.iter().all(|part| is_anonymous(part)).then_some(whole);
        }
        loop {
            let known = whole.pop()?;
            if is_equal(known, part) {
                break;
            }
            if !is_anonymous(known) {
                return None;
            }
        }
    }
    Some(whole)
}

fn is_equal(one: &str, other: &str) -> bool {
    one == other || written(one) == written(other) || (is_anonymous(one) && is_anonymous(other))
}

/// A part in one spelling: no blanks, and `unsigned long` for what gcc calls `long unsigned int`.
fn written(part: &str) -> String {
    let mut out = String::new();
    let mut number: Vec<&str> = Vec::new();
    let is_word = |it: char| it.is_alphanumeric() || it == '_' || it == '$';
    let mut rest = part;
    while let Some(first) = rest.chars().next() {
        let end = rest
            .find(|it| is_word(it) != is_word(first))
            .unwrap_or(rest.len());
        let (token, behind) = rest.split_at(end);
        rest = behind;
        if NUMBER_WORDS.contains(&token) {
            number.push(token);
        } else if !token.trim().is_empty() {
            out.push_str(&number_type(&std::mem::take(&mut number)));
            out.extend(token.chars().filter(|it| !it.is_whitespace()));
        }
    }
    out + &number_type(&number)
}

/// What types of numbers are written with.
const NUMBER_WORDS: [&str; 6] = ["unsigned", "signed", "long", "short", "int", "char"];

/// A type of numbers, from its words in any order.
fn number_type(words: &[&str]) -> String {
    let count = |word| words.iter().filter(|other| **other == word).count();
    let has_size = count("long") + count("short") + count("char") > 0;
    // `signed` says something of `char` alone.
    let kept = NUMBER_WORDS.iter().flat_map(|word| {
        let times = match *word {
            "signed" if count("char") == 0 => 0,
            "int" => usize::from(!has_size && !words.is_empty()),
            other => count(other),
        };
        std::iter::repeat_n(*word, times)
    });
    kept.collect()
}

fn is_anonymous(part: &str) -> bool {
    let written: String = part.chars().filter(|it| !it.is_whitespace()).collect();
    ALSO_ANONYMOUS.contains(&written.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_keep_what_is_in_them_together() {
        assert_eq!(parts("a::b<c::d, 2>::e"), ["a", "b<c::d, 2>", "e"]);
        assert_eq!(parts("shop::(anonymous namespace)::x"), ["shop", ANONYMOUS, "x"]);
        assert_eq!(last("zero<std::pair<int, long> >"), "zero<std::pair<int, long> >");
        assert_eq!(parts(""), [""]);
        assert_eq!(parts(":::"), ["", ":"]);
    }

    #[test]
    fn what_has_no_name_may_be_left_out_or_written_as_one_likes() {
        let whole = "shop::(anonymous namespace)::stock";
        for wanted in [
            "stock",
            "shop::stock",
            whole,
            "(anonymous namespace)::stock",
            "shop::{anonymous}::stock",
            "shop::_GLOBAL__N_1::stock",
            "::shop::stock",
        ] {
            assert!(is_meant(whole, wanted), "{wanted}");
        }
        for wanted in [
            "shop",
            "other::stock",
            "::stock",
            "shop::(anonymous namespace)",
            "tock",
        ] {
            assert!(!is_meant(whole, wanted), "{wanted}");
        }
        assert!(is_same("shop::_GLOBAL__N_1::stock", "shop::stock"));
        assert!(!is_same(whole, "stock"));
        assert_eq!(shown("shop::_GLOBAL__N_1::stock"), whole);
    }

    #[test]
    fn blanks_in_template_arguments_do_not_matter() {
        assert!(is_meant("ns::Pool<int, 4>::all", "Pool<int,4>::all"));
        assert!(is_meant(
            "Box<std::vector<int> >::value",
            "Box<std::vector<int>>::value"
        ));
        assert!(!is_meant("Box<long>::value", "Box<int>::value"));
    }

    #[test]
    fn types_of_numbers_may_be_written_in_any_order() {
        for (known, wanted) in [
            ("Box<long unsigned int>", "Box<unsigned long>"),
            ("Box<long int>", "Box<long>"),
            ("Box<unsigned int>", "Box<unsigned>"),
            ("Box<short int>", "Box<signed short>"),
            ("Box<long long int, 2>", "Box<long long,2>"),
        ] {
            assert!(is_same(known, wanted), "{known} {wanted}");
        }
        for (known, wanted) in [
            ("Box<unsigned char>", "Box<char>"),
            ("Box<signed char>", "Box<char>"),
            ("Box<long long int>", "Box<long>"),
            ("Box<unsigned int>", "Box<int>"),
            ("Box<>", "Box<int>"),
        ] {
            assert!(!is_same(known, wanted), "{known} {wanted}");
        }
    }
}

//! What programs and their runtimes say when they give up, wherever it stands in the text.

use super::facts::{Facts, Place};
use super::scan::location;
use super::signals;
use crate::report::{Kind, Location, Source};

/// How glibc's and libstdc++'s complaints begin.
const COMPLAINTS: [&str; 17] = [
    "double free or corruption",
    "free(): ",
    "malloc(): ",
    "malloc: ",
    "realloc(): ",
    "calloc(): ",
    "munmap_chunk(): ",
    "malloc_consolidate(): ",
    "corrupted size vs. prev_size",
    "corrupted double-linked list",
    "tcache_thread_shutdown(): ",
    "invalid fastbin entry",
    "Fatal glibc error: ",
    "The futex facility returned an unexpected error code",
    "pure virtual method called",
    "terminate called ",
    "libc++abi: terminating",
];

/// Looks for a message in a line.
pub(super) fn line(text: &str, facts: &mut Facts, after_frames: bool) -> bool {
    assertion(text, facts, after_frames)
        || complaint(text, facts, after_frames)
        || exception(text, facts)
        || shell(text, facts)
}

/// `prog: file.c:12: func: Assertion `x' failed.`; libstdc++ quotes with two apostrophes.
fn assertion(text: &str, facts: &mut Facts, after_frames: bool) -> bool {
    let open = ["Assertion `", "Assertion '"]
        .iter()
        .find_map(|mark| text.find(mark));
    let Some(at) = open.filter(|_| text.ends_with("failed.") || text.ends_with("failed")) else {
        return plain_assertion(text, facts, after_frames);
    };
    let (before, message) = text.split_at(at);
    let mut place = None;
    // The place is `file:line: ` with the program's name before it and the function after it.
    for (colon, _) in before.match_indices(": ") {
        let Some(head) = before.get(..colon) else { break };
        let Some(found) = location(head).filter(|found| found.column.is_none()) else {
            continue;
        };
        let (prog, file) = match found.file.rsplit_once(": ") {
            Some((prog, file)) => (Some(prog), file),
            None => (None, found.file.as_str()),
        };
        if let Some(prog) = prog.filter(|prog| !prog.contains(' ')) {
            facts.program.get_or_insert_with(|| prog.to_owned());
        }
        let function = before
            .get(colon + 2..)
            .unwrap_or_default()
            .trim_end()
            .trim_end_matches(':');
        let function = (!function.is_empty()).then(|| function.to_owned());
        let location = Location {
            file: file.to_owned(),
            ..found
        };
        place = Some(Place {
            source: Source::Glibc,
            function,
            location,
        });
        break;
    }
    facts.say(Kind::Assertion, message, place, after_frames);
    true
}

/// Assertions of other libraries: GLib's `ERROR:file.c:12:func: assertion failed: (x)`.
fn plain_assertion(text: &str, facts: &mut Facts, after_frames: bool) -> bool {
    let Some(rest) = text.split_once("ERROR:").map(|(_, rest)| rest) else {
        return false;
    };
    let Some((head, message)) = rest.split_once(": assertion failed") else {
        return false;
    };
    let place = head.rsplit_once(':').and_then(|(head, function)| {
        let function = Some(function.to_owned());
        Some(Place {
            source: Source::Glibc,
            function,
            location: location(head)?,
        })
    });
    facts.say(
        Kind::Assertion,
        &format!("assertion failed{message}"),
        place,
        after_frames,
    );
    true
}

fn complaint(text: &str, facts: &mut Facts, after_frames: bool) -> bool {
    let text = match text
        .strip_prefix("*** Error in `")
        .and_then(|rest| rest.split_once("': "))
    {
        // `*** Error in `./prog': double free or corruption (fasttop): 0x0000000001a2b010 ***`
        Some((program, rest)) => {
            facts.program.get_or_insert_with(|| program.to_owned());
            rest.trim_end_matches(" ***")
        }
        None => text,
    };
    let starred = text
        .strip_prefix("*** ")
        .filter(|rest| rest.contains(" detected ***"));
    if starred.is_none() && !COMPLAINTS.iter().any(|complaint| text.starts_with(complaint)) {
        return false;
    }
    facts.say(Kind::Abort, text, None, after_frames);
    true
}

fn exception(text: &str, facts: &mut Facts) -> bool {
    let Some(what) = text.strip_prefix("what():") else {
        return false;
    };
    facts.say_more(what.trim());
    true
}

/// What a shell says of a process that died: `Segmentation fault (core dumped)`.
fn shell(text: &str, facts: &mut Facts) -> bool {
    let words = [
        ("Segmentation fault", signals::SIGSEGV),
        ("Aborted", signals::SIGABRT),
        ("Bus error", signals::SIGBUS),
        ("Floating point exception", signals::SIGFPE),
        ("Illegal instruction", signals::SIGILL),
    ];
    let said = words.iter().find(|(words, _)| {
        text.strip_suffix("(core dumped)")
            .unwrap_or(text)
            .trim_end()
            .trim_end_matches('.')
            == *words
            || text.contains(&format!("{words} (core dumped)"))
    });
    let Some((_, signal)) = said else { return false };
    facts.signal = facts.signal.or(Some(*signal));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> (Option<(Kind, String)>, Facts) {
        let mut facts = Facts::default();
        line(text, &mut facts, false);
        (facts.message().map(|(kind, text)| (kind, text.to_owned())), facts)
    }

    #[test]
    fn assertions_name_their_place() {
        let (message, facts) = said("prog: src/a.c:12: check: Assertion `count > 0 && \"a: b\"' failed.");
        assert_eq!(
            message,
            Some((
                Kind::Assertion,
                "Assertion `count > 0 && \"a: b\"' failed.".into()
            ))
        );
        let place = facts.place().unwrap();
        assert_eq!(
            (
                place.function.as_deref(),
                place.location.file.as_str(),
                place.location.line
            ),
            (Some("check"), "src/a.c", 12)
        );
        assert_eq!(facts.program.as_deref(), Some("prog"));
    }

    #[test]
    fn libstdcxx_assertions() {
        let (message, facts) = said(
            "/usr/include/c++/12/bits/stl_vector.h:1123: std::vector<_Tp, _Alloc>::reference \
             std::vector<_Tp, _Alloc>::operator[](size_type) [with _Tp = int]: Assertion '__n < this->size()' failed.",
        );
        assert_eq!(
            message,
            Some((Kind::Assertion, "Assertion '__n < this->size()' failed.".into()))
        );
        assert_eq!(facts.place().unwrap().location.line, 1123);
    }

    #[test]
    fn complaints_of_glibc() {
        for text in [
            "double free or corruption (fasttop)",
            "free(): invalid pointer",
            "*** stack smashing detected ***: terminated",
            "malloc(): unaligned tcache chunk detected",
        ] {
            assert_eq!(said(text).0, Some((Kind::Abort, text.to_owned())));
        }
        let (message, facts) = said("*** Error in `./prog': double free or corruption (out): 0x00007ffd ***");
        assert_eq!(message.unwrap().1, "double free or corruption (out): 0x00007ffd");
        assert_eq!(facts.program.as_deref(), Some("./prog"));
    }
}

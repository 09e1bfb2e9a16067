//! What a program's children do is not the program's, but for those that have its memory: they are counted.

use failsketch_tests::target::Built;

use crate::watching::{self, Way};

#[test]
fn children_in_the_programs_memory_are_counted() {
    for level in ["O0", "O2"] {
        let built = Built::c("vforks.c", level);
        let line = |mark| watching::line_of(&built.text, mark);
        for way in [Way::ATTACHED[0], Way::LAUNCHED[0], Way::LAUNCHED[2]] {
            let watched = way.watch(&built, &[], &["state"]);
            let seen: Vec<_> = watched
                .hits
                .iter()
                .map(|hit| (hit.line, hit.access.as_str(), hit.value, hit.unordered))
                .collect();
            // Nobody who was seen has written what is found at the end, and that is said.
            let expected = [
                (line("@own"), "W", Some(1), false),
                (line("@look"), "R", Some(4), true),
            ];
            assert_eq!(seen, expected, "{way} {level}");
            let notes = watched.summary["notes"].to_string();
            assert!(
                notes.contains("2 children of vfork"),
                "{way} {level}: {}",
                watched.summary
            );
        }
    }
}

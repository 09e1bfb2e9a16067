//! The names of the memory that a slice's statements read and write.

use failsketch_tests::{command, zoo};

#[test]
fn the_failing_line_names_what_it_read() {
    for level in ["O0", "O2"] {
        let binary = zoo::binary("pbzip2-queue", level);
        let at = zoo::program("pbzip2-queue").place("@fail").to_string();
        let arguments = ["slice", "--json", "--exe", binary.to_str().unwrap(), "--at", &at];
        let slice = command::json(arguments).unwrap();
        let accesses = &slice["statements"][0]["statement"]["accesses"];
        let expected = serde_json::json!([{"access": "R", "variable": "q->mut"}]);
        assert_eq!(*accesses, expected, "{level}");
    }
}
